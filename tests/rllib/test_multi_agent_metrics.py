"""The metrics are RLlib's, by environment, by agent and by module."""

import itertools

import numpy as np
import pytest
from metric_values import flat, values
from multi_agent_buffers import make_buffer
from multi_agent_episodes import SHARED, TWO, make_multi, play_multi
from multi_agent_oracle import MultiAgentOracle
from older_rays import own_metrics_differ

# RLlib counts agents' and modules' steps only in the calls that bring a new episode of theirs,
# and divides the sum of all modules' n_step by the number of rows of one.
ONLY_NEW = ("num_agent_steps_added", "num_module_steps_added", "num_module_episodes_added")


def pair(capacity: int = 1000) -> tuple:
    ours = make_buffer(capacity, metrics_num_episodes_for_smoothing=5)
    return ours, MultiAgentOracle(capacity, alpha=0.6, metrics_num_episodes_for_smoothing=5)


def check(ours, theirs, leave_out: tuple = ()) -> None:
    mine, rllib = values(ours.get_metrics()), values(theirs.get_metrics())
    assert set(rllib) <= set(mine)
    for path, value in rllib.items():
        if not path[0].startswith(leave_out):
            assert mine[path] == pytest.approx(value, nan_ok=True), path


@own_metrics_differ
def test_whole_episodes_and_evictions() -> None:
    ours, theirs = pair(60)
    for n in range(20):
        for buffer in (ours, theirs):
            buffer.add([make_multi(n, 5 + n % 7, "terminated", SHARED)])
        if n % 3 == 0:
            check(ours, theirs)


@own_metrics_differ
def test_pieces_of_episodes() -> None:
    ours, theirs = pair(60)
    for episodes in itertools.islice(play_multi(4, 3, TWO, seed=2), 15):
        ours.add(episodes)
        theirs.add(episodes)
        check(ours, theirs, ONLY_NEW)


def test_steps_that_go_on_are_counted_too() -> None:
    ours = make_buffer()
    steps = 0
    for episodes in itertools.islice(play_multi(2, 3, TWO, seed=2), 10):
        ours.add(episodes)
        steps += sum(len(episode.agent_episodes["a"]) for episode in episodes)
    metrics = values(ours.get_metrics())
    assert metrics["num_agent_steps_added_lifetime", "a"] == steps
    assert metrics["num_module_steps_added_lifetime", "m1"] == steps
    assert metrics["num_env_steps_added_lifetime",] == 60


@pytest.mark.parametrize("n_step", [1, 3])
@own_metrics_differ
def test_samples_of_the_same_steps(n_step: int) -> None:
    """What we draw is drawn from RLlib's buffer, too, module by module."""
    ours, theirs = pair()
    for buffer in (ours, theirs):
        buffer.add([make_multi(n, 3 + n % 5, "terminated", TWO) for n in range(20)])
        buffer.get_metrics()
    for _ in range(3):
        rows = {}
        (sample,) = ours.sample(num_items=32, n_step=n_step, beta=0.4)
        for (module_id, _), group in sample.agent_episodes.items():
            first = group.get_observations(slice(0, len(group)))[:, :2].astype(int)
            rows[module_id] = [*rows.get(module_id, []), *map(tuple, first.tolist())]
        for module_id in ("m1", "m2"):
            theirs.sample_steps(module_id, rows[module_id], [n_step] * 32, beta=0.4)
    mine, rllib = values(ours.get_metrics()), values(theirs.get_metrics())
    for path, value in rllib.items():
        of_one = path[0].startswith(("num_agent", "num_module", "module_", "agent_"))
        if of_one and "resamples" not in path[0]:
            assert mine[path] == pytest.approx(value, nan_ok=True), path
    assert mine["actual_n_step",] == n_step
    assert mine["num_env_steps_sampled",] == rllib["num_env_steps_sampled",] == 3 * 64
    resampled = [mine["num_module_resamples", m] for m in ("m1", "m2")]
    assert mine["num_resamples",] == sum(resampled)
    assert (sum(resampled) > 0) == (n_step > 1)


def test_distinct_steps_of_the_environment() -> None:
    """Two agents' steps at one time are one step of the environment."""
    ours = make_buffer()
    ours.add([make_multi(0, 1, "terminated", TWO)])
    ours.sample(num_items=10)
    metrics = values(ours.get_metrics())
    assert metrics["num_env_steps_per_sample",] == metrics["num_episodes_per_sample",] == 1
    assert metrics["env_step_utilization",] == 1 / 20
    ours.add([make_multi(1, 2, "terminated", SHARED)])
    ours.sample(num_items=50)
    metrics = values(ours.get_metrics())
    assert metrics["num_env_steps_per_sample",] == 3
    assert metrics["num_module_steps_per_sample", "m1"] == 1 + 2 * 2
    assert metrics["num_agent_steps_per_sample", "b"] == 1 + 2
    assert metrics["num_agent_steps_sampled", "c"] < 50
    sampled = [metrics["num_agent_steps_sampled", a] for a in "abc"]
    assert sum(sampled) == 100


def test_reading_later_and_after_evictions() -> None:
    ours = make_buffer(capacity=10)
    for n in range(6):
        ours.add([make_multi(n, 5, "terminated")])
        ours.sample(num_items=4)
    metrics = values(ours.get_metrics())
    assert metrics["num_env_steps_sampled",] == 6 * 8
    assert metrics["num_episodes_evicted",] == 4
    assert set(flat(make_buffer().get_metrics())) == set()
    assert np.isfinite(metrics["env_step_utilization",])
