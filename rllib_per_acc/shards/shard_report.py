"""What shards say of themselves, and what is known of them without asking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rllib_per_acc.replay_part import PartCounters, added_up
from rllib_per_acc.shards.connection import ShardConnection
from rllib_per_acc.shards.shard_group import ShardGroup

_TIMED = {"add": ("add",), "sample": ("sample", "propose"), "update": ("update",)}
"""The methods of a shard behind each of the times that are reported."""

_NOT_SUMMED = ("pid", "incarnation")


def counters_of(connection: ShardConnection) -> PartCounters:
    """What a shard has counted, also before it was lost, as of its last reply."""
    if connection.status is not None:
        return connection.status.counters
    lives = connection.lives
    counted = added_up(life.counters for life in lives.ended(None))
    counted.lifetimes.steps_added += lives.steps_under_way(None)
    return counted


def _info_of_lost(connection: ShardConnection) -> dict[str, Any]:
    counters = counters_of(connection)
    counts = counters.lifetimes
    return {
        "steps": 0,
        "episodes": 0,
        "mass": 0.0,
        "steps_added": counts.steps_added,
        "episodes_added": counts.episodes_added,
        "steps_evicted": counts.steps_evicted,
        "episodes_evicted": counts.episodes_evicted,
        "steps_sampled": counts.steps_sampled,
        "stale_priorities_dropped": counters.num_stale_dropped,
        "masses_lifted": counters.num_lifted,
        "bytes": 0,
    }


def ask_infos(group: ShardGroup) -> list[dict[str, Any]]:
    """Asks every shard for its counters.

    Returns:
        For each shard `PrioritizedReplay.info`, `pid` and `node`, `is_up`, what this client counts
        (`lost_steps`, `dropped_priorities`, `restarts`, `calls_in_flight`), and by method the
        number of `calls` and their `seconds`. Of a shard that is not up what was known last.
    """
    replies = group.ask_all("info")
    infos = []
    for connection in group.connections:
        reply = replies.get(connection.index)
        infos.append(
            (reply.result if reply else _info_of_lost(connection))
            | connection.where
            | _counted(connection)
            | {
                "is_up": reply is not None,
                "calls": {method: calls for method, (calls, _) in connection.times.items()},
                "seconds": {method: seconds for method, (_, seconds) in connection.times.items()},
            }
        )
    return infos


def summed(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums over all shards of what can be summed."""
    sums: dict[str, Any] = {}
    for info in infos:
        for key, value in info.items():
            if key not in _NOT_SUMMED and isinstance(value, int | float):
                sums[key] = sums.get(key, 0) + value
    return sums


def _counted(connection: ShardConnection) -> dict[str, int]:
    return {
        "lost_steps": connection.lost_steps,
        "dropped_priorities": connection.dropped_priorities,
        "restarts": connection.num_restarts,
        "calls_in_flight": connection.num_in_flight,
    }


class ShardMetrics:
    """Numbers of shards to follow over time, as of their last replies.

    Args:
        num_shards: How many there are.
    """

    def __init__(self, num_shards: int) -> None:
        self._before: list[Mapping[str, tuple[int, float]]] = [{}] * num_shards

    def take(self, connections: Sequence[ShardConnection]) -> list[dict[str, float]]:
        """For each shard what is stored, lost and under way, and times since the last call.

        `add_seconds`, `sample_seconds` and `update_seconds` are the mean time that a call took in
        the shard, whoever made it; each is missing where there was none.
        """
        return [self._take(i, connection) for i, connection in enumerate(connections)]

    def _take(self, index: int, connection: ShardConnection) -> dict[str, float]:
        numbers: dict[str, float] = dict(_counted(connection))
        if (status := connection.status) is not None:
            numbers |= {
                "steps": status.steps if connection.is_up() else 0,
                "mass": status.total if connection.is_up() else 0.0,
                "bytes": status.nbytes,
                "stale_priorities_dropped": status.counters.num_stale_dropped,
            }
        before, self._before[index] = self._before[index], connection.times
        for name, methods in _TIMED.items():
            calls, seconds = (
                sum(
                    connection.times.get(m, (0, 0.0))[at] - before.get(m, (0, 0.0))[at]
                    for m in methods
                )
                for at in (0, 1)
            )
            if calls > 0:  # fewer than before: the shard is another one
                numbers[f"{name}_seconds"] = seconds / calls
        return numbers
