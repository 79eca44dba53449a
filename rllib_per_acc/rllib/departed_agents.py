"""Agents' episodes that were evicted while batches drawn ahead may still have rows of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import chain
from typing import Any, Generic, TypeVar

T = TypeVar("T")

KEPT = 1000
"""So many of a module's agents' episodes are remembered in any case."""


class DepartedAgents(Generic[T]):
    """What is known of agents' episodes that are gone, module by module.

    A batch that was drawn ahead may have rows of what was stored at any time since as many batches
    of its module were read as are drawn ahead. For so long they are remembered; where nothing is
    drawn ahead, not at all.

    Args:
        batches_ahead: How many batches of each module may have been drawn ahead.
    """

    def __init__(self, batches_ahead: int) -> None:
        self._ahead = batches_ahead
        self._gone: dict[Any, deque[dict[Any, T]]] = {}

    def note(self, module_id: Any, agent_episode_id: Any, agent_episode: T) -> None:
        """Notes that an episode goes."""
        if module_id in self._gone:
            self._gone[module_id][-1][agent_episode_id] = agent_episode

    def find(self, agent_episode_id: Any) -> T:
        """What was noted under this id.

        Raises:
            KeyError: If it is none that a batch drawn ahead can have rows of.
        """
        for gone in chain.from_iterable(self._gone.values()):
            if agent_episode_id in gone:
                return gone[agent_episode_id]
        raise KeyError(agent_episode_id)

    def batches_read(self, module_ids: Iterable[Any]) -> None:
        """A batch of each of these modules was read, and others may be on their way."""
        if self._ahead:
            for module_id in module_ids:
                gone = self._gone.setdefault(module_id, deque(maxlen=self._ahead + 1))
                gone.append({})

    def overdue(self, num_stored: int) -> list[Any]:
        """Modules whose batches are not read while more and more goes.

        What was drawn ahead for them should be given up; then `forget` them.

        Args:
            num_stored: How many agents' episodes are stored: so many may be remembered beside them.
        """
        most = max(num_stored, KEPT)
        return [m for m, gone in self._gone.items() if sum(map(len, gone)) > most]

    def forget(self, module_id: Any) -> None:
        """No batch of this module is on its way any more."""
        self._gone.pop(module_id, None)
