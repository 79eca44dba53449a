"""The oracles agree with each other, so that a test against one is a test against all."""

import numpy as np
import pytest
from tree_reference import ExactPrefixes, Pyramid, RLlibPair, same_bits


@pytest.mark.parametrize("capacity", [1, 2, 8, 64, 1024])
def test_pyramid_has_the_bits_of_rllibs_trees(capacity):
    rng = np.random.default_rng(capacity)
    leaves = 10 ** rng.uniform(-12, 6, capacity) * (rng.random(capacity) > 1 / 3)
    pair = RLlibPair(capacity)
    pair.update(np.arange(capacity), leaves)
    pyramid = Pyramid(leaves)
    assert same_bits(pyramid.sums[1:], pair.sums.value[1:])
    assert same_bits(pyramid.mins[1:], pair.mins.value[1:])


def test_pyramid_and_fractions_descend_as_rllib_where_sums_are_exact():
    rng = np.random.default_rng(0)
    leaves = rng.integers(0, 9, 64).astype(float)
    pair = RLlibPair(64)
    pair.update(np.arange(64), leaves)
    masses = np.arange(0, leaves.sum(), 0.5)
    expected = [pair.sums.find_prefixsum_idx(mass) for mass in masses]
    assert Pyramid(leaves).find(masses).tolist() == expected
    assert [ExactPrefixes(leaves).find(mass) for mass in masses] == expected
