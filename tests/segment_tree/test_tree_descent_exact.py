"""Descents against exact fractions: rounding may move a boundary, by no more than rounding does."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_reference import ExactPrefixes, padded

from rllib_per_acc import PriorityTree

EXTREMES = [1e-300, 1e300, 1e-12]
MASSES = st.one_of(st.just(0.0), st.floats(5e-324, 1e300), st.sampled_from(EXTREMES))


def assert_descends_exactly(leaves, device, fractions):
    tree = PriorityTree(len(leaves), device=device)
    tree.update(np.arange(len(leaves)), leaves)
    exact = ExactPrefixes(leaves)
    # Each level rounds the sum of a node and what is left of the mass once: half an ulp of at
    # most the total, for both; the factor of two is for the ulp of a total that was rounded up.
    levels = padded(len(leaves)).bit_length() - 1
    slack = exact.total * Fraction(4 * levels, 2**53) + Fraction(levels, 2**1074)
    for fraction in fractions:
        mass = tree.sum() * fraction
        found = tree.find_prefixsum(mass)
        assert leaves[found] > 0
        assert exact.distance(found, mass) <= slack


@pytest.mark.parametrize("padding", [0, 1, 2, 5])
@pytest.mark.parametrize("leaves", list(permutations(EXTREMES)))
def test_six_hundred_decades_in_one_tree(device, leaves, padding):
    leaves = np.array([*leaves, *[0.0] * padding])
    tree = PriorityTree(len(leaves), device=device)
    tree.update(np.arange(len(leaves)), leaves)
    assert tree.min() == 1e-300
    assert tree.sum() == 1e300
    assert tree.find_prefixsum(0.0) == 0
    assert tree.find_prefixsum(5e299) == leaves.argmax()
    assert tree.find_prefixsum(1e300) == 2
    assert_descends_exactly(leaves, device, [0.0, 1e-312, 0.5, 1.0])


@pytest.mark.parametrize("total", [1e-12, 1e15, 1e-300, 1e300])
@pytest.mark.parametrize("capacity", [3, 7, 50, 1000])
def test_small_and_large_totals(device, capacity, total):
    rng = np.random.default_rng(capacity)
    leaves = rng.random(capacity) * (rng.random(capacity) > 1 / 3)
    leaves[rng.integers(capacity)] = 0.5
    leaves *= total / leaves.sum()
    fractions = np.append(rng.random(200), 1 - 2.0 ** -np.arange(1, 54))
    assert_descends_exactly(leaves, device, fractions)


@given(leaves=st.lists(MASSES, min_size=1, max_size=40), fractions=st.lists(st.floats(0, 1)))
def test_any_leaves(device, leaves, fractions):
    if any(leaves):
        assert_descends_exactly(np.array(leaves), device, [*fractions, 0.0, 1.0])


def test_integers_are_exact_at_every_boundary(device):
    rng = np.random.default_rng(5)
    leaves = rng.integers(0, 2**40, 777)
    tree = PriorityTree(777, device=device)
    tree.update(np.arange(777), leaves)
    exact = ExactPrefixes(leaves)
    masses = [float(start) + step for start in exact.starts[:-1] for step in (-1, 0, 1)]
    masses = [mass for mass in masses if 0 <= mass < exact.total]
    assert tree.find_prefixsum(masses).tolist() == [exact.find(mass) for mass in masses]
