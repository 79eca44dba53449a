"""EpisodeChunk: what environments bring to a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rllib_per_acc.replay_options import int_from

_LATEST = np.iinfo(np.int32).max


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

    def check(self) -> None:
        """Checks what has the same form in every chunk.

        Raises:
            TypeError: If a flag is not a bool, or `t_started` is not an integer.
            ValueError: If `t_started` does not fit into int32.
        """
        for name in ("terminated", "truncated"):
            flag = getattr(self, name)
            if not isinstance(flag, bool | np.bool_):
                raise TypeError(f"{name}: got {flag!r:.80}, expected a bool")
        if int_from(-_LATEST, "t_started", self.t_started) > _LATEST:
            raise ValueError(f"t_started: got {self.t_started}, expected at most {_LATEST}")
