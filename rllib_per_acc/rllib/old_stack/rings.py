"""Where the rows of a buffer are: rings in its own process, or in Ray actors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rllib_per_acc.copies import NoCopies
from rllib_per_acc.prioritized_ring import PrioritizedRing
from rllib_per_acc.replay_options import PriorityOptions
from rllib_per_acc.ring_client import RingClient
from rllib_per_acc.rllib.compat import made_into_actor
from rllib_per_acc.shards.shard_options import ShardOptions

if TYPE_CHECKING:
    from rllib_per_acc.shards.owned_shards import OwnedShards

RingMaker = Callable[[str], RingClient]
"""Makes the ring with this name."""


def ring_maker(
    buffer_class: type, capacity: int, options: PriorityOptions, shards: ShardOptions
) -> RingMaker:
    """How the rings of a buffer are made.

    Actors are started for the first ring and hold all of them, until all are closed. RLlib's
    `validate_buffer_config` makes a buffer only to look at its class, which should start none.

    Args:
        buffer_class: The buffer's class. Where it was itself made into an actor the rows stay in
            that actor.
        capacity: Time steps to keep in each ring.
        options: Options of the rings.
        shards: How many actors, and where; none for the rows in this process.
    """
    if shards.num_shards == 0 or made_into_actor(buffer_class):
        return partial(PrioritizedRing, capacity, options)
    return _RingsInActors(capacity, options, shards)


class _RingsInActors(NoCopies):
    """Makes rings in the same actors; see `ring_maker` for the arguments."""

    def __init__(self, capacity: int, options: PriorityOptions, shards: ShardOptions) -> None:
        self._arguments = capacity, options, shards
        self._started: OwnedShards | None = None

    def __call__(self, name: str) -> RingClient:
        from rllib_per_acc.shards.owned_shards import OwnedShards
        from rllib_per_acc.shards.ring_shard import RingShard
        from rllib_per_acc.shards.sharded_ring import ShardedRing

        if self._started is None or self._started.is_closed:
            self._started = OwnedShards(*self._arguments, RingShard)
        return ShardedRing(self._started, name)
