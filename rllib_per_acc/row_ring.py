"""RowRing: rows of columns in slots that are overwritten in turn, as in RLlib's `ReplayBuffer`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.columns import Column, Prepared, Rows
from rllib_per_acc.recent_values import RecentValues

Counts = NDArray[np.int64]
WINDOW = 1000
"""How many of the last values statistics are made of, as in RLlib."""


def checked_slots(slots: Any, num_rows: int) -> Counts:
    """`slots` as int64 of shape (n,), all below `num_rows`.

    Raises:
        TypeError: If they are not integers.
        ValueError: If they do not have one dimension.
        IndexError: If one is out of range.
    """
    array = np.asarray(slots)
    if not array.size:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"idxes: got {array.dtype} items, expected integers")
    if array.ndim != 1:
        raise ValueError(f"idxes: got shape {array.shape}, expected (n,)")
    bad = np.flatnonzero((array < 0) | (array >= num_rows))
    if bad.size:
        raise IndexError(
            f"idxes: got {array[bad[0]]} at position {bad[0]}, expected 0 <= idx < {num_rows}"
        )
    return array.astype(np.int64)


@dataclass(frozen=True)
class RowBatch:
    """Rows on their way into a ring.

    Attributes:
        columns: By name, nested arrays of n items.
        counts: How many time steps each row stands for, >= 1, int64 of shape (n,).
        sizes: Its bytes, as far as statistics tell, int64 of shape (n,).
    """

    columns: Mapping[str, Any]
    counts: Counts
    sizes: Counts

    def __len__(self) -> int:
        return len(self.counts)


class RowRing:
    """Rows in slots 0, 1, ...; the next row goes to the slot after the last one.

    When the time steps of the rows written since slot 0 reach the capacity, the next row goes to
    slot 0 again (RLlib's `ReplayBuffer._add_single_batch`). Rows of one time step fill `capacity`
    slots. Of longer rows there are fewer, and when they grow longer, old ones stay behind the last
    slot written; they count as stored.

    Args:
        capacity: In time steps.

    Attributes:
        num_rows: Rows stored.
        next_slot: Where the next row goes.
        steps_added: Time steps ever added.
        steps_since_wrap: Time steps added since slot 0 was last written.
        is_evicting: Whether the capacity was ever reached.
        nbytes: The sizes of the rows stored.
        hits: How often the row in each slot was sampled, float64 of shape (num_rows,) or longer.
        evicted_hits: The same of rows that were overwritten.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.num_rows = self.next_slot = self.steps_added = self.steps_since_wrap = 0
        self.is_evicting = False
        self.nbytes = 0
        self.hits = np.zeros(0)
        self.counts: Counts = np.zeros(0, np.int64)
        self.evicted_hits = RecentValues(WINDOW)
        self._sizes: Counts = np.zeros(0, np.int64)
        self._columns: dict[str, Column] = {}

    def prepare(self, batch: RowBatch) -> dict[str, Prepared]:
        """Checks the columns of a batch against those stored; changes nothing.

        Raises:
            ValueError: If names, nesting, lengths or shapes differ.
        """
        names = batch.columns.keys()
        if self._columns and names != self._columns.keys():
            raise ValueError(
                f"batch: got the columns {sorted(names)}, expected {sorted(self._columns)}, "
                "those of the rows stored"
            )
        columns = self._columns or {name: Column(name) for name in names}
        return {
            name: columns[name].prepare([values], [len(batch)])
            for name, values in batch.columns.items()
        }

    def write(self, batch: RowBatch, prepared: Mapping[str, Prepared]) -> Rows:
        """Stores what `prepare` has checked.

        Returns:
            The slot of each row, int32 of shape (n,). Where a batch is longer than the ring a slot
            occurs several times; the last of its rows is the one that is stored.
        """
        ends = np.cumsum(batch.counts)
        slots = [np.empty(0, np.int32)]
        start = 0
        while start < len(ends):
            full = (ends[start - 1] if start else 0) + self.capacity - self.steps_since_wrap
            stop = min(int(np.searchsorted(ends, full)) + 1, len(ends))
            slots.append(self._write_run(batch, prepared, slice(start, stop)))
            start = stop
        return np.concatenate(slots)

    def _write_run(self, batch: RowBatch, prepared: Mapping[str, Prepared], rows: slice) -> Rows:
        """Writes rows up to the next wrap."""
        after = self.next_slot + rows.stop - rows.start
        slots = np.arange(self.next_slot, after, dtype=np.int32)
        self._reserve(after)
        for name, values in prepared.items():
            given = Prepared(values.layout, [leaf[rows] for leaf in values.leaves])
            self._columns.setdefault(name, Column(name)).write(slots, given, len(self.hits))
        counts, sizes = batch.counts[rows], batch.sizes[rows]
        self.nbytes += int(sizes.sum() - self._sizes[slots].sum())
        self._sizes[slots], self.counts[slots] = sizes, counts
        if self.is_evicting:
            self.evicted_hits.extend(self.hits[slots])
            self.hits[slots] = 0
        self.num_rows = max(self.num_rows, after)
        steps = int(counts.sum())
        self.steps_added += steps
        self.steps_since_wrap += steps
        self.next_slot = after
        if self.steps_since_wrap >= self.capacity:
            self.is_evicting = True
            self.steps_since_wrap = self.next_slot = 0
        return slots

    def _reserve(self, num_rows: int) -> None:
        if num_rows <= len(self.hits):
            return
        num_rows = max(num_rows, min(self.capacity, max(1024, 2 * len(self.hits))))
        for column in self._columns.values():
            column.reserve(num_rows)
        for array in (self.hits, self.counts, self._sizes):
            array.resize(num_rows, refcheck=False)

    def take(self, slots: Rows) -> dict[str, Any]:
        """The columns of the rows in these slots, copied: nested arrays of len(slots) items."""
        return {name: column.take(slots) for name, column in self._columns.items()}

    def oldest_first(self) -> Rows:
        """All slots with a row, int32: those that are overwritten next come first."""
        slots = np.arange(self.num_rows, dtype=np.int32)
        return np.roll(slots, -self.next_slot) if self.is_evicting else slots

    def get_state(self) -> dict[str, Any]:
        """Copies of everything but the columns, which `take` gives."""
        n = self.num_rows
        return {
            "next_slot": self.next_slot,
            "steps_added": self.steps_added,
            "steps_since_wrap": self.steps_since_wrap,
            "is_evicting": self.is_evicting,
            "counts": self.counts[:n].copy(),
            "sizes": self._sizes[:n].copy(),
            "hits": self.hits[:n].copy(),
        }

    def set_state(self, state: dict[str, Any], prepared: Mapping[str, Prepared]) -> None:
        """Takes what `get_state` returned of a ring of the same capacity into this new ring.

        Args:
            state: As returned.
            prepared: The columns, checked by `prepare`.
        """
        n = len(state["counts"])
        self._reserve(n)
        slots = np.arange(n, dtype=np.int32)
        for name, values in prepared.items():
            self._columns.setdefault(name, Column(name)).write(slots, values, len(self.hits))
        self.counts[:n], self._sizes[:n], self.hits[:n] = (
            state[name] for name in ("counts", "sizes", "hits")
        )
        self.num_rows, self.nbytes = n, int(self._sizes[:n].sum())
        self.next_slot, self.is_evicting = state["next_slot"], state["is_evicting"]
        self.steps_added = state["steps_added"]
        self.steps_since_wrap = state["steps_since_wrap"]
