"""EpisodeChunk: what environments bring to a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
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
            TypeError: If a flag is not a bool, `t_started` is not an integer, or something that
                should have items has none.
            ValueError: If `t_started` does not fit into int32, or there are not L + 1 infos.
        """
        if not isinstance(self.rewards, Sized):
            raise TypeError(f"rewards: got {self.rewards!r:.80}, expected L numbers")
        if not isinstance(self.infos, Sequence | np.ndarray | None):
            raise TypeError(f"infos: got {self.infos!r:.80}, expected L + 1 dicts or None")
        if self.infos is not None and len(self.infos) != len(self) + 1:
            raise ValueError(f"infos: got {len(self.infos)} items, expected {len(self) + 1} items")
        if not isinstance(self.extra_model_outputs, Mapping):
            raise TypeError(
                f"extra_model_outputs: got {self.extra_model_outputs!r:.80}, expected a dict of "
                "nested arrays"
            )
        for name in ("terminated", "truncated"):
            flag = getattr(self, name)
            if not isinstance(flag, bool | np.bool_):
                raise TypeError(f"{name}: got {flag!r:.80}, expected a bool")
        if int_from(-_LATEST, "t_started", self.t_started) > _LATEST:
            raise ValueError(f"t_started: got {self.t_started}, expected at most {_LATEST}")


def checked_chunks(chunks: Any) -> list[EpisodeChunk]:
    """`chunks` as a list, each of them checked.

    Raises:
        TypeError, ValueError: If they are no chunks, or as `EpisodeChunk.check`.
    """
    if not isinstance(chunks, Iterable):
        raise TypeError(f"chunks: got {chunks!r:.80}, expected EpisodeChunks")
    checked = list(chunks)
    for chunk in checked:
        if not isinstance(chunk, EpisodeChunk):
            raise TypeError(f"chunks: got {chunk!r:.80} among them, expected EpisodeChunks")
        chunk.check()
    return checked
