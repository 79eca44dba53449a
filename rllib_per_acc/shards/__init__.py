"""Replays as Ray actors: the shard, its client, and a handle for others to add to it."""

from rllib_per_acc.shards.connection import (
    MAX_CALLS_IN_FLIGHT,
    MAX_WRITES_IN_FLIGHT,
    ShardLostError,
)
from rllib_per_acc.shards.owned_shards import ReplayClosedError
from rllib_per_acc.shards.placement import ShardPlacementError
from rllib_per_acc.shards.shard import ReplayShard
from rllib_per_acc.shards.shard_options import ShardOptions
from rllib_per_acc.shards.sharded_replay import ShardedReplay
from rllib_per_acc.shards.writer import ShardWriter

__all__ = [
    "MAX_CALLS_IN_FLIGHT",
    "MAX_WRITES_IN_FLIGHT",
    "ReplayClosedError",
    "ReplayShard",
    "ShardLostError",
    "ShardOptions",
    "ShardPlacementError",
    "ShardWriter",
    "ShardedReplay",
]
