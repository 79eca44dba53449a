"""RingShards: the actors that hold the parts of prioritized rings."""

from __future__ import annotations

import weakref
from dataclasses import asdict

import ray
from ray.actor import ActorHandle

from rllib_per_acc.replay_options import PriorityOptions
from rllib_per_acc.shards.placement import (
    PLACEMENT_TIMEOUT_S,
    ShardPlacementError,
    asked_and_there,
    start_shard,
)
from rllib_per_acc.shards.ring_shard import RingShard
from rllib_per_acc.shards.shard_group import ShardGroup
from rllib_per_acc.shards.shard_options import ShardOptions


class RingShards:
    """Ray actors that hold parts of rings, which it starts and ends.

    Args:
        capacity: Time steps to keep in each ring, in all parts together.
        options: Options of the rings.
        shard_options: How many actors, and where.

    Raises:
        ValueError: If there is less than one time step for each.
        ShardPlacementError: If a shard cannot be started where it was asked to be.
        BackendUnavailableError: If the shards are to use a GPU and cannot.
    """

    def __init__(
        self, capacity: int, options: PriorityOptions, shard_options: ShardOptions
    ) -> None:
        n = shard_options.num_shards
        if capacity < n:
            raise ValueError(f"capacity: got {capacity}, expected at least num_shards={n}")
        self.options = options
        self.capacities = [capacity // n + (i < capacity % n) for i in range(n)]
        actors: list[ActorHandle] = []
        self._end = weakref.finalize(self, _end, actors)
        self._end.atexit = False  # Ray ends the actors of a process that ends
        try:
            for own in self.capacities:
                actor = start_shard(own, asdict(options), shard_options, RingShard)
                actors.append(actor)  # one by one: an error ends those before it
            self.group = ShardGroup(
                actors, self.capacities, owner=True, restarts=shard_options.restart_failed_shards
            )
            late = n - len(self.group.wait_for_all())
            if late:
                raise ShardPlacementError(
                    f"Of {n} replay shards {late} were not placed and started within "
                    f"{PLACEMENT_TIMEOUT_S:g} s. {asked_and_there(shard_options)}"
                )
        except BaseException:
            self._end()
            raise


def _end(actors: list[ActorHandle]) -> None:
    while actors and ray.is_initialized():
        ray.kill(actors.pop(), no_restart=True)
