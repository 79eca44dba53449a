"""Segment trees: a batched sum-and-min pair for replay, and RLlib's two single trees.

Leaves live in the compiled core as float64. Parents are always recomputed from their children, so
a tree never drifts, and its nodes have the bits that RLlib's Python tree would have.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsFloat, SupportsIndex, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rllib_per_acc import _core
from rllib_per_acc.devices import make_priority_tree, resolve_device


class PriorityTree:
    """The masses of a prioritized replay: their sum, their minimum, and draws by prefix sum.

    A mass is ``priority ** alpha``. Mass 0 means absent: it adds nothing to the sum, does not
    count in the minimum and is never drawn. Methods may be called from several threads.
    """

    def __init__(self, capacity: int, device: str = "auto") -> None:
        """Makes a tree of absent leaves.

        Args:
            capacity: Number of leaves, >= 1.
            device: ``"cpu"``, ``"gpu"``, or ``"auto"``: a GPU if there is one to use.

        Raises:
            TypeError: if `capacity` is not an integer.
            ValueError: if `capacity` is below 1 or `device` is unknown.
            BackendUnavailableError: if a GPU is asked for and cannot be used.
        """
        capacity = _check_capacity(capacity)
        self.device = resolve_device(device)
        self._tree = make_priority_tree(capacity, self.device)

    @property
    def capacity(self) -> int:
        """Number of leaves."""
        return self._tree.capacity

    @property
    def nbytes(self) -> int:
        """Bytes reserved for the nodes; pages that were never written take no memory."""
        return self._tree.nbytes

    def __len__(self) -> int:
        return self._tree.capacity

    def update(self, indices: ArrayLike, masses: ArrayLike) -> None:
        """Sets leaves; of equal indices in one call the last wins.

        Args:
            indices: Integers in [0, capacity), shape (n,), or one integer.
            masses: Finite numbers >= 0, shape (n,), or one number. The largest allowed mass is
                the largest float64 divided by the capacity, rounded up to a power of two.

        Raises:
            IndexError: if an index is out of range.
            TypeError: if `indices` are not integers or `masses` not real numbers.
            ValueError: if a mass is not allowed or the lengths differ.
            In each case the tree is unchanged.
        """
        self._tree.update(indices, masses)

    @overload
    def find_prefixsum(self, masses: float | np.floating[Any]) -> int: ...
    @overload
    def find_prefixsum(self, masses: ArrayLike) -> NDArray[np.int64]: ...
    def find_prefixsum(self, masses: ArrayLike) -> int | NDArray[np.int64]:
        """Finds the leaves in whose share of the sum the masses fall.

        Masses in [0, sum()) drawn uniformly give leaves with probability proportional to their
        mass. A leaf of mass 0 is never returned; a mass >= sum() gives the last leaf with mass.

        Args:
            masses: Finite numbers >= 0, shape (n,), or one number.

        Returns:
            int64 indices, shape (n,); an int for one number.

        Raises:
            TypeError: if `masses` are not real numbers.
            ValueError: if a mass is negative, infinite or NaN, or if ``sum() == 0``.
        """
        return self._tree.find_prefixsum(masses)

    def draw(self, fractions: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Finds the leaves at fractions of the sum, and their masses.

        Args:
            fractions: Numbers in [0, 1), shape (n,).

        Returns:
            What ``find_prefixsum(fractions * sum())`` returns, int64, and the masses of these
            leaves, float64, both of shape (n,).

        Raises:
            TypeError: if `fractions` are not real numbers.
            ValueError: if one is not in [0, 1), or if ``sum() == 0``.
        """
        return self._tree.draw(fractions)

    def sum(self) -> float:
        """Returns the sum of all masses."""
        return self._tree.sum()

    def min(self) -> float:
        """Returns the smallest mass that is not 0; +inf if there is none."""
        return self._tree.min()

    @overload
    def __getitem__(self, indices: int | np.integer[Any]) -> float: ...
    @overload
    def __getitem__(self, indices: ArrayLike) -> NDArray[np.float64]: ...
    def __getitem__(self, indices: ArrayLike) -> float | NDArray[np.float64]:
        """Returns the masses of leaves: float64, shape (n,), or a float for one integer."""
        return self._tree[indices]

    def get_state(self) -> dict[str, Any]:
        """Returns ``capacity`` and ``leaves``, a copy of the masses: float64, shape (capacity,)."""
        return {"capacity": self.capacity, "leaves": self._tree.leaves()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores what `get_state` returned, also from a tree of another capacity.

        Leaves past those in the state become absent.

        Raises:
            TypeError: if `state` is not such a dict.
            ValueError: if its leaves do not fit or hold a mass that is not allowed. The tree is
                unchanged.
        """
        if not isinstance(state, dict) or "leaves" not in state:
            raise TypeError(f"state is {state!r:.80}: expected a dict with 'capacity' and 'leaves'")
        self._tree.assign(state["leaves"])

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduced(self, PriorityTree, self.capacity, self.device)

    def __repr__(self) -> str:
        return f"PriorityTree(capacity={self.capacity}, device={self.device!r})"


class _SegmentTree:
    """What RLlib's two trees share; values are any floats."""

    _tree: _core.SumTree | _core.MinTree

    @property
    def capacity(self) -> int:
        """Number of leaves."""
        return self._tree.capacity

    def __len__(self) -> int:
        return self._tree.capacity

    @overload
    def __getitem__(self, idx: int | np.integer[Any]) -> float: ...
    @overload
    def __getitem__(self, idx: ArrayLike) -> NDArray[np.float64]: ...
    def __getitem__(self, idx: ArrayLike) -> float | NDArray[np.float64]:
        """Returns leaves: float64, shape (n,), or a float for one integer."""
        return self._tree[idx]

    def __setitem__(self, idx: ArrayLike, val: ArrayLike) -> None:
        """Sets one leaf, or leaves of equal lengths (of equal indices the last wins)."""
        self._tree.update(idx, val)

    def reduce(self, start: int = 0, end: int | None = None) -> float:
        """Combines the leaves from `start` up to, not including, `end`.

        Args:
            start: First leaf, 0 <= start <= capacity.
            end: One past the last leaf; a negative one counts from the capacity; None is all.

        Raises:
            IndexError: if the range leaves the tree.
        """
        end = self.capacity if end is None else operator.index(end)
        return self._tree.reduce(operator.index(start), end + self.capacity if end < 0 else end)

    def get_state(self) -> list[float]:
        """Returns all nodes in heap order, as RLlib's trees do.

        The list has twice the capacity (rounded up to a power of two) values: node 0 unused,
        node 1 the root, the leaves in the second half.
        """
        nodes: list[float] = self._tree.nodes().tolist()
        return nodes

    def set_state(self, state: list[float]) -> None:
        """Restores what `get_state` returned, here or in RLlib's tree of the same capacity.

        Raises:
            TypeError: if `state` does not hold real numbers.
            ValueError: if its length is not that of this tree's state. The tree is unchanged.
        """
        values = np.asarray(state)
        expected = 2 * _padded(self.capacity)
        if values.shape != (expected,):
            raise ValueError(f"state has shape {values.shape}: expected ({expected},)")
        leaves = values[expected // 2 :]
        self._tree.assign(leaves[: self.capacity])

    def __reduce__(self) -> tuple[Any, ...]:
        sums = isinstance(self, SumSegmentTree)
        return _reduced(self, SumSegmentTree if sums else MinSegmentTree, self.capacity)


class SumSegmentTree(_SegmentTree):
    """Drop-in for ``ray.rllib.execution.segment_tree.SumSegmentTree``, with batches.

    Descents differ from RLlib's where that returns a leaf of value 0: this tree never does.
    """

    _tree: _core.SumTree

    def __init__(self, capacity: int) -> None:
        """Makes a tree of zeros; `capacity` >= 1 need not be a power of two."""
        self._tree = _core.SumTree(_check_capacity(capacity))

    def sum(self, start: int = 0, end: int | None = None) -> float:
        """Returns the sum over a range, as `reduce`."""
        return self.reduce(start, end)

    @overload
    def find_prefixsum_idx(self, prefixsum: float | np.floating[Any]) -> int: ...
    @overload
    def find_prefixsum_idx(self, prefixsum: ArrayLike) -> NDArray[np.int64]: ...
    def find_prefixsum_idx(self, prefixsum: ArrayLike) -> int | NDArray[np.int64]:
        """Finds the highest leaf such that the sum of all before it is at most `prefixsum`.

        Args:
            prefixsum: Finite numbers >= 0, shape (n,), or one number. At or past the sum, the
                last leaf with a value.

        Returns:
            int64 indices, shape (n,); an int for one number.

        Raises:
            TypeError: if `prefixsum` is not real numbers.
            ValueError: if one is negative, infinite or NaN, or if the sum is 0.
        """
        return self._tree.find_prefixsum(prefixsum)


class MinSegmentTree(_SegmentTree):
    """Drop-in for ``ray.rllib.execution.segment_tree.MinSegmentTree``, with batches."""

    _tree: _core.MinTree

    def __init__(self, capacity: int) -> None:
        """Makes a tree of +inf; `capacity` >= 1 need not be a power of two."""
        self._tree = _core.MinTree(_check_capacity(capacity))

    def min(self, start: int = 0, end: int | None = None) -> float:
        """Returns the minimum over a range, as `reduce`."""
        return self.reduce(start, end)


@overload
def power(values: float | np.floating[Any], exponent: float) -> float: ...
@overload
def power(values: ArrayLike, exponent: float) -> NDArray[np.float64]: ...
def power(values: ArrayLike, exponent: float) -> float | NDArray[np.float64]:
    """Raises values to a power with the bits of Python's ``float ** float``.

    NumPy's vectorized power may differ in the last place. Where Python raises or leaves the real
    numbers, this gives what C's ``pow`` gives: ``power([0.0], -1.0)`` is inf, and
    ``power([-1.0], 0.5)`` is NaN.

    Args:
        values: Real numbers, shape (n,), or one number.
        exponent: A real number.

    Returns:
        float64, shape (n,); a float for one number.

    Raises:
        TypeError: if an argument is not real.
        ValueError: if `values` has more than one dimension.
    """
    return _core.power(values, exponent)


def _reduced(tree: Any, base: type[Any], *arguments: Any) -> tuple[Any, ...]:
    """What a pickle keeps of a tree: of a subclass its class, and what else it has."""
    more = {name: value for name, value in vars(tree).items() if name not in ("_tree", "device")}
    return _restored, (type(tree), base, arguments, base.get_state(tree)), more or None


def _restored(
    tree_class: type[Any], base: type[Any], arguments: tuple[Any, ...], state: Any
) -> Any:
    """A tree from a pickle or of a copy; a subclass may be made of other arguments."""
    tree: Any = object.__new__(tree_class)
    base.__init__(tree, *arguments)
    base.set_state(tree, state)
    return tree


def _check_capacity(capacity: SupportsIndex | SupportsFloat) -> int:
    if isinstance(capacity, bool) or not isinstance(capacity, SupportsIndex):
        raise TypeError(f"capacity is {capacity!r}: expected an integer >= 1")
    capacity = operator.index(capacity)
    if not 1 <= capacity <= 1 << 56:
        raise ValueError(f"capacity is {capacity}: expected 1 <= capacity <= 2**56")
    return capacity


def _padded(capacity: int) -> int:
    return 1 << (capacity - 1).bit_length()
