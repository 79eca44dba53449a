"""What the tree is compared with: the same sum-and-min pair written in the plain ways."""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Batch:
    """One call's input in the forms that the contenders like best, all made before the clock runs.

    `indices` are int64, shape (k,); `values` are masses to write, or prefix sums to look up,
    float64, shape (k,).
    """

    indices: NDArray[np.int64]
    values: NDArray[np.float64]
    index_list: list[int]
    value_list: list[float]
    index_pointer: int
    value_pointer: int

    @classmethod
    def draw(
        cls, rng: np.random.Generator, k: int, capacity: int, limit: float, *, lists: bool = True
    ) -> Batch:
        """Draws k indices below `capacity` and k values below `limit`; the lists if wanted."""
        indices = rng.integers(0, capacity, k)
        values = rng.random(k) * limit
        return cls(
            indices, values, indices.tolist() if lists else [], values.tolist() if lists else [],
            indices.ctypes.data, values.ctypes.data,
        )  # fmt: skip


def heaps(leaves: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the sums and minima of all nodes, shape (2 n,), for n leaves, a power of two."""
    n = len(leaves)
    sums, mins = np.zeros(2 * n), np.full(2 * n, np.inf)
    sums[n:] = mins[n:] = leaves
    while n > 1:
        n //= 2
        sums[n : 2 * n] = sums[2 * n : 4 * n : 2] + sums[2 * n + 1 : 4 * n : 2]
        mins[n : 2 * n] = np.minimum(mins[2 * n : 4 * n : 2], mins[2 * n + 1 : 4 * n : 2])
    return sums, mins


class PythonTree:
    """The pure-Python tree: two lists, one element at a time."""

    def __init__(self, leaves: NDArray[np.float64]) -> None:
        """Starts from these leaves: float64, shape (a power of two,)."""
        self._capacity = len(leaves)
        sums, mins = heaps(leaves)
        self._sums, self._mins = sums.tolist(), mins.tolist()

    def update(self, batch: Batch) -> None:
        """Sets leaves one after the other."""
        sums, mins = self._sums, self._mins
        for index, value in zip(batch.index_list, batch.value_list, strict=True):
            i = index + self._capacity
            sums[i] = mins[i] = value
            i //= 2
            while i >= 1:
                sums[i] = sums[2 * i] + sums[2 * i + 1]
                mins[i] = min(mins[2 * i], mins[2 * i + 1])
                i //= 2

    def find(self, batch: Batch) -> list[int]:
        """Descends once for each value."""
        return [self._find(mass) for mass in batch.value_list]

    def _find(self, mass: float) -> int:
        sums = self._sums
        i = 1
        while i < self._capacity:
            i *= 2
            if sums[i] <= mass:
                mass -= sums[i]
                i += 1
        return i - self._capacity


class CTree:
    """The plain C tree of cpp/bench/baselines.cpp; nothing is checked, pointers are ready made."""

    def __init__(self, leaves: NDArray[np.float64], largest_batch: int) -> None:
        """Starts from these leaves: float64, shape (a power of two,)."""
        self._library = _library()
        self._sums, self._mins = heaps(leaves)
        self._found = np.empty(largest_batch, np.int64)
        self._trees = (self._sums.ctypes.data, self._mins.ctypes.data, len(leaves))
        self._sum_tree = (self._sums.ctypes.data, len(leaves))
        self._found_pointer = self._found.ctypes.data

    def update(self, batch: Batch) -> None:
        """Per element, one call for the batch."""
        self._library.baseline_update(
            *self._trees, batch.index_pointer, batch.value_pointer, len(batch.indices)
        )

    def rebuild(self, batch: Batch) -> None:
        """All leaves, then all nodes level by level, one call for the batch."""
        self._library.baseline_rebuild(
            *self._trees, batch.index_pointer, batch.value_pointer, len(batch.indices)
        )

    def find(self, batch: Batch) -> NDArray[np.int64]:
        """One call for the batch; the result is overwritten by the next call."""
        k = len(batch.values)
        self._library.baseline_find_batch(
            *self._sum_tree, batch.value_pointer, self._found_pointer, k
        )
        return self._found[:k]

    def find_each(self, batch: Batch) -> list[int]:
        """One call for each descent."""
        find, tree = self._library.baseline_find, self._sum_tree
        return [find(*tree, mass) for mass in batch.value_list]


def _library() -> ctypes.CDLL:
    spec = importlib.util.find_spec("rllib_per_acc.bench._baselines")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("this installation lacks rllib_per_acc/bench/_baselines")
    library = ctypes.CDLL(spec.origin)
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    for name in ("baseline_update", "baseline_rebuild"):
        function = getattr(library, name)
        function.argtypes = [pointer, pointer, integer, pointer, pointer, integer]
        function.restype = None
    library.baseline_find.argtypes = [pointer, integer, ctypes.c_double]
    library.baseline_find.restype = integer
    library.baseline_find_batch.argtypes = [pointer, integer, pointer, pointer, integer]
    library.baseline_find_batch.restype = None
    return library
