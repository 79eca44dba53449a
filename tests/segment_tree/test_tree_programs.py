"""Random programs over PriorityTree against RLlib's trees, step by step and to the bit."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tree_reference import (
    ODD_CAPACITIES,
    Pyramid,
    RLlibPair,
    assert_is,
    refused,
    same_bits,
    targeted_masses,
    write_in_turn,
)

from rllib_per_acc import PriorityTree

MASSES = st.one_of(
    st.just(0.0),
    st.integers(0, 8).map(float),
    st.floats(0, 1e300, allow_subnormal=True),
    st.floats(-12, 6).map(lambda exponent: 10.0**exponent),
)
SEEDS = st.integers(0, 2**32)
BAD_ITEMS = st.sampled_from(
    [
        (0, np.nan, ValueError),
        (0, -1.0, ValueError),
        (-1, 1.0, IndexError),
        (2**40, 1.0, IndexError),
    ]
)


class TreeProgram(RuleBasedStateMachine):
    device: str

    @initialize(capacity=st.sampled_from(ODD_CAPACITIES))
    def build(self, capacity):
        self.capacity = capacity
        self.tree = PriorityTree(capacity, device=self.device)
        self.leaves = np.zeros(capacity)
        self.rllib = RLlibPair(capacity)
        self.saved = self.tree.get_state(), self.leaves.copy()

    def apply(self, indices, masses):
        # In a loop, as RLlib has it: the last of a duplicate wins.
        write_in_turn(self.leaves, indices, masses)
        self.rllib.update(indices, masses)

    @rule(items=st.lists(st.tuples(st.integers(0), MASSES), max_size=40))
    def update(self, items):
        indices = [index % self.capacity for index, _ in items]
        masses = [mass for _, mass in items]
        self.tree.update(indices, masses)
        self.apply(indices, masses)

    @rule(index=st.integers(0), mass=MASSES)
    def update_one(self, index, mass):
        self.tree.update(index % self.capacity, mass)
        self.apply([index % self.capacity], [mass])

    @rule(seed=SEEDS, share=st.sampled_from([0.1, 1.0, 2.0]))
    def update_many(self, seed, share):
        rng = np.random.default_rng(seed)
        size = int(share * self.capacity) + 1
        indices = rng.integers(0, self.capacity, size)
        masses = 10 ** rng.uniform(-12, 6, size) * (rng.random(size) > 1 / 3)
        self.tree.update(indices, masses)
        last = dict(zip(indices.tolist(), masses.tolist(), strict=True))
        self.apply(list(last), list(last.values()))

    @rule()
    def clear(self):
        self.tree.update(np.arange(self.capacity), np.zeros(self.capacity))
        self.apply(range(self.capacity), [0.0] * self.capacity)

    @rule(before=st.integers(0, 5), after=st.integers(0, 5), bad=BAD_ITEMS)
    def update_badly(self, before, after, bad):
        index, mass, error = bad
        indices = [0] * before + [index] + [0] * after
        masses = [3.0] * before + [mass] + [3.0] * after
        with refused(self.tree, error, str(before)):
            self.tree.update(indices, masses)

    @rule()
    def save(self):
        self.saved = self.tree.get_state(), self.leaves.copy()

    @rule(fresh=st.booleans())
    def restore(self, fresh):
        state, leaves = self.saved
        if fresh:
            self.tree = PriorityTree(self.capacity, device=self.device)
        self.tree.set_state(state)
        self.apply(range(self.capacity), leaves.tolist())

    @precondition(lambda self: self.leaves.any())
    @rule(seed=SEEDS)
    def find(self, seed):
        rng = np.random.default_rng(seed)
        total = self.tree.sum()
        masses = np.append(targeted_masses(rng, total, per_scale=1), total * rng.random(20))
        found = self.tree.find_prefixsum(masses)
        assert (self.leaves[found] > 0).all()
        assert np.array_equal(found, Pyramid(self.leaves).find(masses))

    @precondition(lambda self: not self.leaves.any())
    @rule()
    def find_nothing(self):
        with refused(self.tree, ValueError):
            self.tree.find_prefixsum([0.0])

    @rule(seed=SEEDS)
    def read(self, seed):
        indices = np.random.default_rng(seed).integers(0, self.capacity, 9)
        assert same_bits(self.tree[indices], self.leaves[indices])

    @invariant()
    def roots_and_leaves_have_rllibs_bits(self):
        assert_is(self.tree, Pyramid(self.leaves), self.leaves)
        assert same_bits(self.tree.sum(), self.rllib.sums.value[1])
        assert same_bits(self.tree.min(), self.rllib.mins.value[1])


def run_programs(device, settings=None):
    machine = type("TreeProgram", (TreeProgram,), {"device": device})
    run_state_machine_as_test(machine, settings=settings)


def test_random_programs(device):
    run_programs(device)


@pytest.mark.slow
def test_many_long_random_programs(device):
    run_programs(device, settings(max_examples=400, stateful_step_count=80, deadline=None))
