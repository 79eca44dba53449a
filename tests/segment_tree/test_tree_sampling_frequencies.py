"""Uniform masses fall on leaves in proportion to their mass: a chi-square with a fixed seed."""

import numpy as np
import pytest
from scipy import stats

from rllib_per_acc import PriorityTree

DRAWS = 200_000


def frequencies(tree, capacity, masses):
    return np.bincount(tree.find_prefixsum(masses), minlength=capacity)


@pytest.mark.parametrize("capacity", [2, 5, 33, 50, 1000, 1024])
def test_draws_are_proportional(device, capacity):
    rng = np.random.default_rng(capacity)
    leaves = (rng.random(capacity) + 0.05) * (rng.random(capacity) > 0.2)
    leaves[:2] = 0.3, 0.7
    tree = PriorityTree(capacity, device=device)
    tree.update(np.arange(capacity), leaves)
    counts = frequencies(tree, capacity, tree.sum() * rng.random(DRAWS))
    present = leaves > 0
    assert counts[~present].sum() == 0
    expected = DRAWS * leaves[present] / leaves.sum()
    assert expected.min() > 5  # what a chi-square needs
    assert stats.chisquare(counts[present], expected).pvalue > 1e-3


def test_the_test_sees_a_leaf_that_is_off_by_a_twentieth(device):
    rng = np.random.default_rng(7)
    leaves = np.ones(5)
    tree = PriorityTree(5, device=device)
    tree.update(np.arange(5), leaves * [1, 1, 1.05, 1, 1])
    counts = frequencies(tree, 5, tree.sum() * rng.random(DRAWS))
    assert stats.chisquare(counts, DRAWS * leaves / leaves.sum()).pvalue < 1e-3


def test_one_draw_in_each_equal_share_hits_every_leaf_its_share(device):
    leaves = np.array([3, 0, 1, 4, 2])
    tree = PriorityTree(5, device=device)
    tree.update(np.arange(5), leaves)
    strata = np.arange(10_000) + np.random.default_rng(1).random(10_000)
    assert (frequencies(tree, 5, strata / 1000) == 1000 * leaves).all()
