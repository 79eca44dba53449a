"""A client's connections to all shards of a replay: who is up, who gets which episode."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from ray.actor import ActorHandle

from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.sampling import Floats
from rllib_per_acc.shards.connection import ShardConnection, ShardLostError
from rllib_per_acc.shards.episode_routes import EpisodeRoutes
from rllib_per_acc.shards.frozen import Frozen
from rllib_per_acc.shards.messages import Reply
from rllib_per_acc.shards.placement import PLACEMENT_TIMEOUT_S

T = TypeVar("T")


class PreparedAdd(NamedTuple):
    """An add that is ready to be sent.

    Attributes:
        chunks: What is added.
        dealt: By shard the positions of those that go there.
        parts: By shard the arguments.
        sizes: By shard how many steps that are.
    """

    chunks: Sequence[EpisodeChunk]
    dealt: dict[int, list[int]]
    parts: dict[int, Frozen]
    sizes: dict[int, int]


_MAX_LOSSES = 3
"""How many losses of each shard one operation outlives."""


class ShardGroup:
    """Connections to the shards of one replay.

    Args:
        actors: The shards.
        capacities: Steps that each of them keeps; None: they are told what to evict.
        owner: See `ShardConnection`.
        restarts: Whether shards that die are started again; otherwise a loss is an error.

    Attributes:
        connections: One for each shard.
        routes: Which shard an episode lives in.
        is_recovering: Whether a shard was lost, until somebody sets it to false again.
        num_sent: How many adds and updates were sent: the number of the last.
    """

    def __init__(
        self,
        actors: Sequence[ActorHandle],
        capacities: Sequence[int | None],
        *,
        owner: bool,
        restarts: bool,
    ) -> None:
        self.connections = [
            ShardConnection(i, actor, owner=owner) for i, actor in enumerate(actors)
        ]
        self.routes = EpisodeRoutes(capacities)
        self.is_recovering = False
        self.num_sent = 0
        self._restarts = restarts
        self._losses_seen = [0] * len(actors)

    def __len__(self) -> int:
        return len(self.connections)

    def ready(self) -> list[int]:
        """The shards that are up; waits for one if none is.

        Raises:
            ShardLostError: If none comes up in time, or one was lost and none is started again.
        """
        up = [c.index for c in self.connections if c.is_up()]
        for i, connection in enumerate(self.connections):
            if connection.num_losses and not self._restarts:
                raise ShardLostError(f"{connection.loss} (restart_failed_shards is false)")
            if connection.num_losses != self._losses_seen[i]:
                self._losses_seen[i] = connection.num_losses
                self.routes.forget(i)
                self.is_recovering = True
        up = up or self.wait_for_all()
        if not up:
            what = f"none of {len(self)} replay shards could be started again within "
            what += f"{PLACEMENT_TIMEOUT_S:g} s"
            if all(c.is_dead for c in self.connections):
                what = f"all {len(self)} replay shards have ended, most probably with their replay"
            last = max(self.connections, key=lambda c: c.lost_at)
            raise ShardLostError(f"{what}; the last loss: {last.loss}")
        return up

    def wait_for_all(self) -> list[int]:
        """The shards that are up when all are, or else when they have had time to start."""
        end = time.monotonic() + PLACEMENT_TIMEOUT_S
        return [
            c.index for c in self.connections if c.wait_until_up(max(end - time.monotonic(), 0))
        ]

    def outlive(self, operation: Callable[[list[int]], T]) -> T:
        """Calls `operation` with the shards that are up, and again when one was lost meanwhile.

        Raises:
            ShardLostError: If that does not end, or lost shards are not started again.
        """
        for _ in range(_MAX_LOSSES * len(self)):
            up = self.ready()
            try:
                return operation(up)
            except ShardLostError:
                continue
        return operation(self.ready())

    def ask_all(self, method: str, *arguments: Any) -> dict[int, Reply]:
        """The replies of all shards that are up to the same call, made at once."""

        def ask(up: list[int]) -> dict[int, Reply]:
            calls = {i: self.connections[i].ask(method, *arguments) for i in up}
            return {i: self.connections[i].answer(call) for i, call in calls.items()}

        return self.outlive(ask)

    # Adding

    def prepare_add(
        self, chunks: Sequence[EpisodeChunk], weight: Floats | None, evict: Sequence[Any]
    ) -> PreparedAdd:
        """Decides what goes where, and keeps what the caller gave as it is now.

        Args:
            chunks: What to add, checked.
            weight: First priorities, one for each step.
            evict: Ids of the episodes to evict.

        Raises:
            ShardLostError: If no shard is up and none comes up in time.
            TypeError, ValueError: If the shards would refuse some of it: of what goes to several
                shards nothing is sent then.
        """
        up = self.outlive(self._make_room)
        dealt, in_doubt = {0: list(range(len(chunks)))}, False
        if len(self) > 1:
            dealt, in_doubt = self.routes.dealt(chunks, up)
        lengths = [len(chunk) for chunk in chunks]
        weights = [] if weight is None else np.split(weight, np.cumsum(lengths)[:-1])
        parts, sizes = {}, {}
        for shard in up if evict else dealt:  # any shard may have what is to be evicted
            positions = dealt.get(shard, [])
            own = np.concatenate([[], *(weights[p] for p in positions)]) if weights else None
            parts[shard] = Frozen(([chunks[p] for p in positions], own, evict))
            sizes[shard] = sum(lengths[p] for p in positions)
        if in_doubt and len(dealt) > 1:
            calls = [(c, c.ask("check_add", parts[c.index])) for c in self._at(parts)]
            for connection, call in calls:
                connection.answer(call)
        return PreparedAdd(chunks, dealt, parts, sizes)

    def next_number(self) -> int:
        """The number of the next add or update."""
        self.num_sent += 1
        return self.num_sent

    def add(self, prepared: PreparedAdd, number: int) -> None:
        """Sends what was prepared and does not wait for it; again with one number does nothing."""
        for shard, arguments in prepared.parts.items():
            self.send(shard, "add", arguments, prepared.sizes[shard], number)
        if len(self) > 1:
            self.routes.sent(prepared.chunks, prepared.dealt)

    def send(self, shard: int, method: str, arguments: Frozen, size: int, number: int) -> None:
        """Sends to one shard; again with one number does nothing. What gets lost is counted."""
        with contextlib.suppress(ShardLostError):
            self.connections[shard].send(method, arguments, size=size, number=number)

    def _at(self, shards: Iterable[int]) -> list[ShardConnection]:
        return [self.connections[shard] for shard in shards]

    def settle(self) -> None:
        """Waits for everything sent."""

        def settle(up: list[int]) -> None:
            for i in up:
                self.connections[i].settle()

        self.outlive(settle)

    def _make_room(self, up: list[int]) -> list[int]:
        for i in up:
            self.connections[i].make_room()
        return up

    def earlier_error(self) -> Exception | None:
        """Takes the error of the first call that was sent and failed, if there is one."""
        failed = [
            (number, connection) for connection in self.connections for number in connection.errors
        ]
        if not failed:
            return None
        number, connection = min(failed, key=lambda each: each[0])
        return connection.errors.pop(number)

    def raise_earlier(self, cause: BaseException | None = None) -> None:
        """Raises the error of the first call that was sent and failed, if there is one."""
        error = self.earlier_error()
        if error is not None:
            raise error from cause
