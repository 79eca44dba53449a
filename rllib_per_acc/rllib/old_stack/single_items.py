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

_CONTAINERS = [
    name for name, value in vars(SampleBatch()).items() if isinstance(value, set | dict | list)
]
"""Attributes of a `SampleBatch` that every one has for itself."""


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
        self._attributes: dict[str, Any] = {}
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
            self._attributes = vars(SampleBatch(_columns_of(self._drawn.batch, 0)))
        i = self._next
        self._next += 1

        # The constructor would take longer than all the rest; what it finds is the same every time.
        item = SampleBatch.__new__(SampleBatch)
        dict.update(item, _columns_of(self._drawn.batch, i))
        vars(item).update(self._attributes)
        for name in _CONTAINERS:
            setattr(item, name, type(self._attributes[name])())
        updates = float(self._drawn.grad_updates[i])
        item.num_grad_updates = 0.0 if isnan(updates) else updates
        return item

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


def _columns_of(batch: SampleBatch, i: int) -> dict[str, Any]:
    def row(leaf: Any) -> Any:
        return leaf[i : i + 1]

    return {
        name: map_leaves(row, values) if isinstance(values, dict | tuple) else row(values)
        for name, values in dict.items(batch)
    }
