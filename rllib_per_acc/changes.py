"""Change: assignments that count together, and come out the same however often they are made.

A call that changes something first prepares: it checks, computes and allocates, and what counts
stays as it is. All that is left then is a `Change`. Its owner notes it before it is made
(`threads.AllOrNothing`), so that an interrupt in the middle costs nothing: it is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import setitem
from typing import Any

import numpy as np


class Change:
    """Steps in order. Each sets something to a value that was computed before: no `+=`."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def let(self, owner: Any, name: str, value: Any) -> None:
        """Sets an attribute."""
        self._steps.append((setattr, (owner, name, value)))

    def put(self, items: Any, where: Any, values: Any) -> None:
        """Sets items: `items[where] = values`. Of equal rows the last one wins."""
        self._steps.append((setitem, (items, where, values)))

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Calls what gives the same however often it is called, and does not check anything."""
        self._steps.append((function, arguments))

    def make(self) -> None:
        """Makes the change; can be repeated until another one is made."""
        for function, arguments in self._steps:
            function(*arguments)


def grow(array: np.ndarray, num_rows: int) -> None:
    """Grows an array in place, where it is shorter. Rows beyond those in use do not count."""
    if len(array) < num_rows:
        array.resize((num_rows, *array.shape[1:]), refcheck=False)
