"""RowRing: rows of columns in slots that are overwritten in turn, as in RLlib's `ReplayBuffer`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.changes import Change, grow
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

    def plan_write(
        self, change: Change, batch: RowBatch, prepared: Mapping[str, Prepared]
    ) -> tuple[Rows, int]:
        """Plans to store what `prepare` has checked.

        Returns:
            The slot of each row, int32 of shape (n,). Where a batch is longer than the ring a slot
            occurs several times; the last of its rows is the one that is stored. And how many rows
            are stored then.
        """
        ends = np.cumsum(batch.counts)
        after = _Position(self.next_slot, self.steps_since_wrap, self.is_evicting, self.num_rows)
        runs = []
        start = 0
        while start < len(ends):
            full = (ends[start - 1] if start else 0) + self.capacity - after.steps_since_wrap
            stop = min(int(np.searchsorted(ends, full)) + 1, len(ends))
            slots = np.arange(after.slot, after.slot + stop - start, dtype=np.int32)
            runs.append((slots, after.is_evicting))
            steps = int(batch.counts[start:stop].sum())
            after = after.moved(len(slots), steps, self.capacity)
            start = stop
        slots = np.concatenate([np.empty(0, np.int32), *(slots for slots, _ in runs)])
        self._reserve(after.num_rows)
        self._plan_hits(change, runs)
        self._plan_columns(change, slots, prepared)
        written, last = np.unique(slots[::-1], return_index=True)
        sizes = batch.sizes[::-1][last]
        change.put(self._sizes, written, sizes)
        change.put(self.counts, written, batch.counts[::-1][last])
        change.let(self, "nbytes", self.nbytes + int(sizes.sum() - self._sizes[written].sum()))
        change.let(self, "steps_added", self.steps_added + int(batch.counts.sum()))
        change.let(self, "num_rows", after.num_rows)
        change.let(self, "next_slot", after.slot)
        change.let(self, "steps_since_wrap", after.steps_since_wrap)
        change.let(self, "is_evicting", after.is_evicting)
        return slots, after.num_rows

    def _plan_hits(self, change: Change, runs: list[tuple[Rows, bool]]) -> None:
        """Plans to count how often the rows that are overwritten were sampled."""
        evicted = [slots for slots, is_evicting in runs if is_evicting]
        if not evicted:
            return
        over = np.concatenate(evicted)
        hits = self.hits[over]
        first = np.unique(over, return_index=True)[1]
        again = np.ones(len(over), np.bool_)
        again[first] = False
        before = [slots for slots, is_evicting in runs if not is_evicting]
        if before:  # a row of this very batch is overwritten, which nobody has sampled
            again |= np.isin(over, np.concatenate(before))
        hits[again] = 0
        self.evicted_hits.plan_extend(change, hits)
        change.put(self.hits, over, 0)

    def _plan_columns(self, change: Change, slots: Rows, prepared: Mapping[str, Prepared]) -> None:
        columns = {name: self._columns.get(name) or Column(name) for name in prepared}
        for name, values in prepared.items():
            columns[name].plan(change, slots[:0], slots, values, len(self.hits))
        change.let(self, "_columns", columns)

    def _reserve(self, num_rows: int) -> None:
        if num_rows <= len(self.hits):
            return
        num_rows = max(num_rows, min(self.capacity, max(1024, 2 * len(self.hits))))
        for column in self._columns.values():
            column.reserve(num_rows)
        for array in (self.counts, self._sizes, self.hits):  # the last one says what there is
            grow(array, num_rows)

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
        change = Change()
        self._plan_columns(change, np.arange(n, dtype=np.int32), prepared)
        change.make()
        self.counts[:n], self._sizes[:n], self.hits[:n] = (
            state[name] for name in ("counts", "sizes", "hits")
        )
        self.num_rows, self.nbytes = n, int(self._sizes[:n].sum())
        self.next_slot, self.is_evicting = state["next_slot"], state["is_evicting"]
        self.steps_added = state["steps_added"]
        self.steps_since_wrap = state["steps_since_wrap"]


class _Position(NamedTuple):
    """Where in a ring the next row goes."""

    slot: int
    steps_since_wrap: int
    is_evicting: bool
    num_rows: int

    def moved(self, num_rows: int, steps: int, capacity: int) -> _Position:
        """The position after so many rows, which do not go beyond the next wrap."""
        slot, steps = self.slot + num_rows, self.steps_since_wrap + steps
        stored = max(self.num_rows, slot)
        if steps >= capacity:
            return _Position(0, 0, True, stored)
        return _Position(slot, steps, self.is_evicting, stored)
