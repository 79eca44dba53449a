"""Which rows are free, and how often each has been used: the generations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.columns import Rows, owned

_MIN_ROWS = 1024
_AHEAD = 64
"""Of rows past those expected, one in so many is allocated ahead."""
_MOST_ROWS = np.iinfo(np.int32).max


class RowPool:
    """Hands out rows and takes them back, O(rows touched) per call.

    A row's generation is raised when it is freed, so that a (row, generation) pair names what was
    stored there once and for all.

    Args:
        capacity: Rows to expect: growth doubles up to it and goes on in small steps, so that a
            full store stays about as large. None: no telling.
    """

    def __init__(self, capacity: int | None) -> None:
        self._expected = _MOST_ROWS if capacity is None else capacity
        self.roomy = _MOST_ROWS if capacity is None else capacity + capacity // 8 + _MIN_ROWS
        """How many rows a state of a larger store may have, to be taken as it is."""
        self.num_used = 0
        """Rows ever handed out: those past it were never touched."""
        self.num_allocated = 0
        """Rows that the columns must have."""
        self.generation: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._free = np.zeros(0, np.int32)
        self.num_free = 0

    def take(self, n: int) -> Rows:
        """`n` rows, freed ones first; may raise `num_allocated`."""
        reused = min(n, self.num_free)
        rows = np.empty(n, np.int32)
        rows[:reused] = self._free[self.num_free - reused : self.num_free]
        rows[reused:] = np.arange(self.num_used, self.num_used + n - reused, dtype=np.int32)
        self.num_free -= reused
        self.num_used += n - reused
        if self.num_used > self.num_allocated:
            self._allocate(self.num_used)
        return rows

    def give_back(self, rows: Rows) -> None:
        """Frees `rows` (each once): what was stored there is gone."""
        self.generation[rows] += np.uint32(1)
        end = self.num_free + len(rows)
        if end > len(self._free):
            self._free.resize(max(end, min(2 * end, self.num_allocated)), refcheck=False)
        self._free[self.num_free : end] = rows
        self.num_free = end

    def _allocate(self, needed: int) -> None:
        doubled = max(2 * self.num_allocated, _MIN_ROWS)
        some = _MIN_ROWS // _AHEAD + needed // _AHEAD
        self.num_allocated = max(needed, min(doubled, max(needed, self._expected) + some))
        self.generation.resize(self.num_allocated, refcheck=False)

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self.generation.nbytes + self._free.nbytes

    def arrays(self) -> dict[str, np.ndarray]:
        """What `restore` needs, as views."""
        return {
            "generation": self.generation[: self.num_used],
            "free_rows": self._free[: self.num_free],
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Takes what another pool's `arrays` returned, checked, into this new pool."""
        generation = arrays.pop("generation")
        self.num_used = len(generation)
        self._allocate(self.num_used)
        self.generation = owned(generation, self.num_allocated)
        self.num_free = len(arrays["free_rows"])
        self._free = owned(arrays.pop("free_rows"), self.num_free)
