"""FrameColumn: observations that are stacks of frames, with each frame kept once.

An observation whose last axis is a window over the frames seen so far shares all frames but the
newest with the one before it. Frames are compared bit by bit and shared only where they are equal,
so what is read is always what was written; and only within an episode, whose rows are all freed
together, so that no frame has to be counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc._core import stack_frames
from rllib_per_acc.changes import Change, grow
from rllib_per_acc.columns import STORED_KINDS, Column, Prepared, Rows, owned
from rllib_per_acc.row_pool import RowPool

FRAMES, INDEX = ".frames", ".index"
"""How names end in a state: of the arrays of frames, and of what says which frames rows have."""


class StackedFrames:
    """A leaf of a column, like an array of shape (rows, ..., depth), for stacks of frames.

    Args:
        num_rows: How many rows there are.
        like: Items to be written, an array of shape (n, ..., depth).
    """

    def __init__(self, num_rows: int, like: np.ndarray) -> None:
        self._depth = like.shape[-1]
        self._pool = RowPool(0)
        self._frames = np.zeros((0, *like.shape[1:-1]), like.dtype)
        self._index = np.full((num_rows, self._depth), -1, np.int32)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the frames."""
        dtype: np.dtype[Any] = self._frames.dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """That of an array with the same items."""
        return (len(self._index), *self._frames.shape[1:], self._depth)

    @property
    def ndim(self) -> int:
        """The number of axes of `shape`."""
        return self._frames.ndim + 1

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self._frames.nbytes + self._index.nbytes + self._pool.nbytes

    def __len__(self) -> int:
        return len(self._index)

    def reserve(self, num_rows: int) -> None:
        """Makes room for more rows."""
        before = len(self._index)
        grow(self._index, num_rows)
        self._index[before:] = -1

    def take(self, rows: Rows, axis: int = 0) -> np.ndarray:
        """The items at `rows`, of shape (len(rows), ..., depth)."""
        return stack_frames(self._frames, self._index.take(rows, axis=axis))

    def __getitem__(self, row: int) -> np.ndarray:
        item: np.ndarray = self.take(np.array([row], np.int32))[0]
        return item

    def plan(
        self,
        change: Change,
        freed: Rows,
        rows: Rows,
        items: np.ndarray | None,
        previous: Rows | None,
    ) -> None:
        """Plans to free the frames at rows, and to write items.

        Args:
            change: Gets what is to be done.
            freed: Rows, which are those of whole episodes.
            rows: Where to write, int32 of shape (n,).
            items: What, of shape (n, ..., depth); None for nothing.
            previous: The row of the item before each in its episode, which may be one of `rows`;
                -1 where an episode starts.
        """
        unused = np.unique(self._index[freed])
        unused = unused[unused >= 0]
        if len(freed):
            change.put(self._index, freed, -1)
        if items is None or previous is None:
            self._pool.exchange(change, unused, 0)
            return
        frames = np.ascontiguousarray(np.moveaxis(items, -1, 1))
        ids, new = self._find(frames, rows, previous)
        # The new ones have numbers below 0 so far.
        given = self._pool.exchange(change, unused, sum(map(len, new)))
        grow(self._frames, self._pool.num_allocated)
        end = 0
        for j, of_frame in zip(reversed(range(self._depth)), new, strict=True):
            start, end = end, end + len(of_frame)
            change.put(self._frames, given[start:end], frames[of_frame, j])
        numbers = np.where(ids < 0, given.take(-1 - ids, mode="clip"), ids) if end else ids
        change.put(self._index, rows, numbers)

    def _find(
        self, frames: np.ndarray, rows: Rows, previous: Rows
    ) -> tuple[Rows, list[NDArray[np.intp]]]:
        """Which frames of items are stored, or equal others of them.

        Returns:
            The number of each frame: those that are new are -1, -2, ...; int32 of shape (n, depth).
            And the positions of the items whose frame is new, from the newest frame on: -1 is the
            newest frame of the first of them.
        """
        ids = np.empty((len(rows), self._depth), np.int32)
        order = np.argsort(rows)
        place = order.take(np.searchsorted(rows, previous, sorter=order), mode="clip")
        is_within = rows[place] == previous
        within = np.flatnonzero(is_within)
        before = place[within]
        stored = np.flatnonzero((previous >= 0) & ~is_within)
        before_stored = self._index[previous[stored]]
        new: list[NDArray[np.intp]] = []
        num_new = 0
        # From the newest frame on, since one may be that of the next position, in the item before.
        for j in reversed(range(self._depth)):
            shared = np.zeros(len(rows), np.bool_)
            if j < self._depth - 1:
                following = before_stored[:, j + 1]
                same = _equal(frames[stored, j], self._frames[following])
                shared[stored[same]] = True
                ids[stored[same], j] = following[same]
                same = _equal(frames[within, j], frames[before, j + 1])
                shared[within[same]] = True
                ids[within[same], j] = ids[before[same], j + 1]
                # What a start is filled up with.
                rest = np.flatnonzero(~shared)
                same = _equal(frames[rest, j], frames[rest, j + 1])
                shared[rest[same]] = True
                ids[rest[same], j] = ids[rest[same], j + 1]
            new.append(np.flatnonzero(~shared))
            ids[new[-1], j] = -1 - num_new - np.arange(len(new[-1]), dtype=np.int32)
            num_new += len(new[-1])
        return ids, new

    def check_rows(self, name: str, rows: Rows) -> None:
        """Checks that there are frames at these rows.

        Raises:
            ValueError: If there are none.
        """
        missing = np.flatnonzero((self._index[rows] < 0).any(axis=1))
        if missing.size:
            raise ValueError(
                f"{name}{INDEX}: got no frame at row {rows[missing[0]]}, expected one at the row "
                "of every observation"
            )

    def state(self, name: str, num_rows: int) -> dict[str, np.ndarray]:
        """The frames, and by row which they are, as views."""
        return {
            f"{name}{FRAMES}": self._frames[: self._pool.num_used],
            f"{name}{INDEX}": self._index[:num_rows],
        }

    @classmethod
    def restored(
        cls, name: str, arrays: dict[str, np.ndarray], num_rows: int, allocated: int
    ) -> StackedFrames:
        """The leaf that `state` describes, with room for `allocated` rows.

        Raises:
            KeyError, ValueError: If an array is missing or is none that a leaf has.
        """
        frames, index = arrays.pop(f"{name}{FRAMES}"), arrays.pop(f"{name}{INDEX}")
        n = len(frames)
        if (
            frames.dtype.kind not in STORED_KINDS.replace("O", "")
            or index.dtype != np.int32
            or (index.ndim, len(index)) != (2, num_rows)
            or not (index.size == 0 or (index.min() >= -1 and index.max() < n))
        ):
            raise ValueError(
                f"{name}: got {frames.dtype} frames of shape {frames.shape} and an index "
                f"({index.dtype}) of shape {index.shape}, expected {num_rows} rows of frames"
            )
        leaf = cls(0, np.zeros((0, *frames.shape[1:], index.shape[1]), frames.dtype))
        used = np.unique(index)
        used = used[used >= 0]
        if len(used) < n - n // 8:  # a large part was left out of the rows: leave it out too
            index = np.where(index < 0, -1, np.searchsorted(used, index)).astype(np.int32)
            frames = frames[used]
            used = np.arange(len(used))
        free = np.setdiff1d(np.arange(len(frames)), used).astype(np.int32)
        change = Change()
        leaf._pool.exchange(change, free[:0], len(frames))
        change.make()
        change = Change()
        leaf._pool.exchange(change, free, 0)
        change.make()
        leaf._frames = owned(frames, leaf._pool.num_allocated)
        leaf._index = owned(index, num_rows)
        leaf.reserve(allocated)
        return leaf


