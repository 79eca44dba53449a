"""Thirty-two environments into a store far smaller than what they play."""

import numpy as np
import pytest
from replay_checks import check_batch, check_invariants, check_same
from replay_reference import Arrival, NaiveReplay

from rllib_per_acc import PrioritizedReplay


def play(num_envs: int, longest: int, fragment: int, seed: int):
    """Yields what `num_envs` environments, `fragment` steps each, add at a time, without end."""
    rng = np.random.default_rng(seed)
    numbers = list(range(num_envs))
    left = [int(n) for n in rng.integers(1, longest + 1, num_envs)]
    times = [0] * num_envs
    while True:
        arrivals = []
        for env in range(num_envs):
            length = min(fragment, left[env])
            left[env] -= length
            end = "" if left[env] else ("terminated", "truncated")[int(rng.integers(2))]
            arrivals.append(Arrival(numbers[env], times[env], length, end))
            times[env] += length
            if end:
                numbers[env] = max(numbers) + 1
                left[env], times[env] = int(rng.integers(1, longest + 1)), 0
        yield arrivals


@pytest.mark.parametrize(
    ("fragment", "num_steps"), [(1, 20_000), pytest.param(1, 100_000, marks=pytest.mark.slow)]
)
def test_invariants_hold_after_every_add(fragment: int, num_steps: int) -> None:
    replay = PrioritizedReplay(500, seed=1)
    added = 0
    for arrivals in play(32, 400, fragment, seed=2):
        replay.add([arrival.chunk() for arrival in arrivals])
        check_invariants(replay)
        lengths = np.unique(replay.get_priorities()["episode_id"], return_counts=True)[1]
        assert lengths.sum() == len(replay)
        assert len(replay) <= 500 or len(lengths) == 1
        added += sum(arrival.length for arrival in arrivals)
        if added >= num_steps:
            break


def test_the_same_episodes_survive_as_with_lists() -> None:
    replay, naive = PrioritizedReplay(300, seed=1), NaiveReplay(300)
    for call, arrivals in zip(range(120), play(16, 60, 3, seed=3), strict=False):
        replay.add([arrival.chunk() for arrival in arrivals])
        naive.add(arrivals)
        check_same(replay, naive)
        if call % 10 == 9:
            batch = replay.sample(64, n_step=2, gamma=0.9)
            steps = check_batch(batch, naive, 64, 2, 0.9, 0.4)
            priorities = np.random.default_rng(call).random(64)
            batch.update(priorities)
            naive.update(steps, priorities.tolist())
    assert naive.evicted_ids, "nothing was evicted"


def test_memory_does_not_grow_once_the_store_is_full() -> None:
    replay = PrioritizedReplay(200, seed=1)
    rows = []
    for call, arrivals in zip(range(600), play(4, 50, 5, seed=4), strict=False):
        replay.add([arrival.chunk() for arrival in arrivals])
        if call >= 100:
            rows.append(replay._store.pool.num_used)
    assert max(rows[250:]) == max(rows[:250])
