"""Priorities to probabilities: alpha, beta, the floor, the maximum, draws and weights.

A *priority* is what a learner reports (an absolute TD error); the *mass* of a row is
`max(priority, floor) ** alpha` or `(|priority| + min_priority) ** alpha`, which the tree holds. Row
i is drawn with probability P(i) = mass_i / total (Schaul et al., 2016, equation 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc import _core
from rllib_per_acc.changes import Change
from rllib_per_acc.columns import Rows
from rllib_per_acc.replay_options import PriorityOptions, non_negative, non_negative_int
from rllib_per_acc.segment_tree import MinSegmentTree, PriorityTree, power

Floats = NDArray[np.float64]

PRIORITY_FLOOR = 1e-12
"""The least priority, as in RLlib's `PrioritizedEpisodeReplayBuffer.update_priorities`."""

_SMALLEST_MASS = float(np.finfo(np.float64).tiny)
_LARGEST_MASS = float(np.finfo(np.float64).max) / 2**32
"""Sums stay finite however many rows there are: row numbers are int32."""


def checked_weight(weight: Any, length: int) -> Floats:
    """First priorities of `length` steps from one number or one for each, float64.

    Raises:
        TypeError: If they are not real numbers.
        ValueError: If their number is wrong, or one is negative, NaN or infinite.
    """
    array = np.asarray(weight)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"weight: got {weight!r:.80}, expected real numbers")
    if array.shape not in ((), (length,)):
        raise ValueError(f"weight: got shape {array.shape}, expected () or ({length},)")
    array = np.broadcast_to(array, (length,)).astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        raise ValueError(
            f"weight: got {array[bad[0]]} at position {bad[0]}, expected finite numbers >= 0"
        )
    return array


def checked_priorities(priorities: Any, length: int, name: str = "priorities") -> Floats:
    """`priorities` as float64 of shape (length,).

    Raises:
        TypeError: If they are not real numbers.
        ValueError: If there are not `length` of them, or one is NaN or infinite.
    """
    array = np.asarray(priorities)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name}: got {array.dtype} items, expected real numbers")
    if array.shape != (length,):
        raise ValueError(f"{name}: got shape {array.shape}, expected ({length},)")
    array = array.astype(np.float64)
    finite = np.isfinite(array)
    if not finite.all():
        bad = finite.argmin()
        raise ValueError(f"{name}: got {array[bad]} at position {bad}, expected finite numbers")
    return array


def fractions(n: int, rng: np.random.Generator, stratified: bool) -> Floats:
    """`n` random numbers in [0, 1): independent, or one from each of `n` equal parts."""
    uniform = rng.random(n)
    return (np.arange(n) + uniform) / n if stratified else uniform


def importance_weights(
    masses: Floats, total: float, least: float | None, size: int, beta: float
) -> Floats:
    """Importance weights (size * P(i)) ** -beta, normalised, float64 of the shape of `masses`.

    The order of operations is that of RLlib's `PrioritizedEpisodeReplayBuffer.sample`.

    Args:
        masses: Of the rows drawn.
        total: The sum of all masses.
        least: The least mass of all, whose weight becomes 1; None: the highest weight here does.
        size: How many rows there are.
        beta: The exponent.
    """
    return _core.importance_weights(masses, total, math.nan if least is None else least, size, beta)


