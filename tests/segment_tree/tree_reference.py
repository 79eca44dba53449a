"""What a tree must answer: RLlib's own trees, a NumPy pyramid, and exact fractions."""

import importlib.util
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ODD_CAPACITIES = [1, 2, 3, 5, 7, 11, 33, 50, 1000, 1023, 1025, 4096]


def _load_rllib_segment_tree() -> ModuleType:
    # By file: `import ray.rllib` takes seconds and pulls in torch, this module needs neither.
    ray = importlib.util.find_spec("ray")
    path = Path(ray.submodule_search_locations[0]) / "rllib" / "execution" / "segment_tree.py"
    spec = importlib.util.spec_from_file_location("rllib_segment_tree", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rllib = _load_rllib_segment_tree()


def bits(values) -> np.ndarray:
    """The bit patterns of float64 values: equality that tells -0.0 from 0.0."""
    return np.atleast_1d(np.asarray(values, dtype=np.float64)).view(np.int64)


def same_bits(got, expected) -> bool:
    return np.array_equal(bits(got), bits(expected))


def write_in_turn(array, indices, values) -> None:
    """Assigns item by item: of duplicates, the last one wins."""
    for index, value in zip(np.asarray(indices).tolist(), np.asarray(values).tolist(), strict=True):
        array[index] = value


def padded(capacity: int) -> int:
    """The next power of two: RLlib's trees have no other capacities."""
    return 1 << (capacity - 1).bit_length()


class RLlibPair:
    """RLlib's sum and min trees, updated item by item as RLlib does it."""

    def __init__(self, capacity: int):
        self.sums = rllib.SumSegmentTree(padded(capacity))
        self.mins = rllib.MinSegmentTree(padded(capacity))

    def update(self, indices, masses) -> None:
        masses = np.asarray(masses, dtype=np.float64)
        write_in_turn(self.sums, indices, masses)
        write_in_turn(self.mins, indices, np.where(masses > 0, masses, np.inf))  # 0 means absent


class Pyramid:
    """Sum and min of every node, computed from the leaves in RLlib's order of operations."""

    def __init__(self, leaves):
        leaves = np.asarray(leaves, dtype=np.float64)
        self.size = padded(len(leaves))
        self.sums = np.zeros(2 * self.size)
        self.mins = np.full(2 * self.size, np.inf)
        self.sums[self.size :][: len(leaves)] = leaves
        self.mins[self.size :][: len(leaves)] = np.where(leaves > 0, leaves, np.inf)
        level = self.size
        while level > 1:
            half, left, right = (
                level // 2,
                slice(level, 2 * level, 2),
                slice(level + 1, 2 * level, 2),
            )
            self.sums[half:level] = self.sums[left] + self.sums[right]
            self.mins[half:level] = np.minimum(self.mins[left], self.mins[right])
            level = half

    @property
    def sum(self) -> float:
        return float(self.sums[1])

    @property
    def min(self) -> float:
        return float(self.mins[1])

    def find(self, masses) -> np.ndarray:
        """RLlib's descent made safe; at or past the total it is the last leaf with mass."""
        masses = np.array(masses, dtype=np.float64, ndmin=1)
        masses[masses >= self.sum] = np.inf
        node = np.ones(len(masses), dtype=np.int64)
        for _ in range(self.size.bit_length() - 1):
            left, right = self.sums[2 * node], self.sums[2 * node + 1]
            turn_right = (masses >= left) & (right > 0)
            masses -= np.where(turn_right, left, 0.0)
            node = 2 * node + turn_right
        return node - self.size


class ExactPrefixes:
    """Prefix sums of the leaves without rounding."""

    def __init__(self, leaves):
        self.starts = [Fraction(0), *accumulate(Fraction(float(leaf)) for leaf in leaves)]

    @property
    def total(self) -> Fraction:
        return self.starts[-1]

    def find(self, mass: float) -> int:
        """The leaf whose interval [start, end) holds the mass."""
        return bisect_right(self.starts, Fraction(float(mass))) - 1

    def distance(self, index: int, mass: float) -> Fraction:
        """How far the mass lies outside the interval of a leaf."""
        mass = Fraction(float(mass))
        return max(self.starts[index] - mass, mass - self.starts[index + 1], Fraction(0))


def assert_is(tree, pyramid: Pyramid, leaves) -> None:
    """The tree holds exactly these leaves, and roots that follow from them, to the bit."""
    assert same_bits(tree.get_state()["leaves"], leaves)
    assert same_bits(tree.sum(), pyramid.sum)
    assert same_bits(tree.min(), pyramid.min)


def targeted_masses(rng: np.random.Generator, total: float, per_scale: int = 20) -> np.ndarray:
    """Masses that crowd towards the total: uniform ones never come near the trouble there."""
    scales = np.repeat(np.arange(1, 54), per_scale)
    near = total * (1.0 - rng.random(len(scales)) * 2.0**-scales)
    return np.append(near, [0.0, total, np.nextafter(total, 0), np.nextafter(total, np.inf)])


@contextmanager
def refused(tree, error, *words: str) -> Iterator[None]:
    """The block raises this error, its message has these words, and the tree is as before."""
    before = tree.get_state()["leaves"], tree.sum(), tree.min()
    with pytest.raises(error) as caught:
        yield
    for word in words:
        whole = rf"(?<![\w.-]){re.escape(word)}(?!\d)"
        assert re.search(whole, str(caught.value)), f"{word!r} is missing in {caught.value!s}"
    assert same_bits(tree.get_state()["leaves"], before[0])
    assert same_bits((tree.sum(), tree.min()), before[1:])
