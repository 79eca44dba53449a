"""SentEpisode: an episode that notes when it is sent to a learner."""

from __future__ import annotations

import copy
from typing import Any

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_per_acc.rllib.send_record import SendRecord

SLOTS = tuple(SingleAgentEpisode.__slots__)


class SentEpisode(SingleAgentEpisode):
    """Sampled rows as an episode. When it is sent that is noted; there it is RLlib's own class.

    Args:
        record: Where to note it.
        rows: Which rows of the record it holds.
    """

    __slots__ = ("_record", "_rows")

    def __init__(self, record: SendRecord, rows: range) -> None:
        self._record = record
        self._rows = rows

    def __reduce__(self) -> tuple[Any, ...]:
        self._record.log(self._rows)
        return _received, (state_of(self),)

    def __copy__(self) -> SingleAgentEpisode:
        return _received(state_of(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> SingleAgentEpisode:
        for space in (self.observation_space, self.action_space):
            memo.setdefault(id(space), space)  # spaces are not changed
        return _received(copy.deepcopy(state_of(self), memo))


def state_of(episode: SingleAgentEpisode) -> dict[str, Any]:
    """What the episode has in RLlib's slots."""
    return {name: getattr(episode, name) for name in SLOTS}


def _received(state: dict[str, Any]) -> SingleAgentEpisode:
    """RLlib's own class on the learner's side."""
    episode = SingleAgentEpisode.__new__(SingleAgentEpisode)
    for name, value in state.items():
        setattr(episode, name, value)
    return episode