class PrioritySampler:
    """The masses of rows in a tree, and everything drawn from it.

    Args:
        options: See there.
    """

    def __init__(self, options: PriorityOptions) -> None:
        self.alpha = options.alpha
        self.min_priority = options.min_priority
        self.stratified = options.sampling == "stratified"
        self._by_batch = options.weight_normalization == "batch"
        self.tree = PriorityTree(1, options.device)
        self.lifetime_max_priority = 1.0
        self._negated = MinSegmentTree(1) if options.max_priority == "buffer" else None
        self.num_lifted = 0
        """Masses that underflowed and were lifted to the smallest normal number."""

    def reserve(self, num_rows: int) -> None:
        """Makes room for the masses of `num_rows` rows, doubling; no bit of a sum changes."""
        if num_rows <= self.tree.capacity:
            return
        num_rows = 1 << max(num_rows - 1, 1023).bit_length()
        grown = PriorityTree(num_rows, self.tree.device)
        grown.set_state(self.tree.get_state())
        if self._negated is not None:
            negated = MinSegmentTree(num_rows)
            for rows in _blocks(self._negated.capacity):
                negated[rows] = self._negated[rows]
            self._negated = negated
        self.tree = grown  # at last: now there is room in both

    @property
    def max_priority(self) -> float:
        """The priority that a new row gets."""
        if self._negated is None:
            return self.lifetime_max_priority
        highest = -self._negated.min()
        return highest if highest > 0.0 else 1.0

    def check(self, name: str, priorities: Floats) -> None:
        """Checks that no mass of these priorities is too large.

        Raises:
            ValueError: If one is; `name` says whose.
        """
        if not len(priorities):
            return
        self._check_highest(name, priorities, float(self._sizes(priorities).max()))

    def _check_highest(self, name: str, priorities: Floats, highest: float) -> None:
        if power(highest + (self.min_priority or 0.0), self.alpha) > _LARGEST_MASS:
            raise ValueError(
                f"{name}: got {highest} at position {self._sizes(priorities).argmax()}, expected "
                f"at most {_LARGEST_MASS:.3g} as the {self.alpha}-th power (alpha): sums must stay "
                "finite"
            )

    def _sizes(self, priorities: Floats) -> Floats:
        """What counts of priorities: those above the floor, or without their signs."""
        if self.min_priority is None:
            return np.maximum(priorities, PRIORITY_FLOOR)
        return np.abs(priorities)

    def masses_of(self, priorities: Floats, name: str = "priorities") -> tuple[Floats, float, int]:
        """Masses, never 0, the greatest of `_sizes`, and how many masses were lifted.

        Raises:
            ValueError: If a mass is too large; `name` says whose.
        """
        raised, floor, offset = priorities, PRIORITY_FLOOR, self.min_priority
        if offset is not None:
            raised, floor = self._sizes(priorities) + offset, 0.0
        masses, num_lifted, highest = _core.priority_masses(
            raised, self.alpha, floor, _SMALLEST_MASS
        )
        if offset is not None:
            highest = float(np.abs(priorities).max(initial=0.0))
        self._check_highest(name, priorities, highest)
        return masses, highest, num_lifted

    def plan_replace(self, change: Change, freed: Rows, rows: Rows, priorities: Floats) -> None:
        """Plans to take out `freed` rows and give `rows` first priorities, in one update.

        Raises:
            ValueError: If a mass is too large.
        """
        masses, _, num_lifted = self.masses_of(priorities)
        if len(freed):
            masses = np.concatenate([np.zeros(len(freed)), masses])
        both = np.concatenate([freed, rows])
        if len(both):
            change.call(self.tree.update, both, masses)
        change.let(self, "num_lifted", self.num_lifted + num_lifted)
        if self._negated is not None:
            negated = np.concatenate([np.full(len(freed), np.inf), -self._sizes(priorities)])
            change.put(self._negated, both, negated)

    def plan_update(self, change: Change, rows: Rows, priorities: Floats) -> Floats:
        """Plans to give stored `rows` new priorities; of a row named twice the last one counts.

        Returns:
            Their masses.

        Raises:
            ValueError: If a mass is too large.
        """
        if not len(rows):
            return np.zeros(0)
        masses, highest, num_lifted = self.masses_of(priorities)
        change.call(self.tree.update, rows, masses)
        change.let(self, "lifetime_max_priority", max(self.lifetime_max_priority, highest))
        change.let(self, "num_lifted", self.num_lifted + num_lifted)
        if self._negated is not None:
            change.put(self._negated, rows, -self._sizes(priorities))
        return masses

    def draw(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
        """`n` rows drawn with probabilities P(i), int64 of shape (n,), and their masses."""
        return self.tree.draw(fractions(n, rng, self.stratified))

    def weights(self, masses: Floats, size: int, beta: float) -> Floats:
        """The `importance_weights` of rows with these masses."""
        total, least = self.tree.sum(), None if self._by_batch else self.tree.min()
        return importance_weights(masses, total, least, size, beta)

    def state(self, num_rows: int) -> tuple[dict[str, Any], dict[str, Floats]]:
        """What `restore` needs: a JSON-able description, and the masses of `num_rows` rows.

        There are priorities too where they are kept (`max_priority="buffer"`), -inf where absent.
        """
        description = {
            "alpha": self.alpha,
            "min_priority": self.min_priority,
            "lifetime_max_priority": self.lifetime_max_priority,
            "num_lifted": self.num_lifted,
        }
        arrays = {"masses": _leaves(self.tree, num_rows)}
        if self._negated is not None:
            negated = _leaves(self._negated, num_rows)
            arrays["priorities"] = np.negative(negated, out=negated)
        return description, arrays

    def restore(self, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Takes what another sampler's `state` returned, checked, into this new sampler.

        Priorities that are not there, and masses of another alpha or `min_priority`, are computed
        from each other.

        Raises:
            ValueError: If a number of the description is not one that a sampler has.
        """
        alpha = non_negative("alpha", description["alpha"])
        min_priority = description.get("min_priority")
        if min_priority is not None:
            non_negative("min_priority", min_priority)
        same = (alpha, min_priority) == (self.alpha, self.min_priority)
        self.lifetime_max_priority = non_negative(
            "lifetime_max_priority", description["lifetime_max_priority"]
        )
        self.check("lifetime_max_priority", np.array([self.lifetime_max_priority]))
        self.num_lifted = non_negative_int("num_lifted", description["num_lifted"])
        masses, priorities = arrays.pop("masses"), arrays.pop("priorities", None)
        if not same or (priorities is None and self._negated is not None):
            stored = np.flatnonzero(masses)
            if priorities is None:
                priorities = np.full(len(masses), -np.inf)
                priorities[stored] = _priorities_of(masses[stored], alpha, min_priority)
            if not same:
                self.check("priorities", priorities[stored])
                masses[stored], _, num_lifted = self.masses_of(priorities[stored])
                self.num_lifted += num_lifted
        if len(masses) and masses.max() > _LARGEST_MASS:
            raise ValueError(f"masses: got {masses.max()}, expected at most {_LARGEST_MASS:.3g}")
        self.reserve(max(len(masses), 1))
        if self._negated is not None and priorities is not None:
            for rows in _blocks(len(masses)):
                self._negated[rows] = -priorities[rows]
        del priorities
        self.tree.set_state({"leaves": masses})


def _priorities_of(masses: Floats, alpha: float, min_priority: float | None) -> Floats:
    """What gives these masses, up to rounding; 1 where alpha = 0 has made all masses equal."""
    if not alpha:
        return np.ones(len(masses))
    return np.maximum(power(masses, 1.0 / alpha) - (min_priority or 0.0), 0.0)


def _blocks(n: int) -> Iterator[NDArray[np.int64]]:
    """0 ... n - 1 in blocks, so that little memory is needed at a time."""
    for start in range(0, n, 1 << 16):
        yield np.arange(start, min(n, start + (1 << 16)))


def _leaves(tree: PriorityTree | MinSegmentTree, n: int) -> Floats:
    leaves = np.empty(n)
    for rows in _blocks(n):
        leaves[rows] = tree[rows]
    return leaves
