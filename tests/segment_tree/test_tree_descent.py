"""find_prefixsum: which leaf a mass falls on."""

import numpy as np
import pytest
from tree_reference import ODD_CAPACITIES, Pyramid, RLlibPair, padded, targeted_masses

from rllib_per_acc import PriorityTree


def tree_of(leaves, device):
    tree = PriorityTree(len(leaves), device=device)
    tree.update(np.arange(len(leaves)), np.asarray(leaves, dtype=np.float64))
    return tree


def wild_leaves(rng, capacity):
    """Eighteen decades of masses, a third of the leaves empty, at least one with mass."""
    leaves = 10 ** rng.uniform(-12, 6, capacity) * (rng.random(capacity) > 1 / 3)
    leaves[rng.integers(capacity)] = 10 ** rng.uniform(-12, 6)
    return leaves


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [
        ([0, 0, 1e-7, 0], 2),  # RLlib: 0, it subtracts an absolute 1e-5
        ([1, 1e12, 0, 0], 1),  # RLlib: 3, an empty leaf
        ([0, 0, 0, 5e-324, 0], 3),  # the smallest mass there is
        ([1e16, 0, 0.5, 0.5], 3),  # the total rounds down to the first leaf
        ([3.0], 0),
    ],
)
def test_a_mass_at_or_past_the_total_falls_on_the_last_leaf_with_mass(device, leaves, expected):
    tree = tree_of(leaves, device)
    total = tree.sum()
    for mass in (total, np.nextafter(total, np.inf), 2 * total, total + 1.0):
        assert tree.find_prefixsum(mass) == expected


def test_three_equal_leaves(device):
    assert tree_of([1, 1, 1], device).find_prefixsum([0.5, 1.5, 2.5]).tolist() == [0, 1, 2]


def test_a_mass_on_a_boundary_falls_on_the_right_leaf(device):
    hits = tree_of([10, 5, 2], device).find_prefixsum(np.arange(17))
    assert np.bincount(hits).tolist() == [10, 5, 2]


@pytest.mark.parametrize("capacity", ODD_CAPACITIES)
def test_full_trees_agree_with_a_cumulative_sum(device, capacity):
    leaves = np.random.default_rng(capacity).integers(1, 1000, capacity)
    cumulative = np.cumsum(leaves)
    masses = np.concatenate([[0], cumulative[:-1], cumulative - 1, cumulative - 0.5])
    found = tree_of(leaves, device).find_prefixsum(masses)
    assert np.array_equal(found, np.searchsorted(cumulative, masses, side="right"))


@pytest.mark.parametrize("capacity", ODD_CAPACITIES)
def test_targeted_masses_never_fall_on_an_empty_leaf(device, capacity):
    rng = np.random.default_rng(capacity)
    for _ in range(30):
        leaves = wild_leaves(rng, capacity)
        tree = tree_of(leaves, device)
        masses = np.sort(targeted_masses(rng, tree.sum()))
        found = tree.find_prefixsum(masses)
        assert found.dtype == np.int64
        assert found.min() >= 0
        assert found.max() < capacity
        assert (leaves[found] > 0).all()
        assert (np.diff(found) >= 0).all()
        last = np.flatnonzero(leaves)[-1]
        assert (found[masses >= tree.sum()] == last).all()


@pytest.mark.parametrize("capacity", ODD_CAPACITIES)
def test_the_descent_takes_the_same_turns_as_the_stated_rule(device, capacity):
    rng = np.random.default_rng(capacity + 1)
    for _ in range(10):
        leaves = wild_leaves(rng, capacity)
        tree, pyramid = tree_of(leaves, device), Pyramid(leaves)
        masses = np.append(targeted_masses(rng, pyramid.sum), pyramid.sum * rng.random(1000))
        assert np.array_equal(tree.find_prefixsum(masses), pyramid.find(masses))


@pytest.mark.parametrize("capacity", [1, 2, 7, 64, 1000, 1024])
def test_the_same_leaf_as_rllib_wherever_rllib_returns_one_with_mass(device, capacity):
    rng = np.random.default_rng(capacity + 2)
    leaves = wild_leaves(rng, capacity)
    tree, pair = tree_of(leaves, device), RLlibPair(capacity)
    pair.update(np.arange(capacity), leaves)
    masses = targeted_masses(rng, tree.sum(), per_scale=10)
    masses = np.append(masses[masses < tree.sum()], tree.sum() * rng.random(500))
    theirs = np.array([pair.sums.find_prefixsum_idx(mass) for mass in masses])
    has_mass = np.append(leaves, np.zeros(padded(capacity) - capacity))[theirs] > 0
    assert has_mass.mean() > 0.9
    assert np.array_equal(tree.find_prefixsum(masses)[has_mass], theirs[has_mass])


def test_one_by_one_is_the_same_as_a_batch(device):
    rng = np.random.default_rng(3)
    tree = tree_of(wild_leaves(rng, 50), device)
    masses = targeted_masses(rng, tree.sum(), per_scale=2)
    singles = [tree.find_prefixsum(float(mass)) for mass in masses]
    assert all(type(single) is int for single in singles)
    for size in (1, 2, 3, 15, 16, 17, 31, 33, len(masses)):  # whole and broken blocks of lanes
        assert tree.find_prefixsum(masses[-size:]).tolist() == singles[-size:]


@pytest.mark.parametrize("n", [0, 1, 8, 600, 5000])
def test_draw_is_a_search_at_fractions_of_the_sum(device, n):
    rng = np.random.default_rng(n)
    tree = tree_of(wild_leaves(rng, 1000), device)
    fractions = rng.random(n)
    indices, masses = tree.draw(fractions)
    np.testing.assert_array_equal(indices, tree.find_prefixsum(fractions * tree.sum()))
    np.testing.assert_array_equal(masses, tree[indices])
    assert (indices.dtype, masses.dtype) == (np.int64, np.float64)


def test_draw_refuses_what_is_no_fraction(device):
    tree = tree_of([1.0, 2.0], device)
    for bad in (-0.1, 1.0, 1.5, np.nan):
        with pytest.raises(
            ValueError, match=r"fractions\[1\] is .*: expected a number in \[0, 1\)"
        ):
            tree.draw([0.5, bad])
    assert tree.draw([0.5, np.nextafter(1.0, 0.0)])[0].tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"sum is 0\.0"):
        PriorityTree(5, device=device).draw([0.5])
