"""Concurrent trials with shards: each has its own, and takes them away (R3, R10, R12)."""

import os
from pathlib import Path

import pytest
from processes import comes_true, runs
from ray import tune
from ray.rllib.algorithms.dqn import DQN
from small_algorithms import small_dqn


def tell(*, algorithm, result, **_):
    """Puts into the result what the trial's buffer says of itself."""
    buffer = algorithm.local_replay_buffer
    result["buffer"] = {
        "capacity": buffer.capacity,
        "alpha": buffer._client.options.alpha,
        "pids": [info["pid"] for info in buffer.get_shard_info()],
    }


def fail_late(*, algorithm, result, **_):
    """Lets a trial fail when it has run for a while."""
    tell(algorithm=algorithm, result=result)
    if result["training_iteration"] == 2:
        if result["buffer"]["capacity"] == 301:
            os._exit(1)
        raise RuntimeError("this trial fails")


def fit(config, path, **run):
    return tune.Tuner(
        DQN,
        param_space=config,
        run_config=tune.RunConfig(storage_path=str(path), verbose=0, **run),
    ).fit()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_trial_has_its_own_shards(ray_session: None, tmp_path: Path) -> None:
    config = small_dqn(
        num_shards=tune.grid_search([1, 2]),
        capacity=tune.grid_search([300, 500]),
        alpha=tune.sample_from(lambda spec: 0.5 + spec.config.replay_buffer_config.capacity / 1e4),
    ).callbacks(on_train_result=tell)
    results = fit(config, tmp_path, stop={"training_iteration": 3})
    assert not results.errors
    assert len(results) == 4
    pids = []
    for result in results:
        given, told = result.config["replay_buffer_config"], result.metrics["buffer"]
        assert len(told["pids"]) == given["num_shards"]
        assert told["capacity"] == given["capacity"]
        assert told["alpha"] == given["alpha"] == 0.5 + given["capacity"] / 1e4
        pids += told["pids"]
    assert len(set(pids)) == 6
    assert comes_true(lambda: not any(map(runs, pids)))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_shards_of_failed_trials_end(ray_session: None, tmp_path: Path) -> None:
    """One raises, one dies."""
    config = small_dqn(num_shards=2, capacity=tune.grid_search([300, 301])).callbacks(
        on_train_result=fail_late
    )
    results = fit(config, tmp_path, stop={"training_iteration": 3})
    assert len(results.errors) == 2
    pids = [pid for result in results for pid in result.metrics["buffer"]["pids"]]
    assert len(pids) == 4
    assert comes_true(lambda: not any(map(runs, pids)))
