"""update: the same bits as RLlib's trees, whatever the batch size, duplicates included."""

import numpy as np
import pytest
from tree_reference import (
    ODD_CAPACITIES,
    Pyramid,
    RLlibPair,
    assert_is,
    padded,
    same_bits,
    write_in_turn,
)

from rllib_per_acc import PriorityTree


def random_batch(rng, capacity, size):
    masses = 10 ** rng.uniform(-12, 6, size) * (rng.random(size) > 0.25)
    return rng.integers(0, capacity, size), masses


@pytest.mark.parametrize("size", [1, 2, 8, 50, 512, 4096, 10_000])
@pytest.mark.parametrize("capacity", ODD_CAPACITIES)
def test_a_batch_is_a_loop_is_rllib(device, capacity, size):
    rng = np.random.default_rng([capacity, size])
    batched, looped = PriorityTree(capacity, device=device), PriorityTree(capacity, device=device)
    pair = RLlibPair(capacity)
    # A second batch over the first: nodes are recomputed, not only filled.
    for indices, masses in (random_batch(rng, capacity, size) for _ in range(2)):
        batched.update(indices, masses)
        last = dict(
            zip(indices.tolist(), masses.tolist(), strict=True)
        )  # duplicates: the last one wins
        for index, mass in last.items():
            looped.update(index, mass)
        pair.update(list(last), list(last.values()))
    for tree in (batched, looped):
        assert same_bits(tree.get_state()["leaves"], pair.sums.value[padded(capacity) :][:capacity])
        assert same_bits(tree.sum(), pair.sums.value[1])
        assert same_bits(tree.min(), pair.mins.value[1])


def test_the_last_of_many_duplicates_wins_as_in_a_loop(device):
    tree, pair = PriorityTree(11, device=device), RLlibPair(11)
    indices, masses = [7, 7, 3, 7, 3, 0, 7], [1.0, 2.0, 3.0, 0.0, 5.0, 6.0, 0.25]
    tree.update(indices, masses)
    pair.update(indices, masses)
    assert tree[[7, 3, 0, 10]].tolist() == [0.25, 5.0, 6.0, 0.0]
    assert (tree.sum(), tree.min()) == (pair.sums.sum(), pair.mins.min()) == (11.25, 0.25)


@pytest.mark.parametrize("capacity", [1000, 4096])
def test_a_million_updates_with_duplicates_do_not_drift(device, capacity):
    rng = np.random.default_rng(capacity)
    tree, leaves, done = PriorityTree(capacity, device=device), np.zeros(capacity), 0
    while done < 1_000_000:
        size = int(rng.integers(1, 4097))
        distinct = rng.integers(0, capacity, max(1, size // 10))
        indices = rng.choice(distinct, size)  # nine out of ten are duplicates
        masses = random_batch(rng, capacity, size)[1]
        tree.update(indices, masses)
        write_in_turn(leaves, indices, masses)
        done += size
        pyramid = Pyramid(leaves)
        assert same_bits((tree.sum(), tree.min()), (pyramid.sum, pyramid.min))
        # Every inner sum on these paths decides a turn.
        probes = pyramid.sum * rng.random(64)
        assert np.array_equal(tree.find_prefixsum(probes), pyramid.find(probes))
    assert_is(tree, pyramid, leaves)


@pytest.mark.parametrize("capacity", ODD_CAPACITIES)
def test_a_fresh_and_an_emptied_tree(device, capacity):
    tree = PriorityTree(capacity, device=device)
    assert (tree.sum(), tree.min()) == (0.0, np.inf)
    tree.update(np.arange(capacity), np.random.default_rng(0).random(capacity) + 0.1)
    assert tree.sum() > 0
    tree.update(np.arange(capacity), np.zeros(capacity))
    assert (tree.sum(), tree.min()) == (0.0, np.inf)
    assert not tree[np.arange(capacity)].any()


def test_minus_zero_is_absent_too(device):
    tree = PriorityTree(3, device=device)
    tree.update([0, 1, 2], [2.0, -0.0, 1.0])
    assert (tree.sum(), tree.min()) == (3.0, 1.0)
    tree.update([0, 2], [-0.0, -0.0])
    assert (tree.sum(), tree.min()) == (0.0, np.inf)


@pytest.mark.parametrize("capacity", [33, 64, 1000])
def test_every_inner_minimum_surfaces(device, capacity):
    masses = np.random.default_rng(capacity).permutation(np.arange(1.0, capacity + 1))
    tree = PriorityTree(capacity, device=device)
    tree.update(np.arange(capacity), masses)
    for index in np.argsort(masses):
        assert tree.min() == masses[index]
        tree.update(int(index), 0.0)
    assert tree.min() == np.inf


@pytest.mark.parametrize("capacity", [4, 5, 1000])
def test_the_largest_masses_keep_the_sum_finite(device, capacity):
    largest = np.finfo(np.float64).max / padded(capacity)
    tree = PriorityTree(capacity, device=device)
    tree.update(np.arange(capacity), np.full(capacity, largest))
    assert np.isfinite(tree.sum())
    assert same_bits(tree.sum(), Pyramid(np.full(capacity, largest)).sum)
    assert tree.find_prefixsum(tree.sum()) == capacity - 1


def test_subnormal_masses_are_kept(device):
    tiny = np.nextafter(0.0, 1.0)
    tree = PriorityTree(6, device=device)
    tree.update([1, 4], [tiny, 3 * tiny])
    assert (tree.sum(), tree.min()) == (4 * tiny, tiny)
    assert tree.find_prefixsum([0.0, tiny, 2 * tiny, 4 * tiny]).tolist() == [1, 4, 4, 4]
