"""Growing columns of rows: one array per leaf of a nested observation, action or output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rllib_per_acc.changes import Change, grow
from rllib_per_acc.structures import Layout, flatten, layout_of, num_leaves_of, unflatten

Rows = NDArray[np.int32]

STORED_KINDS = "biufcO"
"""Of the dtypes that columns have."""

NOTHING = "nothing"
"""In a state, the layout of a column that nothing was written to."""


def as_leaf(values: Any, what: str, length: int) -> np.ndarray:
    """`values` as an array of `length` items; what is not numeric becomes an object array.

    Raises:
        ValueError: If there are not `length` items.
    """
    try:
        array = np.asarray(values)
    except ValueError:  # ragged: every item is kept as an object
        array = _as_objects(values)
    if array.dtype.kind not in STORED_KINDS:
        array = array.astype(object)
    if array.ndim == 0 or len(array) != length:
        got = "a scalar" if array.ndim == 0 else f"{len(array)} items"
        raise ValueError(f"{what}: got {got}, expected {length} items")
    return array


def _as_objects(values: Any) -> np.ndarray:
    """Every item of `values` as an object, also where they have one shape."""
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array


_WIDTH = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
"""Of the kinds of numbers: those that a kind may stand for are not wider."""


def exactly(
    values: np.ndarray, dtype: np.dtype[Any], what: str, any_kind: bool = False
) -> np.ndarray:
    """`values` with another dtype, where no value becomes another one.

    Args:
        values: Which.
        dtype: Which they are to have. Integers may become floats, and so on, not the other way.
        what: What they are, for the error message.
        any_kind: Whether the other way is fine too.

    Raises:
        ValueError: If a value has no equal of that dtype.
    """
    if values.dtype == dtype:
        return values
    if dtype.kind == "O":
        return values.astype(object)
    width = _WIDTH.get(values.dtype.kind)
    fits = width is not None and (any_kind or width <= _WIDTH[dtype.kind])
    got = str(values.dtype)
    if fits:
        if values.dtype.kind not in "iu" and np.can_cast(values.dtype, dtype, "safe"):
            return values.astype(dtype)
        with np.errstate(all="ignore"):
            cast = values.astype(dtype)
            real = cast.real if values.dtype.kind != "c" else cast
            wrong = real.astype(values.dtype) != values
        if values.dtype.kind in "iu":  # there and back may wrap around, or stop at the greatest
            wrong |= ((real < 0) != (values < 0)) | (real >= float(2 ** _bits(values.dtype)))
        wrong &= ~(np.isnan(values) & np.isnan(cast))
        if not wrong.any():
            return cast
        got = f"{values[wrong][0]} ({got})"
    raise ValueError(f"{what}: got {got}, expected what is exactly {dtype}, as stored before")


def _bits(dtype: np.dtype[Any]) -> int:
    """Of the greatest number of a dtype of integers."""
    return int(np.iinfo(dtype).max).bit_length()


def owned(array: np.ndarray, num_rows: int) -> np.ndarray:
    """`array` itself, grown to `num_rows` rows, if it can be written and resized; else a copy."""
    flags = array.flags
    if not (flags.owndata and flags.writeable and flags.c_contiguous and type(array) is np.ndarray):
        array = np.array(array, order="C")
    if num_rows > 2 * len(array):  # what is not written to takes no memory then
        grown = np.zeros((num_rows, *array.shape[1:]), array.dtype)
        grown[: len(array)] = array
        return grown
    array.resize((num_rows, *array.shape[1:]), refcheck=False)
    return array


def array_of(
    arrays: dict[str, np.ndarray], name: str, dtype: DTypeLike, length: int | None = None
) -> NDArray[Any]:
    """The array with this name, which must have this dtype, one dimension and this length.

    Raises:
        ValueError: If there is none or it is another one.
    """
    array = arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name}: got {type(array).__name__}, expected an array")
    if array.dtype != dtype or array.ndim != 1 or length not in (None, len(array)):
        n = "any number of" if length is None else length
        raise ValueError(
            f"{name}: got {array.dtype} of shape {array.shape}, expected {np.dtype(dtype)} of "
            f"{n} items"
        )
    return array


class Prepared(NamedTuple):
    """Checked values, ready to be written: one array per leaf."""

    layout: Layout
    leaves: list[np.ndarray]

    def without(self, positions: Sequence[int]) -> Prepared:
        """These values without the items at `positions`."""
        if not positions:
            return self
        if positions == [0]:
            return Prepared(self.layout, [leaf[1:] for leaf in self.leaves])
        return Prepared(self.layout, [np.delete(leaf, positions, axis=0) for leaf in self.leaves])


class Column:
    """One nested quantity of every row, kept as one growing array per leaf.

    Nesting, shapes and dtypes are those of the first values written. Later values of another dtype
    are taken where each of them is exactly one of the column's; no value is ever rounded. Another
    shape or nesting is an error.
    """

    _any_kind = False
    """Whether floats may become integers, and so on, where they are equal."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.layout: Layout = None
        self.leaves: list[Any] = []  # arrays, or what can be used like them

    @property
    def nbytes(self) -> int:
        """Bytes allocated (what object columns point to is not counted)."""
        return sum(leaf.nbytes for leaf in self.leaves)

    def prepare(self, structs: Sequence[Any], lengths: Sequence[int]) -> Prepared:
        """Checks `structs` against the column and joins them.

        Args:
            structs: Nested values, `lengths[i]` items in every leaf of `structs[i]`.
            lengths: The number of items of each.

        Raises:
            ValueError: If nesting, length or item shape differ from what the column holds.
        """
        layout = self.layout if self.leaves else layout_of(structs[0])
        if not self.leaves and not num_leaves_of(layout):
            raise ValueError(f"{self.name}: got {structs[0]!r:.80}, expected at least one array")
        given = [flatten(struct, layout, self.name) for struct in structs]
        pieces = [
            [as_leaf(leaf, self.name, length) for leaf in leaves]
            for leaves, length in zip(given, lengths, strict=True)
        ]
        known = [self.leaves, *pieces] if self.leaves else pieces
        for i, of_leaf in enumerate(zip(*known, strict=True)):
            if any(leaf.dtype == object and leaf.ndim == 1 for leaf in of_leaf):
                for leaves, piece in zip(given, pieces, strict=True):
                    if piece[i].ndim > 1:  # items of various shapes that here have one
                        piece[i] = _as_objects(leaves[i])
        for i, expected in enumerate(self.leaves or pieces[0]):
            for piece in pieces:
                if piece[i].shape[1:] != expected.shape[1:]:
                    raise ValueError(
                        f"{self.name}: got items of shape {piece[i].shape[1:]}, "
                        f"expected {expected.shape[1:]}"
                    )
                if piece[i].dtype != expected.dtype:
                    piece[i] = exactly(piece[i], expected.dtype, self.name, self._any_kind)
        if len(pieces) == 1:
            return Prepared(layout, pieces[0])
        return Prepared(layout, [np.concatenate(leaf) for leaf in zip(*pieces, strict=True)])

    def plan(
        self,
        change: Change,
        freed: Rows,
        rows: Rows,
        values: Prepared | None,
        allocated: int,
        previous: Rows | None = None,
    ) -> None:
        """Plans to drop what rows hold, and then to write.

        Args:
            change: Gets what is to be done.
            freed: Rows whose values are dropped.
            rows: Where to write, perhaps some of these; of one named twice the last item counts.
            values: What, as `prepare` returned it; None for nothing.
            allocated: Rows that the column has to have from the first write on.
            previous: The row before each of `rows` in its episode, -1 where that starts, for
                columns that keep items by what changes in them.
        """
        leaves = self.leaves
        if values is not None and not leaves:
            leaves = [self._empty(leaf, allocated) for leaf in values.leaves]
            change.let(self, "layout", values.layout)
            change.let(self, "leaves", leaves)
        for i, leaf in enumerate(leaves):
            items = None if values is None else values.leaves[i]
            self._plan_leaf(change, leaf, freed, rows, items, previous)

    def _empty(self, like: np.ndarray, num_rows: int) -> Any:
        """A leaf for items such as those of `like`."""
        return np.zeros((num_rows, *like.shape[1:]), like.dtype)

    def _plan_leaf(
        self,
        change: Change,
        leaf: Any,
        freed: Rows,
        rows: Rows,
        items: np.ndarray | None,
        previous: Rows | None,
    ) -> None:
        if leaf.dtype == object and len(freed):
            change.put(leaf, freed, None)
        if items is not None:
            change.put(leaf, rows, items)

    def bytes_per_item(self, values: Prepared) -> int:
        """What an item such as these takes here (not what objects point to)."""
        return sum(leaf.dtype.itemsize * math.prod(leaf.shape[1:]) for leaf in values.leaves)

    def reserve(self, num_rows: int) -> None:
        """Grows every leaf to `num_rows` rows, in place where the allocator can."""
        for leaf in self.leaves:
            grow(leaf, num_rows)

    def take(self, rows: NDArray[np.integer[Any]]) -> Any:
        """The nested values at `rows`, copied: leaves of shape (len(rows), ...)."""
        return unflatten([leaf.take(rows, axis=0) for leaf in self.leaves], self.layout)

    def state(self, num_rows: int) -> tuple[Any, dict[str, np.ndarray]]:
        """The layout, and the arrays of the first `num_rows` rows as views."""
        arrays: dict[str, np.ndarray] = {}
        for i, leaf in enumerate(self.leaves):
            arrays |= self._leaf_state(f"{self.name}.{i}", leaf, num_rows)
        return (self.layout if self.leaves else NOTHING), arrays

    def _leaf_state(self, name: str, leaf: Any, num_rows: int) -> dict[str, np.ndarray]:
        return {name: leaf[:num_rows]}

    def restore(
        self, layout: Any, arrays: dict[str, np.ndarray], num_rows: int, allocated: int
    ) -> None:
        """Takes what another's `state` returned into this new column of `allocated` rows.

        Raises:
            ValueError: If an array is missing, or is none of `num_rows` items that fits.
        """
        self.layout = None if layout == NOTHING else layout
        num_leaves = 0 if layout == NOTHING else num_leaves_of(layout)
        self.leaves = [
            self._restored_leaf(f"{self.name}.{i}", arrays, num_rows, allocated)
            for i in range(num_leaves)
        ]

    def check_rows(self, rows: Rows) -> None:
        """Checks that what was restored holds something at these rows.

        Raises:
            ValueError: If it does not.
        """

    def _restored_leaf(
        self, name: str, arrays: dict[str, np.ndarray], num_rows: int, allocated: int
    ) -> Any:
        if f"{name}.frames" in arrays:
            raise ValueError(f"frame_stack: got 0, expected that of the saved replay for {name}")
        leaf = arrays.pop(name)
        if leaf.dtype.kind not in STORED_KINDS or not leaf.ndim or len(leaf) != num_rows:
            raise ValueError(
                f"{name}: got {leaf.dtype} of shape {leaf.shape}, expected "
                f"{num_rows} numbers, arrays or objects"
            )
        return owned(leaf, allocated)


