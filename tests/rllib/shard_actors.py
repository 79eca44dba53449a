"""Actors that tests start; without RLlib, so that their processes are soon there."""

import time
from pathlib import Path
from typing import Any

from rllib_per_acc.shards import RemoteReplay, ReplayShard, start_shard


class SlowShard(ReplayShard):
    """Takes its time, and tells a file how many calls it has done."""

    def __init__(self, path: str, capacity: int, options: dict[str, Any]) -> None:
        super().__init__(capacity, options)
        self._path = Path(path)
        self._done = 0

    def _finish(self) -> None:
        time.sleep(0.01)
        self._done += 1
        self._path.write_text(str(self._done))

    def add(self, *arguments: Any) -> None:
        super().add(*arguments)
        self._finish()

    def update(self, *arguments: Any) -> None:
        super().update(*arguments)
        self._finish()


class ShardOwner:
    """A process that has started a shard, as a Tune trial does."""

    def __init__(self) -> None:
        self._client = RemoteReplay(start_shard(100, {}))

    def shard(self) -> int:
        """The process of the shard."""
        return self._client.info()["pid"]
