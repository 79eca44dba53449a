"""Actors that tests start; without RLlib, so that their processes are soon there."""

import os
import time
from pathlib import Path
from typing import Any

from rllib_per_acc.shards import ReplayShard, ShardedReplay


def done_file(pid: int) -> Path:
    """Where a `SlowShard` notes how many adds and updates it has done."""
    return Path(os.environ["SLOW_SHARDS"]) / str(pid)


def write(path: Path, number: int) -> None:
    """Writes a file in one step: a reader sees the old number or the new one."""
    path.with_suffix(".new").write_text(str(number))
    path.with_suffix(".new").replace(path)


class SlowShard(ReplayShard):
    """Takes its time with adds and updates."""

    done = 0

    def call(self, method: str, *arguments: Any) -> Any:
        reply = super().call(method, *arguments)
        if method in ("add", "update"):
            time.sleep(0.01)
            self.done += 1
            write(done_file(os.getpid()), self.done)
        return reply


class ShardOwner:
    """A process that has started a shard, as a Tune trial does."""

    def __init__(self) -> None:
        self._client = ShardedReplay(100)

    def shard(self) -> int:
        """The process of the shard."""
        return self._client.shard_info()[0]["pid"]
