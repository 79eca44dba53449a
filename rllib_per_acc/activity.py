"""What a replay did since somebody last asked: the numbers that metrics are made of."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from operator import add, attrgetter, sub
from typing import Any

from rllib_per_acc.changes import Change
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
        return Counts(*map(add, _values_of(self), _values_of(other)))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*map(sub, _values_of(self), _values_of(other)))

    def arrivals(self) -> Counts:
        """What came, and by how many calls."""
        return Counts(self.num_adds, self.episodes_added, self.steps_added)

    def of_adds(self) -> Counts:
        """What `add` counted."""
        return Counts(*(getattr(self, name) for name in _NAMES[:_NUM_OF_ADDS]))

    def of_samples(self) -> Counts:
        """What `sample` counted."""
        return self - self.of_adds()


_NAMES = tuple(f.name for f in fields(Counts))
_values_of = attrgetter(*_NAMES)
_NUM_OF_ADDS = _NAMES.index("num_samples")


class Activity:
    """Sums, and the values of the last calls in windows.

    Attributes:
        counts: The sums.
        added: After each `add` the episodes and the steps that are stored.
        sampled: Of each `sample`, distinct steps per step sampled, and the mean number of steps of
            a transition.

    Args:
        window: How many of the last calls the windows hold.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.counts = Counts()
        self.added: deque[tuple[int, int]] = deque(maxlen=window)
        self.sampled: deque[tuple[float, float]] = deque(maxlen=window)

    @property
    def episodes_stored(self) -> list[int]:
        """Episodes stored after each `add`."""
        return [episodes for episodes, _ in self.added]

    @property
    def steps_stored(self) -> list[int]:
        """Steps stored after each `add`."""
        return [steps for _, steps in self.added]

    @property
    def utilization(self) -> list[float]:
        """Of each `sample`, distinct steps per step sampled."""
        return [utilization for utilization, _ in self.sampled]

    @property
    def n_step(self) -> list[float]:
        """Of each `sample`, the mean number of steps of a transition."""
        return [n_step for _, n_step in self.sampled]

    def plan_add(
        self, change: Change, counts: Counts, *, episodes_stored: int, steps_stored: int
    ) -> None:
        """Plans to note one `add`: what came and went, and what is stored after it."""
        change.let(self, "counts", self.counts + counts)
        change.call(_append_once, self.added, (episodes_stored, steps_stored))

    def plan_sample(
        self,
        change: Change,
        *,
        steps: int,
        distinct_steps: int,
        distinct_episodes: int,
        resampled: int,
        mean_n_step: float,
    ) -> None:
        """Plans to note one `sample`."""
        counts = self.counts
        change.let(counts, "num_samples", counts.num_samples + 1)
        change.let(counts, "steps_sampled", counts.steps_sampled + steps)
        change.let(counts, "distinct_steps", counts.distinct_steps + distinct_steps)
        change.let(counts, "distinct_episodes", counts.distinct_episodes + distinct_episodes)
        change.let(counts, "resampled", counts.resampled + resampled)
        change.call(_append_once, self.sampled, (distinct_steps / steps, mean_n_step))

    def log_add(self, counts: Counts, **stored: int) -> None:
        """Notes one `add` at once; see `plan_add`."""
        change = Change()
        self.plan_add(change, counts, **stored)
        change.make()

    def log_sample(self, **of_sample: Any) -> None:
        """Notes one `sample` at once; see `plan_sample`."""
        change = Change()
        self.plan_sample(change, **of_sample)
        change.make()

    def merge(self, later: Activity) -> None:
        """Adds what happened later."""
        self.counts += later.counts
        self.added.extend(later.added)
        self.sampled.extend(later.sampled)


def _append_once(window: deque[Any], item: Any) -> None:
    """Appends this very object, unless it is the last one: it was appended before."""
    if not (window and window[-1] is item):
        window.append(item)
