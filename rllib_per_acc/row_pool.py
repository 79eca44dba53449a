"""Which rows are free, and how often each has been used: the generations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.changes import Change, grow
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

    def exchange(self, change: Change, freed: Rows, n: int) -> Rows:
        """Plans to take `freed` rows (each once) back, and to hand out others.

        What was stored in rows that are taken back is gone.

        Args:
            change: Gets what is to be done.
            freed: What comes back.
            n: How many to hand out: those freed last first, these included. `num_allocated` is
                raised where that is needed.

        Returns:
            The rows handed out.
        """
        num_free = self.num_free + len(freed)
        reused = min(n, num_free)
        left, used = num_free - reused, self.num_used + n - reused
        kept = min(left, self.num_free)  # of the free rows, which stay where they are
        moving = freed
        if kept < self.num_free:
            moving = np.concatenate([self._free[kept : self.num_free], freed])
        back, rows = moving[: left - kept], moving[left - kept :]
        if reused < n:
            new = np.arange(self.num_used, used, dtype=np.int32)
            rows = np.concatenate([rows, new]) if reused else new
        self._reserve(used, left)
        if len(back):
            change.put(self._free, slice(kept, left), back)
        if len(freed):
            change.put(self.generation, freed, self.generation[freed] + np.uint32(1))
        change.let(self, "num_free", left)
        change.let(self, "num_used", used)
        return rows

    def _reserve(self, used: int, free: int) -> None:
        """Makes room for so many rows, and for a list of so many free ones."""
        if used > self.num_allocated:
            doubled = max(2 * self.num_allocated, _MIN_ROWS)
            some = _MIN_ROWS // _AHEAD + used // _AHEAD
            allocated = max(used, min(doubled, max(used, self._expected) + some))
            grow(self.generation, allocated)
            self.num_allocated = allocated
        if free > len(self._free):
            grow(self._free, max(free, min(2 * free, self.num_allocated)))

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
        self._reserve(self.num_used, 0)
        self.generation = owned(generation, self.num_allocated)
        self.num_free = len(arrays["free_rows"])
        self._free = owned(arrays.pop("free_rows"), self.num_free)
