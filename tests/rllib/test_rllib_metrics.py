"""Metrics under RLlib's keys with RLlib's values."""

import itertools

import numpy as np
import pytest
from metric_values import flat, values
from older_rays import own_metrics_differ
from rllib_episodes import make_episode, play
from rllib_oracle import RLlibOracle

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer


def pair(capacity: int = 80) -> tuple:
    ours = AccPrioritizedEpisodeReplayBuffer(
        capacity, num_shards=0, seed=3, metrics_num_episodes_for_smoothing=5
    )
    theirs = RLlibOracle(capacity, metrics_num_episodes_for_smoothing=5)
    theirs.rng = np.random.default_rng(3)
    return ours, theirs


def same(ours, theirs) -> dict[tuple, float]:
    mine, rllib = values(ours.get_metrics()), values(theirs.get_metrics())
    shared = {path: mine[path] for path in mine if path in rllib}
    assert set(rllib) <= set(mine)
    assert shared == pytest.approx(rllib, nan_ok=True)
    return shared


@own_metrics_differ
def test_metrics_of_adds_and_evictions() -> None:
    ours, theirs = pair()
    for episodes in itertools.islice(play(4, 5, seed=2), 25):
        ours.add(episodes)
        theirs.add(episodes)
        same(ours, theirs)


@own_metrics_differ
def test_metrics_of_several_adds_between_two_readings() -> None:
    ours, theirs = pair()
    runner = play(3, 4, seed=2)
    for adds in (1, 2, 5, 0, 9):
        for episodes in itertools.islice(runner, adds):
            ours.add(episodes)
            theirs.add(episodes)
        if adds:
            same(ours, theirs)


@pytest.mark.parametrize("n", [1, 3])
@own_metrics_differ
def test_metrics_of_samples(n: int) -> None:
    """Same draws, so every one of the numbers is the same."""
    ours, theirs = pair(1000)
    episodes = [make_episode(i, 3 + i % 5, "terminated") for i in range(20)]
    ours.add(episodes)
    theirs.add(episodes)
    same(ours, theirs)
    for samples in (1, 2, 4):
        for _ in range(samples):
            ours.sample(num_items=32, n_step=n, beta=0.4)
            theirs.sample(num_items=32, n_step=n, beta=0.4)
        metrics = same(ours, theirs)
    resampled = [v for path, v in metrics.items() if path == ("num_resamples",)]
    assert resampled
    assert (resampled[0] > 0) == (n > 1)


@own_metrics_differ
def test_metrics_of_a_training_loop() -> None:
    """add, sample, read, update, as DQN does; what does not hang on the draws is the same."""
    ours, theirs = pair()
    for episodes in itertools.islice(play(4, 3, seed=5), 40):
        ours.add(episodes)
        theirs.add(episodes)
        for buffer in (ours, theirs):
            buffer.sample(num_items=16, n_step=1, beta=0.4)
        mine, rllib = values(ours.get_metrics()), values(theirs.get_metrics())
        assert set(rllib) <= set(mine)
        for path, value in rllib.items():
            if "per_sample" not in path[0] and "utilization" not in path[0]:
                assert mine[path] == pytest.approx(value, nan_ok=True), path
        for buffer in (ours, theirs):
            buffer.update_priorities(np.ones(16))


@own_metrics_differ
def test_a_fresh_buffer_has_the_metrics_of_its_shards_only() -> None:
    ours, theirs = pair()
    assert not flat(theirs.get_metrics())
    fresh = values(ours.get_metrics())
    assert {path[0] for path in fresh} == {"shards"}
    assert fresh["shards", "0", "steps"] == fresh["shards", "0", "mass"] == 0
    for buffer in (ours, theirs):
        buffer.add(next(play(4, 3, seed=5)))
    added = set(values(theirs.get_metrics()))
    assert len(added) > 20
    assert added <= set(values(ours.get_metrics()))


def test_each_shard_has_its_metrics(ray_session: None) -> None:
    for num_shards in (0, 1, 2):
        buffer = AccPrioritizedEpisodeReplayBuffer(80, num_shards=num_shards, seed=3)
        for number in range(4):
            buffer.add([make_episode(number, 5)])
        buffer.sample(num_items=8, beta=0.4)
        shown = values(buffer.get_metrics())
        shards = {path[1] for path in shown if path[0] == "shards"}
        assert shards == {str(i) for i in range(num_shards or 1)}
        steps = [shown["shards", shard, "steps"] for shard in shards]
        assert sum(steps) == 20
        if num_shards:
            assert all(shown["shards", shard, "restarts"] == 0 for shard in shards)
            assert all(shown["shards", shard, "add_seconds"] > 0 for shard in shards)
