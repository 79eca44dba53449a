"""ReplayShard: a part of a replay as a Ray actor."""

from __future__ import annotations

import copy
import os
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayTaskError

from rllib_per_acc.activity import Activity
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.parts_on_file import LocalPart
from rllib_per_acc.replay_batch import RowHandle
from rllib_per_acc.replay_part import PartCounters, ReplayPart, added_up, minus
from rllib_per_acc.shards.frozen import Frozen
from rllib_per_acc.shards.lives import Life, Lives
from rllib_per_acc.shards.messages import Operation, Reply
from rllib_per_acc.shards.rows_in_place import take_in_place
from rllib_per_acc.structures import map_leaves


class ReplayShard:
    """A `ReplayPart` for use as a Ray actor; see there for the arguments.

    Clients call `hello` first, and then everything else through `perform`.
    """

    def __init__(self, capacity: int | None, options: dict[str, Any]) -> None:
        self._arguments = capacity, options
        self._failure: Exception | None = None
        self._lives = Lives()
        self._clock = 0
        self._done: dict[tuple[str, str], tuple[int, RayTaskError | None]] = {}
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
        self._added_again = 0

    @ray.method(max_task_retries=-1)
    def hello(self, known: Lives | None = None, lost_boot: int | None = None) -> Reply:
        """Where the shard runs: `pid`, `node`, `device`.

        Args:
            known: What the caller knows of the shard's starts; the shard goes on from what those
                that ended had counted.
            lost_boot: The boot that the caller counts as lost. If that is this one (it was out of
                reach and did not die), the shard starts empty.

        Raises:
            Exception: What kept the shard from starting.
        """
        if self._failure is not None:
            raise self._failure
        if self._boot == lost_boot:
            self._lives.by_boot[self._boot] = self._life()
            self._start_empty()
            self._lives, known_before = Lives(), self._lives
            self._go_on_from(known_before)
        if known is not None:
            self._go_on_from(known)
        return self._reply(
            {
                "pid": os.getpid(),
                "node": ray.get_runtime_context().get_node_id(),
                "device": self._replay.tree.device,
            }
        )

    def _go_on_from(self, known: Lives) -> None:
        before = self._counted_before()
        self._lives.merge(known)
        self._replay.carry_on(minus(self._counted_before(), before))

    def _counted_before(self) -> PartCounters:
        """What was counted by the starts that have ended."""
        lives = self._lives
        counted = added_up(life.counters for life in lives.ended(self._boot))
        counted.lifetimes.steps_added += lives.steps_under_way(self._boot)
        return counted

    def _life(self) -> Life:
        """This start of the shard."""
        is_restored = self._replay.incarnation != self._boot
        status = self._replay.status()
        counters = status.counters
        if len(self._lives.by_boot) > 1 and not is_restored:
            counters = minus(counters, self._counted_before())
        return Life(self._clock, is_restored, status.steps, counters, self._added_again)

    def perform(self, operations: Sequence[Operation], num_asked: int, client: str) -> Reply:
        """Does one thing after the other, also when one fails.

        Args:
            operations: What to do.
            num_asked: 1 if the result of the last one is wanted, else 0.
            client: Who wants it. What was sent before with its number is not done again.
        """
        sent, asked = operations, None
        if num_asked:
            *sent, asked = operations
        refused = {}
        for operation in sent:
            error = self._done_once(operation, client)
            if error is not None:
                refused[operation.number] = error
        result, error = self._attempt(asked) if asked is not None else (None, None)
        return self._reply(result, error, refused, operations[-1].method)

    def _done_once(self, operation: Operation, client: str) -> RayTaskError | None:
        key = client, operation.method
        number, error = self._done.get(key, (0, None))
        if number != operation.number:
            _, error = self._attempt(operation)
            self._done[key] = operation.number, error
        return error

    def _attempt(self, operation: Operation) -> tuple[Any, RayTaskError | None]:
        what = f"{type(self).__name__}.{operation.method}"
        if operation.number:
            what = f"{what} (number {operation.number} of what its client sent)"
        try:
            arguments = operation.arguments
            if isinstance(arguments, Frozen):
                arguments = arguments.thaw()
            return self.call(operation.method, *arguments), None
        except Exception as error:
            return None, _told(what, error)

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls one of the methods below, or else of `ReplayPart` or `LocalPart`."""
        started = time.perf_counter()
        self._replay.read_observations_by(take_in_place)  # restoring it makes another store
        result = self._method(method)(*arguments)
        self._took(method, 1, started)
        return result

    def stream(self, method: str, *arguments: Any) -> Iterator[Reply]:
        """As `call`, of a method that yields. Nothing else is done before it ends."""
        for result in self._method(method)(*arguments):
            yield self._reply(result)

    def _method(self, name: str) -> Any:
        targets = (self, self._replay, self._part)
        return getattr(next((t for t in targets if hasattr(t, name)), self), name)

    def _reply(
        self,
        result: Any,
        error: RayTaskError | None = None,
        refused: Mapping[int, RayTaskError] = MappingProxyType({}),
        method: str | None = None,
    ) -> Reply:
        started = time.perf_counter()
        self._clock += 1
        self._lives.by_boot[self._boot] = life = self._life()
        if life.is_restored:
            self._lives = Lives({self._boot: life})
        status = self._replay.status()
        if method is not None:
            self._took(method, 0, started)
        return Reply(result, self._boot, status, self._lives, self._times, error, dict(refused))

    def _took(self, method: str, calls: int, started: float) -> None:
        count, seconds = self._times.get(method, (0, 0.0))
        self._times[method] = count + calls, seconds + time.perf_counter() - started

    def add(self, chunks: Sequence[EpisodeChunk], weight: Any, evict: Sequence[str]) -> None:
        """See `PrioritizedReplay.add`."""
        for chunk in chunks:
            # Objects inside are views of Ray's object store, which would keep all of it in memory.
            chunk.observations = map_leaves(own_objects, chunk.observations)
            chunk.actions = map_leaves(own_objects, chunk.actions)
            chunk.infos = copy.deepcopy(chunk.infos)
            chunk.extra_model_outputs = {
                name: map_leaves(own_objects, values)
                for name, values in chunk.extra_model_outputs.items()
            }
        self._replay.add(chunks, weight, evict)

    def add_again(self, chunks: Sequence[EpisodeChunk], weight: Any) -> None:
        """Adds what had been added before and was lost; it is not counted as added twice."""
        self._added_again += self._replay.add_again(chunks, weight)

    def check_add(self, arguments: Frozen) -> None:
        """Raises what `add` with these arguments would raise."""
        self._replay.prepare_add(*arguments.thaw())

    def sample(
        self, num_items: int, options: dict[str, Any]
    ) -> tuple[dict[str, Any], RowHandle, Activity]:
        """Columns and handle of a batch, and what happened since the last report.

        The sample is not counted here: that is done where it is used.
        """
        return self._replay.draw_alone(num_items, options)

    def example(self) -> list[EpisodeChunk]:
        """The oldest episode, if there is one."""
        return self._replay.get_chunks(0, 1)

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


def own_objects(leaf: Any) -> Any:
    """A leaf whose items, where they are objects, are copies."""
    is_numbers = isinstance(leaf, np.ndarray) and leaf.dtype != object
    return leaf if is_numbers else copy.deepcopy(leaf)
