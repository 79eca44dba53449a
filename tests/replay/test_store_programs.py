"""Random programs of interleaved chunks, eviction, late updates, restores, against plain lists."""

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from replay_checks import check_batch, check_invariants, check_same
from replay_reference import Arrival, NaiveReplay, Step

from rllib_per_acc import PrioritizedReplay
from rllib_per_acc.replay import ReplayBatch

NUM_ENVS = 5
priorities = st.floats(0.0, 1e6, allow_nan=False) | st.sampled_from([0.0, 1e-300, 1e-12, 1.0])


class ReplayProgram(RuleBasedStateMachine):
    """`PrioritizedReplay` and `NaiveReplay` through the same calls."""

    @initialize(
        capacity=st.integers(1, 40),
        alpha=st.sampled_from([0.0, 0.5, 0.6, 1.0]),
        seed=st.integers(0, 9),
    )
    def start(self, capacity: int, alpha: float, seed: int) -> None:
        self.capacity, self.alpha, self.seed = capacity, alpha, seed
        self.replay = PrioritizedReplay(capacity, alpha=alpha, seed=seed)
        self.naive = NaiveReplay(capacity, alpha)
        self.envs = [Arrival(number, 0, 0) for number in range(NUM_ENVS)]
        self.next_number = NUM_ENVS
        self.held: list[tuple[ReplayBatch, list[Step]]] = []

    @rule(
        moves=st.lists(
            st.tuples(
                st.integers(0, NUM_ENVS - 1),
                st.integers(1, 12),
                st.sampled_from(["", "", "", "terminated", "truncated"]),
            ),
            min_size=1,
            max_size=4,
        ),
        weight=st.none() | st.floats(1e-6, 10.0),
    )
    def add(self, moves: list[tuple[int, int, str]], weight: float | None) -> None:
        arrivals = []
        for env, length, end in moves:
            number, start = self.envs[env].number, self.envs[env].start
            arrivals.append(Arrival(number, start, length, end))
            self.envs[env] = Arrival(number, start + length, 0)
            if end:
                self.envs[env] = Arrival(self.next_number, 0, 0)
                self.next_number += 1
        self.replay.add([arrival.chunk() for arrival in arrivals], weight=weight)
        self.naive.add(arrivals, weight)

    def can_sample(self, n: int = 1) -> bool:
        return any(len(e.steps) >= n for e in self.naive.episodes.values())

    @precondition(lambda self: self.can_sample())
    @rule(
        num_items=st.integers(1, 12),
        n=st.integers(1, 4),
        gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
        beta=st.sampled_from([0.0, 0.4, 1.0]),
    )
    def sample(self, num_items: int, n: int, gamma: float, beta: float) -> None:
        if not self.can_sample(n):
            with pytest.raises(ValueError, match="n_step"):
                self.replay.sample(num_items, n_step=n, gamma=gamma, beta=beta)
            return
        batch = self.replay.sample(num_items, n_step=n, gamma=gamma, beta=beta)
        self.held.append((batch, check_batch(batch, self.naive, num_items, n, gamma, beta)))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        batch, steps = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        values = data.draw(st.lists(priorities, min_size=len(steps), max_size=len(steps)))
        batch.update(np.array(values))
        self.naive.update(steps, values)

    @precondition(lambda self: self.can_sample())
    @rule()
    def restore(self) -> None:
        state = self.replay.get_state()
        other = PrioritizedReplay(self.capacity, alpha=self.alpha, seed=self.seed + 1)
        other.set_state(state)
        mine, theirs = self.replay.sample(5), other.sample(5)
        np.testing.assert_array_equal(mine.observations, theirs.observations)
        np.testing.assert_array_equal(mine.weights, theirs.weights)
        self.replay, self.held = other, []

    @invariant()
    def same_as_lists(self) -> None:
        if hasattr(self, "replay"):
            check_invariants(self.replay)
            check_same(self.replay, self.naive)


TestReplayProgram = ReplayProgram.TestCase
