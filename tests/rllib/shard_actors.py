"""Actors that tests start; without RLlib, so that their processes are soon there."""

import os
import time
from pathlib import Path
from typing import Any

from rllib_per_acc.shards import ReplayShard, ShardedReplay


def done_file(pid: int) -> Path:
    """Where a `SlowShard` notes how many adds and updates it has done."""
    return Path(os.environ["SLOW_SHARDS"]) / str(pid)


class SlowShard(ReplayShard):
    """Takes its time with adds and updates."""

    done = 0

    def call(self, method: str, *arguments: Any) -> Any:
        reply = super().call(method, *arguments)
        if method in ("add", "update"):
            time.sleep(0.01)
            self.done += 1
            done_file(os.getpid()).write_text(str(self.done))
        return reply


class ShardOwner:
    """A process that has started a shard, as a Tune trial does."""

    def __init__(self) -> None:
        self._client = ShardedReplay(100)

    def shard(self) -> int:
        """The process of the shard."""
        return self._client.shard_info()[0]["pid"]
