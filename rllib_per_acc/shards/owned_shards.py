"""OwnedShards: shards that are started for one owner, and end with it."""

from __future__ import annotations

import logging
import weakref
from dataclasses import asdict

import ray
from ray.actor import ActorHandle

from rllib_per_acc.replay_options import PriorityOptions, positive_int
from rllib_per_acc.shards.placement import (
    PLACEMENT_TIMEOUT_S,
    ShardPlacementError,
    asked_and_there,
    start_shard,
)
from rllib_per_acc.shards.shard_group import ShardGroup
from rllib_per_acc.shards.shard_options import ShardOptions

logger = logging.getLogger(__name__)


class ReplayClosedError(RuntimeError):
    """The shards were ended by `close()`."""


class OwnedShards:
    """Starts shards, and ends them when it is no longer referred to.

    Args:
        capacity: Time steps to keep in all; None: the shards are told what to evict.
        options: What the shards are given.
        shard_options: How many, and where.
        shard_class: `ReplayShard` or a class derived from it.

    Attributes:
        capacities: Of the shards.
        actors: The shards.
        num_users: Of rings how many are in them.

    Raises:
        TypeError, ValueError: If `capacity` is no integer, or less than one for each shard.
        ShardPlacementError: If a shard cannot be started where it was asked to be.
        BackendUnavailableError: If the shards are to use a GPU and cannot.
    """

    def __init__(
        self,
        capacity: int | None,
        options: PriorityOptions,
        shard_options: ShardOptions,
        shard_class: type,
    ) -> None:
        n = positive_int("num_shards", shard_options.num_shards)
        if capacity is not None and positive_int("capacity", capacity) < n:
            raise ValueError(f"capacity: got {capacity}, expected at least num_shards={n}")
        self.options = options
        self.num_users = 0
        self.capacities = [
            None if capacity is None else capacity // n + (i < capacity % n) for i in range(n)
        ]
        self.actors: list[ActorHandle] = []
        self._end = weakref.finalize(self, _end, self.actors)
        self._end.atexit = False  # Ray ends the actors of a process that ends
        try:
            for own in self.capacities:
                actor = start_shard(own, asdict(options), shard_options, shard_class)
                self.actors.append(actor)  # one by one: an error ends those before it
            restarts = shard_options.restart_failed_shards
            self._group = ShardGroup(self.actors, self.capacities, owner=True, restarts=restarts)
            late = n - len(self._group.wait_for_all())
            if late:
                raise ShardPlacementError(
                    f"Of {n} replay shards {late} were not placed and started within "
                    f"{PLACEMENT_TIMEOUT_S:g} s. {asked_and_there(shard_options)}"
                )
        except BaseException:
            self.close()
            raise
        away = [str(c) for c in self._group.connections if not c.is_near]
        if away and shard_options.shard_placement == "colocated" and not shard_options.resources():
            logger.warning(
                "Ray put %s on another node than the algorithm's, which it took for gone or full; "
                "samples come over the network.",
                ", ".join(away),
            )

    @property
    def group(self) -> ShardGroup:
        """Calls to the shards.

        Raises:
            ReplayClosedError: After `close`.
        """
        if self.is_closed:
            raise ReplayClosedError("got a call after close(), which ended the replay's shards")
        return self._group

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return not self._end.alive

    def close(self) -> None:
        """Ends the actors. What they hold is gone. Closing again does nothing."""
        self._end()


def _end(actors: list[ActorHandle]) -> None:
    while actors and ray.is_initialized():
        ray.kill(actors.pop(), no_restart=True)
