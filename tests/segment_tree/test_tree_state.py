"""get_state and set_state: the same bits afterwards, in another tree, process or capacity."""

import copy
import pickle

import numpy as np
import pytest
from tree_reference import ODD_CAPACITIES, Pyramid, assert_is, refused, targeted_masses

from rllib_per_acc import PriorityTree


def filled(capacity, device, seed=0):
    rng = np.random.default_rng([capacity, seed])
    leaves = 10 ** rng.uniform(-300, 100, capacity) * (rng.random(capacity) > 1 / 3)
    tree = PriorityTree(capacity, device=device)
    tree.update(np.arange(capacity), leaves)
    return tree, leaves


@pytest.mark.parametrize("capacity", ODD_CAPACITIES)
@pytest.mark.parametrize(
    "through", [copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))]
)
def test_a_restored_tree_has_the_same_bits(device, capacity, through):
    tree, leaves = filled(capacity, device)
    restored, _ = filled(capacity, device, seed=1)  # what was there before is gone
    restored.set_state(through(tree.get_state()))
    assert_is(restored, Pyramid(leaves), leaves)
    if leaves.any():
        masses = targeted_masses(np.random.default_rng(0), tree.sum())
        assert np.array_equal(restored.find_prefixsum(masses), tree.find_prefixsum(masses))


def test_the_state_is_a_dictionary_of_capacity_and_leaves(device):
    tree, _ = filled(11, device)
    state = tree.get_state()
    assert state.keys() == {"capacity", "leaves"}
    assert state["capacity"] == 11
    assert (state["leaves"].shape, state["leaves"].dtype) == ((11,), np.float64)


def test_a_state_is_a_copy_both_ways(device):
    tree, leaves = filled(50, device)
    state = tree.get_state()
    tree.update(0, 12345.0)
    assert state["leaves"][0] == leaves[0]
    tree.set_state(state)
    state["leaves"][:] = 1.0
    assert_is(tree, Pyramid(leaves), leaves)


def test_devices_exchange_states(device):
    tree, leaves = filled(1025, device)
    on_cpu = PriorityTree(1025, device="cpu")
    on_cpu.set_state(tree.get_state())
    assert_is(on_cpu, Pyramid(leaves), leaves)
    again = PriorityTree(1025, device=device)
    again.set_state(on_cpu.get_state())
    assert_is(again, Pyramid(leaves), leaves)


@pytest.mark.parametrize(("small", "large"), [(1, 2), (5, 7), (33, 1000), (64, 65), (1000, 1023)])
def test_leaves_that_fit_may_move_to_a_larger_tree(device, small, large):
    tree, leaves = filled(small, device)
    grown, _ = filled(large, device)
    grown.set_state(tree.get_state())
    assert (len(grown), grown.capacity) == (large, large)
    leaves = np.append(leaves, np.zeros(large - small))
    assert_is(grown, Pyramid(leaves), leaves)


def test_leaves_that_do_not_fit_are_refused(device):
    tree = PriorityTree(50, device=device)
    tree.update(49, 1.0)
    shrunk, _ = filled(33, device)
    with refused(shrunk, ValueError, "33"):
        shrunk.set_state(tree.get_state())


@pytest.mark.parametrize(
    ("position", "bad"), [(0, np.nan), (3, np.inf), (6, -1.0), (6, 1.7e308)], ids=repr
)
def test_a_state_with_leaves_that_are_no_masses_is_refused(device, position, bad):
    tree, _ = filled(7, device)
    state = tree.get_state()
    state["leaves"][position] = bad
    with refused(tree, ValueError, "leaves", str(position)):
        tree.set_state(state)


@pytest.mark.parametrize("capacity", [1, 3, 64, 1000])
def test_what_a_tree_says_of_itself(device, capacity):
    tree = PriorityTree(capacity, device=device)
    assert tree.capacity == len(tree) == capacity
    assert tree.device == device
    assert tree.nbytes >= 2 * 8 * capacity  # a sum and a minimum for every leaf
    empty = tree.get_state()["leaves"]
    assert_is(tree, Pyramid(np.zeros(capacity)), empty)
