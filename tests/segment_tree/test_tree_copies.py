"""Trees copied and pickled: the same bits, and independent from then on."""

import copy
import pickle

import numpy as np
import pytest

from rllib_per_acc import MinSegmentTree, PriorityTree, SumSegmentTree


@pytest.mark.parametrize("made_by", [copy.deepcopy, lambda tree: pickle.loads(pickle.dumps(tree))])
@pytest.mark.parametrize("capacity", [1, 5, 64])
def test_a_copy_of_a_priority_tree(device, capacity, made_by):
    rng = np.random.default_rng(capacity)
    tree = PriorityTree(capacity, device=device)
    tree.update(np.arange(capacity), rng.random(capacity))
    other = made_by(tree)
    assert (other.capacity, other.device) == (tree.capacity, tree.device)
    assert (other.sum(), other.min()) == (tree.sum(), tree.min())
    assert (other[np.arange(capacity)] == tree[np.arange(capacity)]).all()
    before = tree.sum()
    other.update(0, 7.0)
    assert (other[0], tree.sum()) == (7.0, before)


class NamedTree(PriorityTree):
    """A subclass that is made of other arguments."""

    def __init__(self, name):
        super().__init__(5, device="cpu")
        self.name = name


class NamedSums(SumSegmentTree):
    """The same of a single tree."""

    def __init__(self, name):
        super().__init__(5)
        self.name = name


@pytest.mark.parametrize("made_by", [copy.deepcopy, lambda tree: pickle.loads(pickle.dumps(tree))])
@pytest.mark.parametrize("tree_class", [NamedTree, NamedSums])
def test_a_copy_of_a_subclass_is_one(made_by, tree_class):
    tree = tree_class("mine")
    tree._tree.update(3, 2.0)
    other = made_by(tree)
    assert type(other) is tree_class
    assert (other.name, other[3], other.sum()) == ("mine", 2.0, 2.0)


@pytest.mark.parametrize("made_by", [copy.deepcopy, lambda tree: pickle.loads(pickle.dumps(tree))])
@pytest.mark.parametrize("tree_class", [SumSegmentTree, MinSegmentTree])
def test_a_copy_of_a_single_tree(tree_class, made_by):
    tree = tree_class(5)
    tree[np.arange(5)] = np.array([3.0, -1.0, 4.0, 1.0, -5.0])
    other = made_by(tree)
    assert other.get_state() == tree.get_state()
    other[0] = 100.0
    assert tree[0] == 3.0