def _equal(some: np.ndarray, others: np.ndarray) -> NDArray[np.bool_]:
    """Which of the frames are equal, bit by bit: bool of shape (n,)."""
    if not len(some):
        return np.zeros(0, np.bool_)
    one, other = (
        np.ascontiguousarray(a).reshape(len(a), -1).view(np.uint8) for a in (some, others)
    )
    wide = np.uint64 if one.shape[1] % 8 == 0 else np.uint8
    same: NDArray[np.bool_] = (one.view(wide) == other.view(wide)).all(axis=1)
    return same


class FrameColumn(Column):
    """A column whose leaves of shape (..., depth), two axes or more, are stacks of frames.

    Args:
        name: Of the column.
        depth: How many frames there are in a stack.
    """

    def __init__(self, name: str, depth: int) -> None:
        super().__init__(name)
        self._depth = depth

    def _is_stack(self, leaf: Any) -> bool:
        return bool(leaf.ndim > 2 and leaf.shape[-1] == self._depth and leaf.dtype != object)

    def prepare(self, structs: Sequence[Any], lengths: Sequence[int]) -> Prepared:
        """As of `Column`.

        Raises:
            ValueError: Also if nothing is a stack of so many frames.
        """
        prepared = super().prepare(structs, lengths)
        if not any(map(self._is_stack, prepared.leaves)):
            shapes = ", ".join(str(leaf.shape[1:]) for leaf in prepared.leaves)
            raise ValueError(
                f"frame_stack: got {self._depth} and {self.name} of shape {shapes}, expected a "
                f"shape (..., {self._depth}) of two axes or more"
            )
        return prepared

    def bytes_per_item(self, values: Prepared) -> int:
        """As of `Column`, where every frame but one is that of the item before."""
        stacks = Prepared(None, [leaf for leaf in values.leaves if self._is_stack(leaf)])
        of_stacks = super().bytes_per_item(stacks)
        index = len(stacks.leaves) * self._depth * np.dtype(np.int32).itemsize
        return super().bytes_per_item(values) - of_stacks + of_stacks // self._depth + index

    def _empty(self, like: np.ndarray, num_rows: int) -> Any:
        if self._is_stack(like):
            return StackedFrames(num_rows, like)
        return super()._empty(like, num_rows)

    def _plan_leaf(
        self,
        change: Change,
        leaf: Any,
        freed: Rows,
        rows: Rows,
        items: np.ndarray | None,
        previous: Rows | None,
    ) -> None:
        if isinstance(leaf, StackedFrames):
            leaf.plan(change, freed, rows, items, previous)
        else:
            super()._plan_leaf(change, leaf, freed, rows, items, previous)

    def reserve(self, num_rows: int) -> None:
        """Grows to `num_rows` rows."""
        for leaf in self.leaves:
            if isinstance(leaf, StackedFrames):
                leaf.reserve(num_rows)
            else:
                grow(leaf, num_rows)

    def check_rows(self, rows: Rows) -> None:
        """As of `Column`."""
        for i, leaf in enumerate(self.leaves):
            if isinstance(leaf, StackedFrames):
                leaf.check_rows(f"{self.name}.{i}", rows)

    def _leaf_state(self, name: str, leaf: Any, num_rows: int) -> dict[str, np.ndarray]:
        if isinstance(leaf, StackedFrames):
            return leaf.state(name, num_rows)
        return super()._leaf_state(name, leaf, num_rows)

    def restore(
        self, layout: Any, arrays: dict[str, np.ndarray], num_rows: int, allocated: int
    ) -> None:
        """As of `Column`.

        Raises:
            ValueError: Also if there are no stacks of so many frames.
        """
        super().restore(layout, arrays, num_rows, allocated)
        stacks = [leaf for leaf in self.leaves if isinstance(leaf, StackedFrames)]
        if self.leaves and not (stacks and all(map(self._is_stack, stacks))):
            depths = sorted({leaf.shape[-1] for leaf in stacks}) or 0
            raise ValueError(f"frame_stack: got {self._depth}, the saved replay has {depths}")

    def _restored_leaf(
        self, name: str, arrays: dict[str, np.ndarray], num_rows: int, allocated: int
    ) -> Any:
        if f"{name}{FRAMES}" in arrays:
            return StackedFrames.restored(name, arrays, num_rows, allocated)
        return super()._restored_leaf(name, arrays, num_rows, allocated)
