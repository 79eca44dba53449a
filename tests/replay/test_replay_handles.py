"""Priorities go to the rows of their batch, once, in any order, and never to a row gone since."""

import numpy as np
import pytest
from replay_checks import check_invariants, check_same, masses_of
from replay_reference import Arrival, NaiveReplay

from rllib_per_acc import PrioritizedReplay


def full_replay(num_episodes: int = 2, length: int = 10) -> tuple[PrioritizedReplay, NaiveReplay]:
    replay = PrioritizedReplay(num_episodes * length, alpha=0.5, seed=1)
    naive = NaiveReplay(num_episodes * length, 0.5)
    for number in range(num_episodes):
        arrival = Arrival(number, 0, length, "terminated")
        replay.add([arrival.chunk()])
        naive.add([arrival])
    return replay, naive


def steps_of(batch, naive: NaiveReplay) -> list:
    places = [naive.find(int(o[0]), int(o[1])) for o in batch.observations]
    return [episode.steps[place] for episode, place in places]


@pytest.mark.parametrize("new_steps", [3, 10], ids=["freed slots left", "freed slots reused"])
def test_priorities_of_evicted_rows_are_dropped(new_steps: int) -> None:
    replay, naive = full_replay()
    batch = replay.sample(20)
    steps = steps_of(batch, naive)
    arrival = Arrival(2, 0, new_steps, "terminated")
    replay.add([arrival.chunk()])
    naive.add([arrival])
    stale = sum(not step.live for step in steps)
    assert 0 < stale < 20
    priorities = np.linspace(2.0, 3.0, 20)
    batch.update(priorities)
    naive.update(steps, priorities.tolist())
    check_invariants(replay)
    check_same(replay, naive)
    assert replay.info()["stale_priorities_dropped"] == stale
    new = {key: mass for key, mass in masses_of(replay).items() if key[0] == "episode-2"}
    assert set(new.values()) == {1.0}
    for _ in range(50):
        assert set(replay.sample(20).observations[:, 0]) <= {1.0, 2.0}


def test_rows_reused_more_than_once_stay_apart() -> None:
    replay, naive = full_replay()
    held = []
    for number in range(2, 12):
        batch = replay.sample(20)
        held.append((batch, steps_of(batch, naive)))
        arrival = Arrival(number, 0, 10, "terminated")
        replay.add([arrival.chunk()])
        naive.add([arrival])
    for value, (batch, steps) in enumerate(held[::-1], start=1):
        batch.update(np.full(20, float(value)))
        naive.update(steps, [float(value)] * 20)
        check_same(replay, naive)


def test_batches_may_be_updated_in_any_order() -> None:
    replay, naive = full_replay()
    batches = [replay.sample(8) for _ in range(4)]
    for i in (2, 0, 3, 1):
        values = np.full(8, i + 1.0)
        naive.update(steps_of(batches[i], naive), values.tolist())
        batches[i].update(values)
    check_same(replay, naive)


def test_a_batch_is_updated_once() -> None:
    replay, naive = full_replay()
    batch = replay.sample(8)
    naive.update(steps_of(batch, naive), [2.0] * 8)
    batch.update(np.full(8, 2.0))
    with pytest.raises(RuntimeError, match="second update"):
        batch.update(np.full(8, 3.0))
    check_same(replay, naive)


def test_the_last_of_several_priorities_of_a_row_counts() -> None:
    replay = PrioritizedReplay(10, alpha=1.0, seed=0)
    replay.add([Arrival(0, 0, 1, "terminated").chunk()])
    batch = replay.sample(3)
    batch.update(np.array([5.0, 7.0, 3.0]))
    assert list(masses_of(replay).values()) == [3.0]
    assert replay.max_priority == 7.0


def test_priorities_have_a_floor_and_no_row_gets_nothing() -> None:
    replay = PrioritizedReplay(10, alpha=1.0, seed=0)
    replay.add([Arrival(0, 0, 4, "terminated").chunk()])
    batch = replay.sample(100)
    batch.update(np.zeros(100))
    assert set(masses_of(replay).values()) == {1e-12}
    assert replay.info()["masses_lifted"] == 0


def test_a_mass_that_underflows_is_lifted_and_counted() -> None:
    replay = PrioritizedReplay(10, alpha=40.0, seed=0)
    replay.add([Arrival(0, 0, 1, "terminated").chunk()])
    replay.sample(1).update(np.array([0.0]))
    assert list(masses_of(replay).values()) == [np.finfo(np.float64).tiny]
    assert replay.info()["masses_lifted"] == 1
    assert len(replay.sample(3).rewards) == 3


def test_new_rows_get_the_largest_priority_so_far() -> None:
    replay, naive = full_replay()
    batch = replay.sample(20)
    values = np.linspace(0.1, 9.0, 20)
    naive.update(steps_of(batch, naive), values.tolist())
    batch.update(values)
    for number in (2, 3):
        arrival = Arrival(number, 0, 10, "terminated")
        replay.add([arrival.chunk()])
        naive.add([arrival])
    check_same(replay, naive)
    assert set(masses_of(replay).values()) == {3.0}  # 9 ** 0.5
