"""Tune with enabled algorithms: sweeps, early stopping, PBT, restores; with the buffer or not."""

import ast
from pathlib import Path
from typing import Any

import pytest
from processes import comes_true, runs
from ray import tune
from ray.tune.schedulers import ASHAScheduler, PopulationBasedTraining
from small_algorithms import NAME, small_dqn

from rllib_per_acc import AccDQN, AccDQNConfig, AccPrioritizedEpisodeReplayBuffer, enable

pytestmark = [
    pytest.mark.usefixtures("ray_session"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


def tell(*, algorithm: Any, result: dict, **_: Any) -> None:
    """Puts into the result what the trial's buffer says of itself."""
    buffer, client = algorithm.local_replay_buffer, algorithm.local_replay_buffer._client
    result["buffer"] = {
        "type": f"{type(buffer).__module__}.{type(buffer).__name__}",
        "capacity": buffer.capacity,
        "alpha": client.options.alpha,
        "beta": client.options.beta,
        "steps": buffer.get_num_timesteps(),
        "added": buffer.get_added_timesteps(),
        "pids": [info["pid"] for info in buffer.get_shard_info()],
    }
    result["score"] = client.options.alpha


def enabled(stored: bool = False, **keys: Any) -> AccDQNConfig:
    config = enable(small_dqn(**({"capacity": 2000} | keys))).callbacks(on_train_result=tell)
    return config.training(store_buffer_in_checkpoints=stored)


def tuner(config: AccDQNConfig, path: Path, tune_config: Any = None, **run: Any) -> tune.Tuner:
    return tune.Tuner(
        config.algo_class,
        param_space=config,
        tune_config=tune_config,
        run_config=tune.RunConfig(
            name="run",
            storage_path=str(path),
            verbose=0,
            **({"stop": {"training_iteration": 3}} | run),
        ),
    )


def pids_of(results: tune.ResultGrid) -> set[int]:
    return {
        pid
        for result in results
        for pids in result.metrics_dataframe["buffer/pids"]
        for pid in (pids if isinstance(pids, list) else ast.literal_eval(pids))
    }


def assert_all_gone(results: tune.ResultGrid) -> None:
    pids = pids_of(results)
    assert pids
    assert comes_true(lambda: not any(map(runs, pids)))


def test_trials_that_share_few_cpus_have_their_own_values(tmp_path: Path) -> None:
    """Each trial takes 1 CPU and 1 for each of 2 shards: of 8 CPUs two are left over (R3, R12)."""
    sweep = {
        "type": tune.grid_search([NAME, AccPrioritizedEpisodeReplayBuffer]),
        "beta": tune.grid_search([0.3, [[0, 0.4], [1000, 1.0]]]),
        "capacity": tune.sample_from(lambda _: 700),
    }
    config = enabled(num_shards=2, num_cpus_per_shard=1, **sweep)
    results = tuner(config, tmp_path).fit()
    assert not results.errors
    assert len(results) == 4
    betas = []
    for result in results:
        given, told = result.config["replay_buffer_config"], result.metrics["buffer"]
        assert told["type"] == "rllib_per_acc.rllib.episode_buffer." + NAME.rpartition(".")[2]
        assert told["beta"] == given["beta"]
        assert (told["capacity"], len(told["pids"])) == (700, 2)
        betas.append(str(told["beta"]))
    assert sorted(betas) == ["0.3", "0.3", *2 * ["[[0, 0.4], [1000, 1.0]]"]]
    assert len(pids_of(results)) == 8
    assert_all_gone(results)


def test_trials_that_are_stopped_early_leave_nothing(tmp_path: Path) -> None:
    # The best two first: when the others report, there is something better, whatever the timing.
    config = enabled(stored=True, num_shards=2, alpha=tune.grid_search([1.0, 0.7, 0.4, 0.1]))
    scheduler = ASHAScheduler(
        metric="score", mode="max", max_t=4, grace_period=1, reduction_factor=2
    )
    results = tuner(
        config,
        tmp_path,
        tune.TuneConfig(scheduler=scheduler, max_concurrent_trials=2),
        stop={"training_iteration": 4},
        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
    ).fit()
    assert not results.errors
    iterations = {r.metrics["score"]: r.metrics["training_iteration"] for r in results}
    assert min(iterations.values()) < 4
    assert iterations[1.0] == 4
    assert_all_gone(results)
    for result in results:
        assert Path(result.checkpoint.path, "replay_buffer", "manifest.json").is_file()


@pytest.mark.parametrize("copied", [True, False])
def test_pbt_copies_the_buffer_where_asked(tmp_path: Path, copied: bool) -> None:
    """The trial with the lesser alpha goes on from the other's checkpoint, with another alpha."""
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        metric="score",
        mode="max",
        perturbation_interval=2,
        quantile_fraction=0.5,
        resample_probability=0.0,
        synch=True,
        hyperparam_mutations={"replay_buffer_config": {"alpha": [0.5, 0.6, 0.9]}},
    )
    config = enabled(stored=copied, alpha=tune.grid_search([0.2, 0.6]), num_shards=1)
    results = tuner(
        config, tmp_path, tune.TuneConfig(scheduler=scheduler), stop={"training_iteration": 4}
    ).fit()
    assert not results.errors
    (exploited,) = (r for r in results if len(set(r.metrics_dataframe["buffer/alpha"])) > 1)
    told = exploited.metrics_dataframe
    assert told["buffer/alpha"].iloc[0] == 0.2
    assert told["buffer/alpha"].iloc[-1] != 0.2
    (third,) = told[told["training_iteration"] == 3]["buffer/steps"]
    (second,) = (
        frame[frame["training_iteration"] == 2]["buffer/steps"].iloc[-1]
        for frame in (r.metrics_dataframe for r in results if r is not exploited)
    )
    assert third > second if copied else third < second
    assert_all_gone(results)


def failing_once(folder: Path) -> Any:
    """A callback that lets a trial fail in its second iteration, the first time."""

    def fail_once(*, algorithm: Any, result: dict, **_: Any) -> None:
        tell(algorithm=algorithm, result=result)
        if result["training_iteration"] == 2 and not (folder / "failed").exists():
            (folder / "failed").touch()
            raise RuntimeError("this trial fails once")

    return fail_once


@pytest.mark.parametrize("by", ["trial", "tuner"])
def test_a_trial_that_failed_goes_on_with_its_buffer(tmp_path: Path, by: str) -> None:
    config = enabled(stored=True, num_shards=2).callbacks(on_train_result=failing_once(tmp_path))
    given = {
        "checkpoint_config": tune.CheckpointConfig(checkpoint_frequency=1),
        "failure_config": tune.FailureConfig(max_failures=1 if by == "trial" else 0),
    }
    first = tuner(config, tmp_path, **given)
    results = first.fit()
    assert (tmp_path / "failed").exists()
    if by == "tuner":
        assert len(results.errors) == 1
        again = tune.Tuner.restore(
            str(tmp_path / "run"), AccDQN, resume_errored=True, param_space=config
        )
        results = again.fit()
    assert not results.errors
    told = results[0].metrics_dataframe.drop_duplicates("training_iteration", keep="last")
    assert told["training_iteration"].tolist()[-3:] == [1, 2, 3]
    steps = told["buffer/steps"].tolist()[-3:]
    assert steps[0] < steps[1] < steps[2]
    assert steps == told["buffer/added"].tolist()[-3:]
    assert_all_gone(results)
