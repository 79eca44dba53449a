"""A client's connections to all shards of a replay: who is up, who gets which episode."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from ray.actor import ActorHandle

from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.sampling import checked_weight
from rllib_per_acc.shards.connection import ShardConnection, ShardLostError
from rllib_per_acc.shards.episode_routes import EpisodeRoutes
from rllib_per_acc.shards.placement import PLACEMENT_TIMEOUT_S
from rllib_per_acc.shards.shard import Reply

T = TypeVar("T")

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

    def add(
        self, chunks: Sequence[EpisodeChunk], weight: Any = None, evict: Sequence[str] = ()
    ) -> None:
        """Sends chunks to the shards of their episodes and does not wait for them.

        Raises:
            TypeError, ValueError: If a weight is wrong.
            ShardLostError: If no shard is up and none comes up in time.
            Exception: What a call sent before raised in its shard.
        """
        up = self.outlive(self._make_room)
        if len(self) == 1:
            self._send(0, chunks, weight, evict)
            return
        lengths = [len(chunk) for chunk in chunks]
        weights: list[Any] = []
        if weight is not None:
            weights = np.split(checked_weight(weight, sum(lengths)), np.cumsum(lengths)[:-1])
        dealt = self._deal(chunks, up)
        for i in up if evict else dealt:  # any shard may have what is to be evicted
            positions = dealt.get(i, [])
            own = np.concatenate([[], *(weights[p] for p in positions)]) if weights else None
            self._send(i, [chunks[p] for p in positions], own, evict)

    def settle(self) -> None:
        """Waits for everything sent.

        Raises:
            Exception: As `add`.
        """

        def settle(up: list[int]) -> None:
            for i in up:
                self.connections[i].settle()

        self.outlive(settle)

    def _make_room(self, up: list[int]) -> list[int]:
        for i in up:
            self.connections[i].make_room()
        return up

    def _deal(self, chunks: Sequence[EpisodeChunk], up: list[int]) -> dict[int, list[int]]:
        """By shard the positions of the chunks that go there."""
        dealt: dict[int, list[int]] = {}
        for position, chunk in enumerate(chunks):
            dealt.setdefault(self.routes.route(chunk, up), []).append(position)
        return dealt

    def _send(
        self, shard: int, chunks: Sequence[EpisodeChunk], weight: Any, evict: Sequence[str]
    ) -> None:
        size = sum(len(chunk) for chunk in chunks)
        self.connections[shard].send("add", chunks, weight, evict, size=size)