class OptionalColumn(Column):
    """A column that not every row has a value in."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.present = np.zeros(0, np.bool_)

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return super().nbytes + self.present.nbytes

    def plan(
        self,
        change: Change,
        freed: Rows,
        rows: Rows,
        values: Prepared | None,
        allocated: int,
        previous: Rows | None = None,
    ) -> None:
        """As of `Column`; rows have a value from the time on that one is written."""
        super().plan(change, freed, rows, values, allocated, previous)
        grow(self.present, allocated)
        if len(freed):
            change.put(self.present, freed, False)
        if values is not None:
            change.put(self.present, rows, True)

    def reserve(self, num_rows: int) -> None:
        """Grows to `num_rows` rows."""
        super().reserve(num_rows)
        grow(self.present, num_rows)

    def state(self, num_rows: int) -> tuple[Any, dict[str, np.ndarray]]:
        """As of `Column`, and which rows have a value."""
        layout, arrays = super().state(num_rows)
        return layout, arrays | {f"{self.name}.present": self.present[:num_rows]}

    def restore(
        self, layout: Any, arrays: dict[str, np.ndarray], num_rows: int, allocated: int
    ) -> None:
        """As of `Column`."""
        super().restore(layout, arrays, num_rows, allocated)
        name = f"{self.name}.present"
        array_of(arrays, name, np.bool_, num_rows)
        self.present = owned(arrays.pop(name), allocated)


class NumberColumn(Column):
    """One number for every row, of one dtype."""

    _any_kind = True

    def __init__(self, name: str, dtype: DTypeLike) -> None:
        super().__init__(name)
        self._dtype = np.dtype(dtype)

    def prepare(self, structs: Sequence[Any], lengths: Sequence[int]) -> Prepared:
        """As of `Column`.

        Raises:
            ValueError: If something is no number, or is none of the two numbers that bools are.
        """
        (given,) = super().prepare(structs, lengths).leaves
        if given.dtype.kind not in "biuf" or given.ndim != 1:
            raise ValueError(
                f"{self.name}: got {given.dtype} items of shape {given.shape[1:]}, expected numbers"
            )
        numbers = exactly(given, self._dtype, self.name, self._any_kind)
        return Prepared(None, [numbers])

    def restore(
        self, layout: Any, arrays: dict[str, np.ndarray], num_rows: int, allocated: int
    ) -> None:
        """As of `Column`."""
        if layout not in (None, NOTHING):
            raise ValueError(f"{self.name}: got the layout {layout!r:.80}, expected numbers")
        super().restore(layout, arrays, num_rows, allocated)
        if self.leaves:
            array_of({self.name: self.leaves[0]}, self.name, self._dtype)
