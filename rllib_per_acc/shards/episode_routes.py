"""Which shard an episode lives in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

from rllib_per_acc.episode_chunk import EpisodeChunk

MAX_EPISODES_KNOWN = 1 << 16
"""Episodes, the ones last added to, whose shard is remembered: more than can be open at once."""


class EpisodeRoutes:
    """Sends every episode to one shard, and new ones to the least filled.

    Args:
        capacities: Steps that each shard keeps; None: no telling, all are alike.
    """

    def __init__(self, capacities: Sequence[int | None]) -> None:
        self._capacities = [capacity or 1 for capacity in capacities]
        self._shard_of: OrderedDict[str, int] = OrderedDict()
        self._fill = [0] * len(capacities)

    def route(self, chunk: EpisodeChunk, among: Collection[int]) -> int:
        """The shard for a chunk, one of `among`, and notes that it goes there."""
        shard = self._shard_of.get(chunk.episode_id)
        if shard is None or shard not in among:
            # Of full shards all are as full as their capacity: what matters is who got less lately.
            shard = min(among, key=lambda i: self._fill[i] / self._capacities[i])
            self._shard_of[chunk.episode_id] = shard
        self._shard_of.move_to_end(chunk.episode_id)
        if len(self._shard_of) > MAX_EPISODES_KNOWN:
            self._shard_of.popitem(last=False)
        self._fill[shard] += len(chunk)
        excess = min(
            fill - capacity for fill, capacity in zip(self._fill, self._capacities, strict=True)
        )
        if excess > 0:
            self._fill = [fill - excess for fill in self._fill]
        return shard

    def forget(self, shard: int) -> None:
        """The shard has become empty."""
        self._fill[shard] = 0
        for episode_id in [id_ for id_, at in self._shard_of.items() if at == shard]:
            del self._shard_of[episode_id]

    def restart(self, episodes: dict[str, int], fill: Sequence[int]) -> None:
        """Starts from the shards of stored episodes, oldest first, and what the shards hold."""
        self._shard_of = OrderedDict(episodes)
        self._fill = list(fill)
