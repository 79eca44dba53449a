"""SumSegmentTree and MinSegmentTree in the place of RLlib's: same methods, same results."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tree_reference import ODD_CAPACITIES, bits, padded, rllib, same_bits, write_in_turn

from rllib_per_acc import MinSegmentTree, SumSegmentTree

PAIRS = [(SumSegmentTree, rllib.SumSegmentTree), (MinSegmentTree, rllib.MinSegmentTree)]
VALUES = st.sampled_from([0.0, -0.0, np.nan, np.inf, -np.inf]) | st.floats()
both_trees = pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["sum", "min"])


def same_numbers(got, expected) -> bool:
    """The same bits, but for the sign and payload of a NaN (infinity minus infinity)."""
    got, expected = np.atleast_1d(got).astype(float), np.atleast_1d(expected).astype(float)
    nan = np.isnan(expected)
    return np.array_equal(np.isnan(got), nan) and np.array_equal(
        bits(got[~nan]), bits(expected[~nan])
    )


class DropInProgram(RuleBasedStateMachine):
    ours: type
    theirs: type

    @initialize(power=st.integers(0, 6))
    def build(self, power):
        self.capacity = 2**power
        self.tree, self.rllib = self.ours(self.capacity), self.theirs(self.capacity)

    @rule(index=st.integers(0), value=VALUES)
    def set_one(self, index, value):
        self.tree[index % self.capacity] = value
        self.rllib[index % self.capacity] = value

    @rule(items=st.lists(st.tuples(st.integers(0), VALUES), max_size=100))
    def set_batch(self, items):
        indices = np.array([index % self.capacity for index, _ in items], dtype=np.int64)
        self.tree[indices] = np.array([value for _, value in items])
        write_in_turn(self.rllib, indices, [value for _, value in items])

    @rule(data=st.data())
    def reduce(self, data):
        start = data.draw(st.integers(0, self.capacity))
        end = data.draw(st.none() | st.integers(-self.capacity, self.capacity))
        named = "sum" if self.ours is SumSegmentTree else "min"
        for method in ("reduce", named):
            got, expected = getattr(self.tree, method), getattr(self.rllib, method)
            assert same_numbers(got(start, end), expected(start, end))
            assert same_numbers(got(start), expected(start))
            assert same_numbers(got(end=end), expected(end=end))
            assert same_numbers(got(), expected())
            assert type(got(start, end)) is float

    @rule(index=st.integers(0))
    def get(self, index):
        index %= self.capacity
        assert same_bits(self.tree[index], self.rllib[index])
        assert type(self.tree[index]) is float

    @rule()
    def carry_over_the_state(self):
        fresh = self.theirs(self.capacity)
        fresh.set_state(list(self.tree.get_state()))
        self.rllib, self.tree = fresh, self.ours(self.capacity)
        self.tree.set_state(list(fresh.get_state()))

    @invariant()
    def every_node_is_rllibs(self):
        state = self.tree.get_state()
        assert type(state) is list
        assert same_numbers(state, self.rllib.get_state())


class SumProgram(DropInProgram):
    ours, theirs = PAIRS[0]


class MinProgram(DropInProgram):
    ours, theirs = PAIRS[1]


TestSumProgram = SumProgram.TestCase
TestMinProgram = MinProgram.TestCase


@both_trees
@pytest.mark.parametrize("capacity", ODD_CAPACITIES)
def test_other_capacities_are_rllibs_next_larger_tree(ours, theirs, capacity):
    rng = np.random.default_rng(capacity)
    tree, larger = ours(capacity), theirs(padded(capacity))
    values = rng.normal(size=capacity) * 10 ** rng.uniform(-12, 6, capacity)
    order = rng.permutation(capacity)
    tree[order] = values[order]
    write_in_turn(larger, order, values[order])
    assert len(tree) == tree.capacity == capacity
    assert same_bits(tree[np.arange(capacity)], values)
    for _ in range(200):
        start, end = np.sort(rng.integers(0, capacity, 2)).tolist()
        assert same_bits(tree.reduce(start, end), larger.reduce(start, end))
        assert same_bits(tree.reduce(start, end - capacity), larger.reduce(start, end))
        # The end of the tree is the end of the larger one: the whole is the root, to the bit.
        assert same_bits(tree.reduce(start), larger.reduce(start))
        assert same_bits(tree.reduce(start, capacity), larger.reduce(start))
    assert same_bits(tree.reduce(), larger.value[1])


@both_trees
@pytest.mark.parametrize("capacity", [5, 33, 1000, 1023, 1024])
def test_every_node_is_recomputed_from_its_children(ours, theirs, capacity):
    """The value of a node is the reduction over its leaves; a hundred batches leave no drift."""
    rng = np.random.default_rng(capacity)
    tree, values = ours(capacity), np.full(capacity, theirs(2).neutral_element)
    for size in rng.integers(1, 4097, 100).tolist():
        indices = rng.choice(rng.integers(0, capacity, max(1, size // 10)), size)
        batch = rng.normal(size=size) * 10 ** rng.uniform(-12, 6, size)
        tree[indices] = batch
        write_in_turn(values, indices, batch)
    assert same_bits(tree[np.arange(capacity)], values)
    operation = np.add if ours is SumSegmentTree else np.minimum
    width, nodes = 1, values
    while len(nodes) > 1:
        nodes = operation(nodes[0 : len(nodes) // 2 * 2 : 2], nodes[1::2])
        width *= 2
        for place in range(min(len(nodes), 50)):
            assert same_bits(tree.reduce(place * width, (place + 1) * width), nodes[place])


@given(leaves=st.lists(st.integers(0, 1000).map(float), min_size=1, max_size=64), data=st.data())
def test_prefix_sums_are_found_as_in_rllib(leaves, data):
    tree, theirs = SumSegmentTree(len(leaves)), rllib.SumSegmentTree(padded(len(leaves)))
    tree[np.arange(len(leaves))] = leaves
    write_in_turn(theirs, range(len(leaves)), leaves)
    if sum(leaves) == 0:
        return
    below = st.floats(0, sum(leaves), exclude_max=True)
    # With integer leaves nothing rounds on the way but the mass itself.
    masses = data.draw(st.lists(below.map(lambda mass: round(mass * 8) / 8), max_size=20))
    masses = [mass for mass in masses if mass < sum(leaves)]
    expected = [theirs.find_prefixsum_idx(mass) for mass in masses]
    assert tree.find_prefixsum_idx(np.array(masses)).tolist() == expected
    assert [tree.find_prefixsum_idx(mass) for mass in masses] == expected
    assert all(type(tree.find_prefixsum_idx(mass)) is int for mass in masses)


def test_the_total_falls_on_the_last_leaf_with_mass():
    tree = SumSegmentTree(4)
    tree[[0, 1]] = [1.0, 1e12]  # RLlib: leaf 3, an empty one
    assert tree.find_prefixsum_idx(tree.sum()) == 1
    assert tree.find_prefixsum_idx([0.5, 1.0, tree.sum()]).tolist() == [0, 1, 1]


@both_trees
@pytest.mark.parametrize("bad", [-1, 5, 8, 2**40])
def test_indices_out_of_range(ours, theirs, bad):
    tree = ours(5)
    tree[np.arange(5)] = np.arange(5.0)
    before = [tree[index] for index in range(5)], tree.reduce()
    for indices, values in ((bad, 1.0), ([0, 1, bad], [1.0, 1.0, 1.0])):
        with pytest.raises(IndexError, match=str(bad)):
            tree[indices] = values
        with pytest.raises(IndexError, match=str(bad)):
            tree[indices]
    assert ([tree[index] for index in range(5)], tree.reduce()) == before


@both_trees
@pytest.mark.parametrize("length", [0, 7, 9, 16])
def test_a_state_of_another_length_is_refused(ours, theirs, length):
    tree = ours(4)
    tree[2] = 3.0
    before = list(tree.get_state())
    with pytest.raises(ValueError, match=str(length)):
        tree.set_state([1.0] * length)
    assert same_bits(tree.get_state(), before)


@both_trees
@pytest.mark.parametrize("capacity", [3, 33, 1000])
def test_states_of_other_capacities_come_back(ours, theirs, capacity):
    values = np.random.default_rng(capacity).normal(size=capacity)
    tree, restored = ours(capacity), ours(capacity)
    tree[np.arange(capacity)] = values
    restored.set_state(tree.get_state())
    assert same_bits(restored[np.arange(capacity)], values)
    for end in range(0, capacity + 1, 7):
        assert same_bits(restored.reduce(0, end), tree.reduce(0, end))
