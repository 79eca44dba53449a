"""ReplayShard: a part of a replay as a Ray actor."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import ray

from rllib_per_acc.activity import Activity
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.replay_batch import RowHandle
from rllib_per_acc.replay_part import (
    PartCounters,
    PartStatus,
    ReplayPart,
)


class Reply(NamedTuple):
    """What comes back from every call.

    Attributes:
        result: What the method returned.
        boot: A number that is another one whenever the shard started empty.
        status: Of the shard after the call.
    """

    result: Any
    boot: int
    status: PartStatus


class ReplayShard:
    """A `ReplayPart` for use as a Ray actor; see there for the arguments.

    Clients call `hello` first, and then everything else through `call`.
    """

    def __init__(self, capacity: int | None, options: dict[str, Any]) -> None:
        self._arguments = capacity, options
        self._failure: Exception | None = None
        self._predecessor: int | None = None
        self._times: dict[str, tuple[int, float]] = {}
        try:
            self._start_empty()
        except Exception as error:
            self._failure = error

    def _start_empty(self) -> None:
        capacity, options = self._arguments
        self._replay = ReplayPart(capacity, **options)
        self._boot = self._replay.incarnation = time.time_ns()

    @ray.method(max_task_retries=-1)
    def hello(self, lost_boot: int | None = None, lost_status: PartStatus | None = None) -> Reply:
        """Where the shard runs: `pid`, `node`, `device`.

        Args:
            lost_boot: The boot that the caller counts as lost. If that is this one (it was out of
                reach and did not die), the shard starts empty.
            lost_status: The last status of the lost one; the shard goes on from its counters.

        Raises:
            Exception: What kept the shard from starting.
        """
        if self._failure is not None:
            raise self._failure
        if lost_status is not None and self._predecessor != lost_boot:
            self._predecessor = lost_boot
            if self._boot == lost_boot:
                self._start_empty()
            self._replay.carry_on(lost_status.counters)
        return self._reply(
            {
                "pid": os.getpid(),
                "node": ray.get_runtime_context().get_node_id(),
                "device": self._replay.tree.device,
            }
        )

    def call(self, method: str, *arguments: Any) -> Reply:
        """Calls one of the methods below, or else of `ReplayPart`."""
        started = time.perf_counter()
        target = self if hasattr(self, method) else self._replay
        result = getattr(target, method)(*arguments)
        count, seconds = self._times.get(method, (0, 0.0))
        self._times[method] = count + 1, seconds + time.perf_counter() - started
        return self._reply(result)

    def _reply(self, result: Any) -> Reply:
        return Reply(result, self._boot, self._replay.status())

    def add(self, chunks: Sequence[EpisodeChunk], weight: Any, evict: Sequence[str]) -> None:
        """See `PrioritizedReplay.add`."""
        for chunk in chunks:
            # Arrays inside are views of Ray's object store, which would keep all of it in memory.
            chunk.infos = copy.deepcopy(chunk.infos)
        self._replay.add(chunks, weight, evict)

    def sample(
        self, num_items: int, options: dict[str, Any]
    ) -> tuple[dict[str, Any], RowHandle, Activity]:
        """Columns and handle of a batch, and what happened since the last report."""
        batch = self._replay.sample(num_items, **options)
        return batch.columns, batch.handle, self._replay.take_activity()

    def info(self) -> dict[str, Any]:
        """`PrioritizedReplay.info`, and by method the number of `calls` and their `seconds`."""
        return self._replay.info() | {
            "calls": {method: count for method, (count, _) in self._times.items()},
            "seconds": {method: seconds for method, (_, seconds) in self._times.items()},
        }

    def clear(self, counters: PartCounters) -> None:
        """Takes everything out, and goes on from these counters."""
        incarnation = self._replay.incarnation + 1
        capacity, options = self._arguments
        self._replay = ReplayPart(capacity, **options)
        self._replay.incarnation = incarnation
        self._replay.carry_on(counters)
