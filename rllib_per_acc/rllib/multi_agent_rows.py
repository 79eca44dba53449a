"""Samples of several modules as one multi-agent episode, which RLlib deals to its learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from rllib_per_acc.rllib.module_watch import is_learned
from rllib_per_acc.rllib.row_group import RowGroup, refuse_read


class MultiAgentRows(MultiAgentEpisode):
    """The row groups of several modules, read by RLlib's learner connector pieces as one episode.

    `ShardEpisodesIterator` cuts it into pieces by its length, the number of all rows. They count in
    turn, one of each module, so that every learner gets its share of every module's rows, as it
    does of one-step episodes.

    Args:
        groups: By module its row groups, at least one row for each module.
    """

    def __init__(self, groups: Mapping[Any, Sequence[RowGroup]]) -> None:
        # RLlib's constructor builds time steps of agents, which this class replaces.
        self._groups = groups
        self.agent_episodes = {
            (module_id, i): group
            for module_id, some in groups.items()
            for i, group in enumerate(some)
        }
        self.id_ = next((g.multi_agent_episode_id for g in self.agent_episodes.values()), None)
        self.is_terminated = self.is_truncated = False
        self.env_t_started = 0
        self.env_t = sum(len(group) for group in self.agent_episodes.values())

    @property
    def agent_ids(self) -> Any:
        """A key for each row group, module by module, in order (RLlib has a set).

        A learner sees those of its modules only.
        """
        learned = {module_id: is_learned(module_id) for module_id in self._groups}
        return [key for key in self.agent_episodes if learned[key[0]]]

    @property
    def is_numpy(self) -> bool:
        """Whether the data are arrays: always."""
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return MultiAgentRows, (self._groups,)

    def __repr__(self) -> str:
        rows = {module_id: sum(map(len, some)) for module_id, some in self._groups.items()}
        return f"MultiAgentRows({rows})"

    def slice(self, slice_: slice, *, len_lookback_buffer: int | None = None) -> MultiAgentRows:
        """Some of the rows in a row, as RLlib deals them to learners; there is no lookback."""
        start, stop, step = slice_.indices(len(self))
        if step != 1:
            self._refuse(f"slice({slice_})")
        counts = [sum(map(len, groups)) for groups in self._groups.values()]
        places = np.concatenate([(np.arange(n) + 0.5) / n for n in counts])
        in_turn = np.repeat(np.arange(len(counts)), counts)[np.argsort(places, kind="stable")]
        bounds = (np.bincount(in_turn[:at], minlength=len(counts)) for at in (start, stop))
        pieces = {
            module_id: _cut(groups, low, high)
            for (module_id, groups), low, high in zip(self._groups.items(), *bounds, strict=True)
        }
        return MultiAgentRows({m: groups for m, groups in pieces.items() if groups})

    def _refuse(self, read: str) -> NoReturn:
        refuse_read(f"{len(self)} sampled transitions of {len(self._groups)} modules", read)

    def __getattr__(self, name: str) -> Any:
        if name in MultiAgentEpisode.__slots__:
            self._refuse(f"`{name}`")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def _cut(groups: Sequence[RowGroup], start: int, stop: int) -> list[RowGroup]:
    """Rows `start` to `stop` of row groups in a row."""
    pieces = []
    for group in groups:
        if start < len(group) and stop > 0:
            piece = group.slice(slice(max(start, 0), min(stop, len(group))))
            if len(piece):
                pieces.append(piece)
        start -= len(group)
        stop -= len(group)
    return pieces
