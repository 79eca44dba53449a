"""What a replay did since somebody last asked: the numbers that metrics are made of."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from typing import Any

from rllib_per_acc.replay_options import non_negative_int


@dataclass(slots=True)
class Counts:
    """Sums over calls of `add` and `sample`."""

    num_adds: int = 0
    episodes_added: int = 0
    steps_added: int = 0
    episodes_evicted: int = 0
    steps_evicted: int = 0
    num_samples: int = 0
    steps_sampled: int = 0
    distinct_steps: int = 0
    distinct_episodes: int = 0
    resampled: int = 0

    @staticmethod
    def restored(sums: dict[str, Any]) -> Counts:
        """From `dataclasses.asdict`; sums that are not there count as 0.

        Raises:
            TypeError, ValueError: If there are others, or one is no integer >= 0.
        """
        return Counts(**{name: non_negative_int(name, value) for name, value in sums.items()})

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in _NAMES))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) - getattr(other, name) for name in _NAMES))

    def of_adds(self) -> Counts:
        """What `add` counted."""
        return Counts(*(getattr(self, name) for name in _NAMES[:_NUM_OF_ADDS]))

    def of_samples(self) -> Counts:
        """What `sample` counted."""
        return self - self.of_adds()


_NAMES = tuple(f.name for f in fields(Counts))
_NUM_OF_ADDS = _NAMES.index("num_samples")


class Activity:
    """Sums, and the values of the last calls in windows.

    Attributes:
        counts: The sums.
        episodes_stored: Episodes stored after each `add`.
        steps_stored: Steps stored after each `add`.
        utilization: Of each `sample`, distinct steps per step sampled.
        n_step: Of each `sample`, the mean number of steps of a transition.

    Args:
        window: How many of the last calls the windows hold.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.counts = Counts()
        self.episodes_stored: deque[int] = deque(maxlen=window)
        self.steps_stored: deque[int] = deque(maxlen=window)
        self.utilization: deque[float] = deque(maxlen=window)
        self.n_step: deque[float] = deque(maxlen=window)

    def log_add(self, counts: Counts, *, episodes_stored: int, steps_stored: int) -> None:
        """Notes one `add`: what came and went, and what is stored after it."""
        self.counts += counts
        self.episodes_stored.append(episodes_stored)
        self.steps_stored.append(steps_stored)

    def log_sample(
        self,
        *,
        steps: int,
        distinct_steps: int,
        distinct_episodes: int,
        resampled: int,
        mean_n_step: float,
    ) -> None:
        """Notes one `sample`."""
        counts = self.counts
        counts.num_samples += 1
        counts.steps_sampled += steps
        counts.distinct_steps += distinct_steps
        counts.distinct_episodes += distinct_episodes
        counts.resampled += resampled
        self.utilization.append(distinct_steps / steps)
        self.n_step.append(mean_n_step)

    def merge(self, later: Activity) -> None:
        """Adds what happened later."""
        self.counts += later.counts
        for name in ("episodes_stored", "steps_stored", "utilization", "n_step"):
            getattr(self, name).extend(getattr(later, name))
