"""Replays as Ray actors: the shard, and the client that talks to it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import ray
from ray.actor import ActorHandle

from rllib_per_acc.activity import Activity
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.replay import PrioritizedReplay
from rllib_per_acc.replay_batch import ReplayBatch, RowHandle

MAX_CALLS_IN_FLIGHT = 16
"""How many adds and updates a client sends before it waits for the oldest."""


class ReplayShard:
    """A `PrioritizedReplay` for use as a Ray actor; see there for the arguments."""

    def __init__(self, capacity: int, options: dict[str, Any]) -> None:
        self._replay = PrioritizedReplay(capacity, **options)

    def add(self, chunks: Sequence[EpisodeChunk], weight: Any) -> None:
        """See `PrioritizedReplay.add`."""
        self._replay.add(chunks, weight)

    def sample(
        self, num_items: int, options: dict[str, Any]
    ) -> tuple[dict[str, Any], RowHandle, Activity]:
        """Columns and handle of a batch, and what happened since the last report."""
        batch = self._replay.sample(num_items, **options)
        return batch.columns, batch.handle, self._replay.take_activity()

    def update(self, handle: RowHandle, priorities: np.ndarray) -> None:
        """See `PrioritizedReplay.update`."""
        self._replay.update(handle, priorities)

    def take_activity(self) -> Activity:
        """See `PrioritizedReplay.take_activity`."""
        return self._replay.take_activity()

    def info(self) -> dict[str, Any]:
        """`PrioritizedReplay.info`, and where the shard runs: `pid`, `node`."""
        node = ray.get_runtime_context().get_node_id()
        return self._replay.info() | {"pid": os.getpid(), "node": node}

    def get_priorities(self) -> dict[str, np.ndarray]:
        """See `PrioritizedReplay.get_priorities`."""
        return self._replay.get_priorities()

    def get_chunks(self, start: int, stop: int) -> list[EpisodeChunk]:
        """See `PrioritizedReplay.get_chunks`."""
        return self._replay.get_chunks(start, stop)

    def get_state(self) -> dict[str, Any]:
        """See `PrioritizedReplay.get_state`."""
        return self._replay.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """See `PrioritizedReplay.set_state`."""
        self._replay.set_state(state)


def start_shard(
    capacity: int, options: dict[str, Any], *, num_cpus: float = 0, num_gpus: float = 0
) -> ActorHandle:
    """Starts a shard as an actor that lives as long as its handle's owner."""
    actor_class = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus)(ReplayShard)
    return actor_class.remote(capacity, options)


class RemoteReplay:
    """A `ReplayClient` for a replay in another process.

    Adds and priority updates are sent and not waited for, at most `MAX_CALLS_IN_FLIGHT` at a time.
    The shard works in the order of the calls, so a sample sees everything sent before it. An error
    in a call that was not waited for is raised by a later one: the next that waits.
    """

    def __init__(self, shard: ActorHandle, metrics_window: int) -> None:
        self._shard = shard
        self._in_flight: deque[ray.ObjectRef] = deque()
        self._activity = Activity(metrics_window)
        self._reported = True

    def _send(self, reference: ray.ObjectRef) -> None:
        self._in_flight.append(reference)
        self._reported = False
        if len(self._in_flight) > MAX_CALLS_IN_FLIGHT:
            ray.get(self._in_flight.popleft())

    def _wait(self, reference: ray.ObjectRef) -> Any:
        """The result of a call; errors of earlier calls come first."""
        sent = [*self._in_flight, reference]
        self._in_flight.clear()
        return ray.get(sent)[-1]

    def add(self, chunks: Sequence[EpisodeChunk], weight: Any = None) -> None:
        """Sends chunks; see `PrioritizedReplay.add`."""
        self._send(self._shard.add.remote(chunks, weight))

    def sample(self, num_items: int, **options: Any) -> ReplayBatch:
        """Draws transitions; see `PrioritizedReplay.sample`."""
        reply = self._wait(self._shard.sample.remote(num_items, options))
        columns, handle, activity = reply
        self._activity.merge(activity)
        self._reported = True
        return ReplayBatch(columns, handle, self)

    def update(self, handle: RowHandle, priorities: np.ndarray) -> None:
        """Sends priorities; see `PrioritizedReplay.update`."""
        self._send(self._shard.update.remote(handle, priorities))

    def take_activity(self) -> Activity:
        """What happened since the last call."""
        if not self._reported:
            self._activity.merge(self._wait(self._shard.take_activity.remote()))
            self._reported = True
        taken, self._activity = self._activity, Activity(self._activity.window)
        return taken

    def info(self) -> dict[str, Any]:
        """See `ReplayShard.info`."""
        return self._wait(self._shard.info.remote())

    def get_priorities(self) -> dict[str, np.ndarray]:
        """See `PrioritizedReplay.get_priorities`."""
        return self._wait(self._shard.get_priorities.remote())

    def get_chunks(self, start: int, stop: int) -> list[EpisodeChunk]:
        """See `PrioritizedReplay.get_chunks`."""
        return self._wait(self._shard.get_chunks.remote(start, stop))

    def get_state(self) -> dict[str, Any]:
        """See `PrioritizedReplay.get_state`."""
        return self._wait(self._shard.get_state.remote())

    def set_state(self, state: dict[str, Any]) -> None:
        """See `PrioritizedReplay.set_state`."""
        self._wait(self._shard.set_state.remote(state))
