"""A saved state is a copy: it neither changes nor ties two replays together."""

import copy
import pickle

import numpy as np
import pytest
from replay_checks import check_invariants, check_same, episodes_of, masses_of
from replay_reference import Arrival, NaiveReplay

from rllib_per_acc import PrioritizedReplay

FILLS = {"empty": 0, "half full": 5, "exactly full": 10, "wrapped": 33}


def filled(fill: str, capacity: int = 100) -> tuple[PrioritizedReplay, NaiveReplay]:
    replay, naive = PrioritizedReplay(capacity, seed=4), NaiveReplay(capacity)
    for number in range(FILLS[fill]):
        arrival = Arrival(number, 0, 10, ("terminated", "truncated")[number % 2])
        replay.add([arrival.chunk()])
        naive.add([arrival])
        batch = replay.sample(16, n_step=2)
        places = [naive.find(int(o[0]), int(o[1])) for o in batch.observations]
        naive.update([e.steps[i] for e, i in places], np.abs(batch.rewards).tolist())
        batch.update(np.abs(batch.rewards))
    return replay, naive


def same_batch(one, two) -> None:
    for name in ("observations", "next_observations", "actions", "rewards", "weights", "n_step"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def use(replay: PrioritizedReplay, number: int) -> None:
    """Adds, samples, updates."""
    replay.add([Arrival(number, 0, 17, "terminated").chunk()])
    batch = replay.sample(8)
    batch.update(np.arange(8.0))


@pytest.mark.parametrize("fill", FILLS)
def test_a_restored_replay_goes_on_the_same(fill: str) -> None:
    replay, naive = filled(fill)
    other = PrioritizedReplay(100, seed=99)
    other.set_state(replay.get_state())
    check_invariants(other)
    check_same(other, naive)
    assert other.tree.sum() == replay.tree.sum()
    for number in range(100, 120):
        use(replay, number)
        use(other, number)
        same_batch(replay.sample(32, n_step=(1, 3)), other.sample(32, n_step=(1, 3)))
    assert masses_of(replay) == masses_of(other)
    once_only = {"incarnation": None, "bytes": None}  # of the object, not of what it holds
    assert replay.info() | once_only == other.info() | once_only


@pytest.mark.parametrize("fill", FILLS)
def test_a_saved_state_does_not_change(fill: str) -> None:
    replay, naive = filled(fill)
    state = replay.get_state()
    frozen = pickle.dumps(copy.deepcopy(state))
    one, two = PrioritizedReplay(100), PrioritizedReplay(100)
    one.set_state(state)
    two.set_state(state)
    for number in range(100, 130):
        use(replay, number)
        use(one, number)
    assert pickle.dumps(copy.deepcopy(state)) == frozen
    check_same(two, naive)
    check_invariants(two)


def test_a_larger_capacity_keeps_everything() -> None:
    replay, naive = filled("wrapped")
    larger = PrioritizedReplay(1000)
    larger.set_state(replay.get_state())
    check_same(larger, naive)
    check_invariants(larger)
    larger.add([Arrival(500, 0, 300, "terminated").chunk()])
    assert len(larger) == 400


def test_a_smaller_capacity_drops_the_oldest() -> None:
    replay, naive = filled("wrapped")
    smaller = PrioritizedReplay(35)
    smaller.set_state(replay.get_state())
    check_invariants(smaller)
    kept = list(naive.episodes)[-3:]
    assert episodes_of(smaller) == kept
    expected = {k: m for k, m in masses_of(replay).items() if k[0] in kept}
    assert masses_of(smaller) == expected
    use(smaller, 500)
    assert len(smaller) <= 35


@pytest.mark.parametrize("state", [{}, {"rows": 3}, None, [1, 2]])
def test_a_foreign_state_is_refused_and_changes_nothing(state: object) -> None:
    replay, naive = filled("half full")
    with pytest.raises((ValueError, TypeError), match="state"):
        replay.set_state(state)
    check_same(replay, naive)
    check_invariants(replay)


def test_a_state_survives_pickle() -> None:
    replay, naive = filled("wrapped")
    other = PrioritizedReplay(100)
    other.set_state(pickle.loads(pickle.dumps(replay.get_state())))
    check_same(other, naive)
