"""SingleItems: samples of one item each, from a batch drawn at once."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from ray.rllib.policy.sample_batch import SampleBatch

from rllib_per_acc.row_ring import Counts
from rllib_per_acc.sampling import Floats
from rllib_per_acc.structures import map_leaves


class DrawnItems(NamedTuple):
    """A batch of n items.

    Attributes:
        batch: The items.
        slots: Where they are stored, int64 of shape (n,).
        grad_updates: The `num_grad_updates` of each, float64 of shape (n,), NaN for none.
    """

    batch: SampleBatch
    slots: Counts
    grad_updates: Floats


class SingleItems:
    """Hands out a batch item by item, as if each had been drawn when it was asked for.

    Draws from a tree that does not change are independent, so it makes no difference when they are
    made; `drop` whatever is left before the tree changes. How many are drawn ahead follows from how
    many were handed out before the last drop, and doubles where they are not enough.
    """

    def __init__(self) -> None:
        self._drawn: DrawnItems | None = None
        self._beta: Any = None
        self._next = 0
        self._ahead = 1
        self._handed_out: list[Counts] = []

    def next(self, beta: Any, draw: Callable[[int], DrawnItems]) -> SampleBatch:
        """The next item.

        Args:
            beta: What the weights are made with; another one than before needs another batch.
            draw: Returns so many items.
        """
        if self._drawn is None or self._next == len(self._drawn.slots) or beta != self._beta:
            self._retire()
            self._drawn = draw(max(self._ahead, sum(map(len, self._handed_out))))
            self._beta = beta
        i = self._next
        self._next += 1

        def item(leaf: Any) -> Any:
            return leaf[i : i + 1]

        columns = {
            name: map_leaves(item, values) if isinstance(values, dict | tuple) else item(values)
            for name, values in dict.items(self._drawn.batch)
        }
        updates = float(self._drawn.grad_updates[i])
        return SampleBatch(columns, _num_grad_updates=0.0 if isnan(updates) else updates)

    def _retire(self) -> None:
        if self._drawn is not None:
            self._handed_out.append(self._drawn.slots[: self._next])
        self._drawn, self._next = None, 0

    def drop(self) -> Counts:
        """Gives up what is left.

        Returns:
            The slots of the items that were handed out since the last drop, int64.
        """
        self._retire()
        slots = np.concatenate([np.empty(0, np.int64), *self._handed_out])
        self._handed_out = []
        self._ahead = len(slots) or self._ahead
        return slots
