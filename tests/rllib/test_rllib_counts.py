"""The same adds give the same counts and the same evictions as RLlib's buffer."""

import itertools

import numpy as np
import pytest
from older_rays import own_eviction_raises
from rllib_buffers import COUNTERS, masses_of
from rllib_episodes import make_episode, play
from rllib_oracle import RLlibOracle

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer


def check_same(ours: AccPrioritizedEpisodeReplayBuffer, theirs: RLlibOracle) -> None:
    for name in COUNTERS:
        assert getattr(ours, name)() == getattr(theirs, name)(), name
    assert len(ours) == len(theirs)
    assert masses_of(ours) == theirs.masses()


def pair(capacity: int, alpha: float = 0.6) -> tuple:
    ours = AccPrioritizedEpisodeReplayBuffer(capacity, alpha=alpha, num_shards=0, seed=1)
    return ours, RLlibOracle(capacity, alpha=alpha)


@pytest.mark.parametrize("lookback", [0, 1, 4])
@pytest.mark.parametrize(
    ("num_envs", "fragment", "capacity"), [(1, 1, 40), (8, 1, 60), (3, 7, 100), (16, 4, 90)]
)
@own_eviction_raises
def test_counts_after_every_add(num_envs: int, fragment: int, capacity: int, lookback: int) -> None:
    ours, theirs = pair(capacity)
    runner = play(num_envs, fragment, seed=num_envs, lookback=lookback)
    for episodes in itertools.islice(runner, 400 // (num_envs * fragment) + 20):
        ours.add(episodes)
        theirs.add(episodes)
        check_same(ours, theirs)
    assert theirs.get_num_episodes_evicted() > 0


@pytest.mark.parametrize("to_numpy", [True, False])
def test_pieces_as_lists_and_as_arrays(to_numpy: bool) -> None:
    ours, theirs = pair(200)
    for episodes in itertools.islice(play(3, 5, to_numpy=to_numpy), 30):
        ours.add(episodes)
        theirs.add(episodes)
    check_same(ours, theirs)


def test_priorities_of_new_steps_follow_the_largest_seen() -> None:
    ours, theirs = pair(150)
    rng = np.random.default_rng(0)
    for episodes in itertools.islice(play(4, 3, seed=2), 60):
        ours.add(episodes)
        theirs.add(episodes)
        sample = ours.sample(num_items=16, beta=0.4)
        steps = steps_of(sample)
        priorities = rng.uniform(0, 3, len(steps))
        ours.update_priorities(priorities)
        for step, priority in zip(steps, priorities, strict=True):
            theirs.set_priorities({step: priority})
        assert masses_of(ours) == theirs.masses()


def steps_of(sample) -> list[tuple[int, int]]:
    from rllib_oracle import read_rows

    return [row.step for row in read_rows(sample)]


@pytest.mark.parametrize("weight", [0.5, 1.0, 3.0])
def test_an_initial_weight(weight: float) -> None:
    ours, theirs = pair(100)
    for episode in (make_episode(0, 5, "terminated"), make_episode(1, 3)):
        ours.add([episode], weight=weight)
        theirs.add([episode], weight=weight)
    ours.add(make_episode(2, 4))
    theirs.add(make_episode(2, 4))
    check_same(ours, theirs)
    assert masses_of(ours)[0, 0] == weight**0.6


def test_an_episode_larger_than_the_buffer_stays_alone_until_the_next() -> None:
    ours, theirs = pair(64)
    small, large = make_episode(0, 10, "terminated"), make_episode(1, 100, "truncated")
    for episode in (small, large):
        ours.add([episode])
        theirs.add([episode])
        check_same(ours, theirs)
    assert ours.get_num_episodes() == 1
    assert ours.get_num_timesteps() == 100
    ours.sample(num_items=20, n_step=3, beta=0.4)
    theirs.sample(num_items=20, n_step=3, beta=0.4)
    ours.add([make_episode(2, 5, "terminated")])
    theirs.add([make_episode(2, 5, "terminated")])
    check_same(ours, theirs)
    assert ours.get_num_timesteps() == 5
    assert ours.get_num_episodes_evicted() == 2


def test_far_larger_than_the_buffer() -> None:
    """RLlib runs out of leaves at twice the capacity."""
    ours, _ = pair(10)
    ours.add([make_episode(0, 50, "terminated")])
    assert (ours.get_num_timesteps(), ours.get_num_episodes()) == (50, 1)
    assert set(masses_of(ours)) == {(0, t) for t in range(50)}
    ours.add([make_episode(1, 4)])
    assert (ours.get_num_timesteps(), ours.get_num_episodes()) == (4, 1)
    assert ours.get_num_episodes_evicted() == 1
    assert ours.get_added_timesteps() == 54


def test_several_new_episodes_that_do_not_fit_together() -> None:
    """RLlib pops from an empty deque; the oldest give way here as always."""
    ours, _ = pair(10)
    ours.add([make_episode(n, 4, "terminated") for n in range(5)])
    assert {number for number, _ in masses_of(ours)} == {3, 4}
    assert ours.get_num_timesteps() == 8
    assert ours.get_num_episodes() == 2
    assert len(ours.sample(num_items=4, beta=0.4)) > 0


def test_what_was_added_may_be_changed_afterwards() -> None:
    ours, _ = pair(100)
    episode = make_episode(0, 5, "terminated")
    ours.add([episode])
    before = sorted(steps_of(ours.sample(num_items=50, beta=0.4)))
    episode.set_observations(new_data=np.full((6, 4), -1.0, np.float32))
    after = set(steps_of(ours.sample(num_items=50, beta=0.4)))
    assert after == set(before) == {(0, t) for t in range(5)}
    assert len(episode) == 5
