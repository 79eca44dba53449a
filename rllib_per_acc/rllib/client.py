"""Where a buffer's rows are: in its own process, or in Ray actors."""

from __future__ import annotations

import dataclasses

from rllib_per_acc.replay import PrioritizedReplay
from rllib_per_acc.replay_batch import ReplayClient
from rllib_per_acc.replay_options import ReplayOptions
from rllib_per_acc.ring_client import RingClient
from rllib_per_acc.rllib.compat import made_into_actor
from rllib_per_acc.shards.shard_options import ShardOptions


def replay_client(
    buffer_class: type, capacity: int | None, options: ReplayOptions, shards: ShardOptions
) -> ReplayClient:
    """Starts the replay of a buffer.

    Args:
        buffer_class: The buffer's class. Where it was itself made into an actor the rows stay in
            that actor.
        capacity: Time steps to keep; None: the buffer says what is evicted.
        options: Options of the replay.
        shards: How many actors, and where; none for the rows in this process.
    """
    if shards.num_shards == 0 or made_into_actor(buffer_class):
        return PrioritizedReplay(capacity, **dataclasses.asdict(options))
    from rllib_per_acc.shards import ShardedReplay

    return ShardedReplay(capacity, dataclasses.asdict(options), shards)


def close_client(client: ReplayClient | RingClient) -> None:
    """Ends the actors of a replay or a ring, where it has some; again: does nothing."""
    close = getattr(client, "close", None)
    if close is not None:
        close()


def drop_draws(client: ReplayClient) -> None:
    """Gives up the batches that a replay has drawn ahead, where it draws some."""
    drop = getattr(client, "drop_draws", None)
    if drop is not None:
        drop()
