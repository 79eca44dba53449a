"""RecentValues: a window over the last numbers of a long series, and how long the series is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.changes import Change


class RecentValues:
    """What RLlib's `WindowStat` keeps, taking many values at a time.

    Args:
        window: How many values to keep.

    Attributes:
        count: How many values there were in all.
    """

    def __init__(self, window: int) -> None:
        self.count = 0
        self._values = np.empty(window)

    def plan_extend(self, change: Change, values: NDArray[np.floating[Any]]) -> None:
        """Plans to add values, in order."""
        window = len(self._values)
        last = values[-window:]
        at = self.count + len(values) - len(last) + np.arange(len(last))
        change.put(self._values, at % window, last)
        change.let(self, "count", self.count + len(values))

    def last(self) -> NDArray[np.float64]:
        """The values in the window, oldest first."""
        window = len(self._values)
        if self.count <= window:
            return self._values[: self.count].copy()
        return np.roll(self._values, -(self.count % window))
