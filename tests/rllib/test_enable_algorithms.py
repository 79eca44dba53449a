"""DQN, SAC and TQC, the buffer's class and its dotted name, build_algo() and Tune: what trains."""

import logging
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from ray import tune
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.sac import SAC, SACConfig
from tqc_here import TQC, TQCConfig, needs_tqc

from rllib_per_acc import AccDQN, AccDQNConfig, AccPrioritizedEpisodeReplayBuffer, enable

TYPE = "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer"
CONFIGS = {"DQN": DQNConfig, "SAC": SACConfig, "TQC": TQCConfig}
ALGORITHMS = {"DQN": DQN, "SAC": SAC, "TQC": TQC}
TYPES = {"class": AccPrioritizedEpisodeReplayBuffer, "name": TYPE}
TRAINED = ("learners", "default_policy", "num_module_steps_trained_lifetime")

slow = pytest.mark.slow


def small(algorithm: str, type_: str, **keys: Any) -> AlgorithmConfig:
    """A config that has learned after one short iteration."""
    config = (
        CONFIGS[algorithm]()
        .environment("CartPole-v1" if algorithm == "DQN" else "Pendulum-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2, rollout_fragment_length=8)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .reporting(min_sample_timesteps_per_iteration=64, min_time_s_per_iteration=0)
        .training(
            train_batch_size_per_learner=8,
            num_steps_sampled_before_learning_starts=32,
            replay_buffer_config={"type": TYPES[type_], "capacity": 500, **keys},
        )
    )
    return config if algorithm == "DQN" else config.training(lr=None)


def trained_steps(result: dict[str, Any]) -> int:
    for key in TRAINED:
        result = result[key]
    return int(result)


def rows(algorithms: list[str], first_is_quick: bool) -> list:
    """Every algorithm with either form of `type`, enabled and not."""
    made = []
    for algorithm in algorithms:
        for type_ in TYPES:
            for enabled in (True, False):
                is_quick = first_is_quick and (algorithm, type_, enabled) == ("DQN", "name", True)
                marks = [] if is_quick else [slow]
                if algorithm == "TQC":
                    marks.append(needs_tqc)
                made.append(pytest.param(algorithm, type_, enabled, marks=marks))
    return made


@pytest.fixture
def built(ray_session: None) -> Iterator[list[Algorithm]]:
    algorithms: list[Algorithm] = []
    yield algorithms
    for algorithm in algorithms:
        algorithm.stop()


@pytest.mark.parametrize(("algorithm", "type_", "enabled"), rows(["DQN", "SAC", "TQC"], True))
def test_build_algo(built: list[Algorithm], algorithm: str, type_: str, enabled: bool) -> None:
    config = small(algorithm, type_)
    if enabled:
        config = enable(config)
    elif type_ == "name" and algorithm != "DQN":
        with pytest.raises(ValueError, match="must be of type"):
            config.build_algo()
        return
    built.append(config.build_algo())
    assert type(built[0]).__name__ == ("Acc" if enabled else "") + algorithm
    assert trained_steps(built[0].train()) > 0
    assert isinstance(built[0].local_replay_buffer, AccPrioritizedEpisodeReplayBuffer)
    (shard,) = built[0].local_replay_buffer.get_shard_info()
    assert shard["steps_sampled"] > 0


def sweep(trainable: type, config: AlgorithmConfig, folder: pathlib.Path) -> tune.ResultGrid:
    tuner = tune.Tuner(
        trainable,
        param_space=config,
        run_config=tune.RunConfig(
            stop={"training_iteration": 1},
            storage_path=str(folder),
            verbose=0,
            log_to_file=True,
            sync_config=tune.SyncConfig(sync_artifacts=True),
        ),
    )
    return tuner.fit()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("algorithm", "type_", "enabled"), rows(["DQN", "SAC"], True))
def test_tune(
    ray_session: None, tmp_path: pathlib.Path, algorithm: str, type_: str, enabled: bool
) -> None:
    config = small(algorithm, type_, alpha=tune.grid_search([0.0, 0.6]))
    if enabled:
        config = enable(config)
    results = sweep(config.algo_class, config, tmp_path)
    assert not results.errors
    assert [trained_steps(result.metrics) > 0 for result in results] == [True, True]
    alphas = [result.config["replay_buffer_config"]["alpha"] for result in results]
    assert sorted(alphas) == [0.0, 0.6]


@slow
@pytest.mark.timeout(600)
def test_tune_gives_a_shard_that_asks_its_bundle(ray_session: None, tmp_path: pathlib.Path) -> None:
    config = enable(small("SAC", "name", num_cpus_per_shard=1))
    (result,) = sweep(config.algo_class, config, tmp_path)
    assert result.error is None
    assert trained_steps(result.metrics) > 0


@slow
@pytest.mark.timeout(600)
def test_where_tune_drops_the_class_a_warning_says_what_is_lost(
    ray_session: None, tmp_path: pathlib.Path
) -> None:
    (result,) = sweep(DQN, enable(small("DQN", "name")), tmp_path)
    assert result.error is None
    log = "".join(path.read_text() for path in pathlib.Path(result.path).glob("std*"))
    assert "DQN was given the settings of a config made by rllib_per_acc.enable()" in log
    assert "config.algo_class" in log


def test_the_settings_alone_build_a_plain_algorithm_that_warns(
    built: list[Algorithm], caplog: pytest.LogCaptureFixture
) -> None:
    settings = enable(small("DQN", "name", num_shards=0)).to_dict()
    with caplog.at_level(logging.WARNING, "rllib_per_acc"):
        built.append(DQN(config=settings))
    assert "DQN was given the settings" in caplog.text
    for lost in ("shards", "placement group", "learner connector"):
        assert lost in caplog.text


def test_checkpoints_keep_the_classes_and_the_settings(
    built: list[Algorithm], tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    built.append(enable(small("DQN", "name", num_shards=0), alpha=0.3).build_algo())
    built[0].train()
    path = built[0].save_to_path(str(tmp_path))
    built.append(Algorithm.from_checkpoint(path))
    restored = built[1]
    assert type(restored) is AccDQN
    assert type(restored.config) is AccDQNConfig
    assert restored.config.replay_buffer_config == built[0].config.replay_buffer_config
    assert restored.config.replay_buffer_config["type"] == TYPE
    assert restored.config.replay_buffer_config["alpha"] == 0.3
    pieces = restored.learner_group._learner._learner_connector.connectors
    assert [type(piece).__name__ for piece in pieces].count("AddRowGroupsToTrainBatch") == 1
    assert restored.train()["training_iteration"] == 2
    assert "given the settings" not in caplog.text
