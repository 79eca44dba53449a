"""EpisodeChunk: what environments bring to a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class EpisodeChunk:
    """Consecutive steps of one episode, as they come from an environment.

    Attributes:
        episode_id: The episode they belong to.
        observations: Nested arrays of L + 1 items: one before every step, one after the last.
        actions: Nested arrays of L items.
        rewards: L numbers.
        terminated: Whether the episode ended with the last step.
        truncated: Whether the episode was cut off after the last step.
        t_started: The time step (in the episode) of the first item.
        infos: L + 1 dicts, or None.
        extra_model_outputs: Nested arrays of L items by name.
    """

    episode_id: str
    observations: Any
    actions: Any
    rewards: Any
    terminated: bool = False
    truncated: bool = False
    t_started: int = 0
    infos: Sequence[Any] | None = None
    extra_model_outputs: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rewards)
