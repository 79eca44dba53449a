"""The states of all shards together, and how they go to another number of shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from rllib_per_acc.activity import Counts
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.replay_part import PartCounters, ReplayPart
from rllib_per_acc.sampling import Floats
from rllib_per_acc.shards.shard_group import ShardGroup

_EPISODES_AT_ONCE = 64


def restore_shards(group: ShardGroup, options: dict[str, Any], states: list[Any]) -> None:
    """Puts states, each as of `PrioritizedReplay.get_state`, into the shards of a group.

    As many states as shards go one to one: the same masses, in trees of the same bits. Otherwise
    episodes are dealt out anew, with their masses.

    Args:
        group: The shards, all of them up.
        options: `ReplayOptions` of the shards by name.
        states: Of all shards of a replay.

    Raises:
        ValueError: If one is not such a state. Shards may have been restored by then.
    """
    if len(states) == len(group):
        pairs = list(zip(group.connections, states, strict=True))
        calls = [connection.ask("set_state", state) for connection, state in pairs]
        for connection, call in zip(group.connections, calls, strict=True):
            connection.answer(call)
    else:
        deal_out(group, [_part_of(state, options) for state in states])
    episodes = {
        id_: shard for shard, reply in group.ask_all("episode_ids").items() for id_ in reply.result
    }
    steps = [c.status.steps if c.status else 0 for c in group.connections]
    group.routes.restart(episodes, steps)


def deal_out(group: ShardGroup, parts: Sequence[ReplayPart]) -> None:
    """Empties the shards of a group and deals the episodes of other parts out to them."""
    total = PartCounters(
        sum((part.counters().lifetimes for part in parts), Counts()),
        max(part.counters().max_priority for part in parts),
        sum(part.counters().num_lifted for part in parts),
        sum(part.counters().num_stale_dropped for part in parts),
    )
    for connection in group.connections:
        connection.answer(connection.ask("clear", total))
        total = PartCounters(Counts(), total.max_priority, 0, 0)  # count things once
    group.routes.restart({}, [0] * len(group))
    for chunks, masses in _in_turn(parts):
        group.take_in(chunks, masses)
    group.settle()


def _part_of(state: Any, options: dict[str, Any]) -> ReplayPart:
    """A part in this process that nothing is evicted from."""
    part = ReplayPart(None, **options | {"device": "cpu"})
    part.set_state(state)
    return part


def _in_turn(
    parts: Sequence[ReplayPart],
) -> Iterator[tuple[list[EpisodeChunk], list[Floats]]]:
    """All episodes in small blocks; what was old in its part comes before what was new in its."""
    numbers = [part.status().episodes for part in parts]
    num_blocks = -(-max(numbers) // _EPISODES_AT_ONCE)
    for block in range(num_blocks):
        episodes: list[tuple[float, EpisodeChunk, Floats]] = []
        for part, n in zip(parts, numbers, strict=True):
            start, stop = block * n // num_blocks, (block + 1) * n // num_blocks
            ages = ((i + 1) / n for i in range(start, stop))
            episodes += zip(ages, *part.get_episodes(start, stop), strict=True)
        episodes.sort(key=itemgetter(0))
        yield [chunk for _, chunk, _ in episodes], [masses for _, _, masses in episodes]
