"""Draws under way: calls to shards whose replies may still be on the way."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from rllib_per_acc.activity import Activity
from rllib_per_acc.replay_batch import RowHandle
from rllib_per_acc.replay_union import Calls, Replies
from rllib_per_acc.shards.connection import Call, ShardConnection


class SingleDraw(NamedTuple):
    """A batch that one shard drew alone, and what it did since its last report."""

    columns: dict[str, Any]
    handle: RowHandle
    activity: Activity


def draw_from_one(
    shard: int, num_items: int, options: dict[str, Any]
) -> Generator[Calls, Replies, SingleDraw]:
    """The steps of a draw from a single shard: one call, the same protocol as `draw_from_parts`."""
    replies = yield {shard: ("sample", (num_items, options))}
    return SingleDraw(*replies[shard][0])


class Draw:
    """A draw under way.

    Args:
        steps: Yields calls to make and returns what was drawn.
        connections: To the shards.
    """

    def __init__(
        self, steps: Generator[Calls, Replies, Any], connections: Sequence[ShardConnection]
    ) -> None:
        self._steps = steps
        self._connections = connections
        self._result: Any = None
        self._calls: dict[int, Call] = {}
        self._ask(next(steps))

    def _ask(self, calls: Calls) -> None:
        self._calls = {
            shard: self._connections[shard].ask(method, *arguments)
            for shard, (method, arguments) in calls.items()
        }

    def _go_on(self) -> None:
        answers = {s: self._connections[s].answer(call) for s, call in self._calls.items()}
        try:
            self._ask(self._steps.send({s: (a.result, a.status) for s, a in answers.items()}))
        except StopIteration as end:
            self._result, self._calls = end.value, {}

    def advance(self) -> None:
        """Makes the next calls if the replies to the last ones are there; does not wait."""
        while self._calls and all(
            self._connections[shard].is_answered(call) for shard, call in self._calls.items()
        ):
            self._go_on()

    def finish(self) -> Any:
        """Waits for the rest.

        Raises:
            ShardLostError: If a shard was lost in the meantime; the others may be drawn from anew.
            NothingToSampleError, TimeoutError, Exception: As the calls.
        """
        while self._calls:
            self._go_on()
        return self._result
