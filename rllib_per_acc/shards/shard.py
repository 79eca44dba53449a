"""ReplayShard: a part of a replay as a Ray actor."""

from __future__ import annotations

import copy
import os
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayTaskError

from rllib_per_acc.activity import Activity
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.parts_on_file import LocalPart
from rllib_per_acc.replay_batch import RowHandle
from rllib_per_acc.replay_part import PartStatus, ReplayPart
from rllib_per_acc.shards.rows_in_place import take_in_place


class Operation(NamedTuple):
    """What a client wants a shard to do.

    Attributes:
        method: Of `ReplayShard`, `ReplayPart` or `LocalPart`.
        arguments: Of the method.
        size: How many steps it adds, or how many priorities it updates.
    """

    method: str
    arguments: tuple[Any, ...]
    size: int = 0


class Reply(NamedTuple):
    """What comes back from every call.

    Attributes:
        result: What the method that was asked for returned.
        boot: A number that is another one whenever the shard started empty.
        status: Of the shard after the call.
        times: By method how often it was called so far, and how many seconds that took.
        error: What the method that was asked for raised.
        refused: What the first one raised of those that were sent along.
    """

    result: Any
    boot: int
    status: PartStatus
    times: Mapping[str, tuple[int, float]]
    error: RayTaskError | None = None
    refused: RayTaskError | None = None


class ReplayShard:
    """A `ReplayPart` for use as a Ray actor; see there for the arguments.

    Clients call `hello` first, and then everything else through `perform`.
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
        self._part = LocalPart(self._replay)
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

    def perform(self, operations: Sequence[Operation], num_asked: int) -> Reply:
        """Does one thing after the other, also when one fails.

        Args:
            operations: What to do.
            num_asked: 1 if the result of the last one is wanted, else 0.
        """
        done = [self._attempt(operation) for operation in operations]
        result, error = done.pop() if num_asked else (None, None)
        refused = next((error for _, error in done if error is not None), None)
        return self._reply(result, error, refused)

    def _attempt(self, operation: Operation) -> tuple[Any, RayTaskError | None]:
        try:
            return self.call(operation.method, *operation.arguments), None
        except Exception as error:
            return None, _told(f"{type(self).__name__}.{operation.method}", error)

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls one of the methods below, or else of `ReplayPart` or `LocalPart`."""
        started = time.perf_counter()
        self._replay.read_observations_by(take_in_place)  # restoring it makes another store
        result = self._method(method)(*arguments)
        count, seconds = self._times.get(method, (0, 0.0))
        self._times[method] = count + 1, seconds + time.perf_counter() - started
        return result

    def stream(self, method: str, *arguments: Any) -> Iterator[Reply]:
        """As `call`, of a method that yields. Nothing else is done before it ends."""
        for result in self._method(method)(*arguments):
            yield self._reply(result)

    def _method(self, name: str) -> Any:
        targets = (self, self._replay, self._part)
        return getattr(next((t for t in targets if hasattr(t, name)), self), name)

    def _reply(
        self, result: Any, error: RayTaskError | None = None, refused: RayTaskError | None = None
    ) -> Reply:
        return Reply(result, self._boot, self._replay.status(), self._times, error, refused)

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

    def read(self, asked: Sequence[Any], options: dict[str, Any]) -> list[Any]:
        """See `PrioritizedReplay.read`."""
        return self._replay.read(*asked, **options)


def _told(function: str, error: Exception) -> RayTaskError:
    """An error as Ray tells it to a caller, with the traceback of this process."""
    return RayTaskError(
        function,
        traceback.format_exc(),
        error,
        proctitle=f"ray::{function}",
        pid=os.getpid(),
        ip=ray.util.get_node_ip_address(),
    )
