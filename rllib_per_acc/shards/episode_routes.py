"""Which shard an episode lives in, and how far it has come."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from rllib_per_acc.episode_chunk import EpisodeChunk

MAX_EPISODES_KNOWN = 1 << 16
"""Episodes, the ones last added to, whose shard is remembered: more than can be open at once."""


class Route(NamedTuple):
    """Where an episode is.

    Attributes:
        shard: The shard.
        end: The time step where it left off; None where that is not known.
        is_done: Whether it has ended.
    """

    shard: int
    end: int | None = None
    is_done: bool = False


class EpisodeRoutes:
    """Sends every episode to one shard, and new ones to the least filled.

    Args:
        capacities: Steps that each shard keeps; None: no telling, all are alike.
    """

    def __init__(self, capacities: Sequence[int | None]) -> None:
        self._capacities = [capacity or 1 for capacity in capacities]
        self._routes: OrderedDict[Any, Route] = OrderedDict()
        self._fill = [0] * len(capacities)

    def dealt(
        self, chunks: Sequence[EpisodeChunk], among: Collection[int]
    ) -> tuple[dict[int, list[int]], bool]:
        """By shard, one of `among`, the positions of the chunks that go there; and a doubt.

        Chunks of which some do not go on where their episodes were when they were last sent are in
        doubt: an episode may have been evicted since, which is known in its shard only. Nothing is
        noted yet: see `sent`.
        """
        routes: dict[Any, Route] = {}
        fill = list(self._fill)
        dealt: dict[int, list[int]] = {}
        in_doubt = False
        for position, chunk in enumerate(chunks):
            route = routes.get(chunk.episode_id) or self._routes.get(chunk.episode_id)
            if route is None or route.shard not in among:
                # Of full shards all are as full as their capacity: what matters is who got less.
                shard = min(among, key=lambda i: fill[i] / self._capacities[i])
            else:
                shard = route.shard
                in_doubt |= route.is_done or route.end not in (None, chunk.t_started)
            routes[chunk.episode_id] = _after(chunk, shard)
            fill[shard] += len(chunk)
            dealt.setdefault(shard, []).append(position)
        return dealt, in_doubt

    def sent(self, chunks: Sequence[EpisodeChunk], shards: Mapping[int, Sequence[int]]) -> None:
        """Notes that chunks went to the shards that `dealt` said."""
        shard_of = {position: shard for shard, of in shards.items() for position in of}
        fill = list(self._fill)
        for position, chunk in enumerate(chunks):
            shard = shard_of[position]
            self._routes[chunk.episode_id] = _after(chunk, shard)
            self._routes.move_to_end(chunk.episode_id)
            if len(self._routes) > MAX_EPISODES_KNOWN:
                self._routes.popitem(last=False)
            fill[shard] += len(chunk)
        excess = min(n - capacity for n, capacity in zip(fill, self._capacities, strict=True))
        self._fill = [n - max(excess, 0) for n in fill]

    def forget(self, shard: int) -> None:
        """The shard has become empty."""
        self._fill[shard] = 0
        for episode_id in [id_ for id_, route in self._routes.items() if route.shard == shard]:
            del self._routes[episode_id]

    def restart(self, episodes: Mapping[Any, int], fill: Sequence[int]) -> None:
        """Starts from the shards of stored episodes, oldest first, and what the shards hold."""
        self._routes = OrderedDict((id_, Route(shard)) for id_, shard in episodes.items())
        self._fill = list(fill)


def _after(chunk: EpisodeChunk, shard: int) -> Route:
    return Route(shard, chunk.t_started + len(chunk), bool(chunk.terminated or chunk.truncated))
