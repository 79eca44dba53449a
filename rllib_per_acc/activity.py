"""What a replay did since somebody last asked: the numbers that metrics are made of."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(slots=True)
class Activity:
    """Sums since the last report, and per-call values in windows.

    Attributes:
        window: How many of the last calls the per-call values are kept of.
        episodes_stored: Episodes stored after each `add`.
        steps_stored: Steps stored after each `add`.
        utilization: Of each sample, distinct steps per step sampled.
        n_step: Of each sample, the mean number of steps of a transition.
    """

    window: int = 100
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
    episodes_stored: deque[int] = field(default_factory=deque)
    steps_stored: deque[int] = field(default_factory=deque)
    utilization: deque[float] = field(default_factory=deque)
    n_step: deque[float] = field(default_factory=deque)

    def log(self, **values: Any) -> None:
        """Adds to sums and appends to windows, by name."""
        for name, value in values.items():
            recorded = getattr(self, name)
            if isinstance(recorded, deque):
                recorded.append(value)
                if len(recorded) > self.window:
                    recorded.popleft()
            else:
                setattr(self, name, recorded + value)

    def sums(self) -> dict[str, int]:
        """The sums by name."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "window"}
        return {name: value for name, value in values.items() if not isinstance(value, deque)}

    def merge(self, other: Activity) -> None:
        """Adds what `other` recorded after this one."""
        for f in fields(other):
            value = getattr(other, f.name)
            if isinstance(value, deque):
                for item in value:
                    self.log(**{f.name: item})
            elif f.name != "window":
                self.log(**{f.name: value})
