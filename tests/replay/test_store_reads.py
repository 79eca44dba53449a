"""The compiled reads of the store, and the powers made for whole batches."""

import math

import numpy as np
import pytest

from rllib_per_acc import EpisodeChunk, _core
from rllib_per_acc.transition_store import TransitionStore
from rllib_per_acc.transitions import Transitions


@pytest.fixture
def store() -> TransitionStore:
    """An episode of five steps that was truncated, and one of three that goes on."""
    store = TransitionStore(100)
    for id_, steps in (("ended", 5), ("open", 3)):
        rewards = 2.0 ** np.arange(steps)
        store.add([EpisodeChunk(id_, np.zeros(steps + 1), rewards, rewards, False, id_ == "ended")])
    return store


def served(store: TransitionStore, n: int, **options) -> Transitions:
    rows = store.live_rows().astype(np.int64)
    return store.serve(rows, rows + 0.5, np.array([n]), **options)


def test_only_steps_with_enough_left_serve_and_ends_come_last(store):
    some = served(store, 3)
    np.testing.assert_array_equal(some.positions, [0, 1, 5, 2])
    np.testing.assert_array_equal(some.truncateds, [False, False, False, True])
    np.testing.assert_array_equal(some.t, [0, 1, 0, 2])
    assert not some.terminateds.any()
    np.testing.assert_array_equal(some.rows, store.live_rows()[some.positions])
    np.testing.assert_array_equal(some.masses, some.rows + 0.5)
    assert (some.looked_at, some.distinct_rows, some.distinct_slots) == (8, 4, 2)


def test_the_first_ones_are_taken(store):
    np.testing.assert_array_equal(served(store, 3, most=2).positions, [0, 1])
    np.testing.assert_array_equal(served(store, 3, most=0).positions, [])


def test_shortened_to_what_is_left(store):
    some = served(store, 3, least=1)
    by_position = dict(zip(some.positions.tolist(), some.n_step.tolist(), strict=True))
    assert by_position == {0: 3, 1: 3, 2: 3, 3: 2, 4: 1, 5: 3, 6: 2, 7: 1}


def test_rewards_of_various_lengths(store):
    some = served(store, 3, least=1)
    rewards = store.gather(some, 0.5)["rewards"]
    for t, n, reward in zip(some.t, some.n_step, rewards, strict=True):
        assert reward == sum(2.0 ** int(t + i) * 0.5**i for i in range(n))


def test_past_the_end_is_refused(store):
    some = served(store, 1)
    with pytest.raises(ValueError, match=r"steps\[\d\] is 4: expected at most"):
        store.gather(some._replace(n_step=np.full(len(some.rows), 4)), 1.0)
    for rows in ([-1], [10**6]):
        with pytest.raises(IndexError, match=r"rows\[0\] is"):
            store.serve(np.array(rows), np.ones(1), np.ones(1, np.int64))
    with pytest.raises(ValueError, match="steps: got 2 items, expected 1"):
        store.serve(np.zeros(1, np.int64), np.ones(1), np.ones(2, np.int64))
    with pytest.raises(ValueError, match="masses: got 2 items, expected 1"):
        store.serve(np.zeros(1, np.int64), np.ones(2), np.ones(1, np.int64))


def test_num_distinct():
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 7, 500, 5000):
        for high in (1, 10, 10**9):
            values = rng.integers(-high, high, n).astype(np.int32)
            assert _core.num_distinct(values) == len(np.unique(values))


def test_masses_are_pythons_powers():
    priorities = np.array([-3.0, 0.0, 1e-300, 0.3, 7.0, 1e10])
    masses, lifted, highest = _core.priority_masses(priorities, 0.6, 1e-12, 1e-7)
    assert masses.tolist() == [max(max(p, 1e-12) ** 0.6, 1e-7) for p in priorities.tolist()]
    assert (lifted, highest) == (3, 1e10)


@pytest.mark.parametrize("least", [0.05, math.nan])
def test_weights_are_pythons_powers(least):
    masses = np.random.default_rng(0).random(100) + 0.1
    weights = [(mass / 60.0 * 123.0) ** -0.4 for mass in masses.tolist()]
    highest = max(weights) if math.isnan(least) else (least / 60.0 * 123.0) ** -0.4
    got = _core.importance_weights(masses, 60.0, least, 123.0, 0.4)
    assert got.tolist() == [weight / highest for weight in weights]
