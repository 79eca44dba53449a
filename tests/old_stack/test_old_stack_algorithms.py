"""Old-stack DQN and SAC train: by class and by name, one policy or two, also under Tune."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import tune
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.env.multi_agent_env import make_multi_agent
from ray.rllib.utils.compression import is_compressed

from rllib_per_acc import AccMultiAgentPrioritizedReplayBuffer

pytestmark = pytest.mark.usefixtures("ray_session")
NAME = "rllib_per_acc.AccMultiAgentPrioritizedReplayBuffer"
CLASS = AccMultiAgentPrioritizedReplayBuffer
POLICIES = {0: "even", 1: "odd"}


def old_stack(kind: type[AlgorithmConfig], type_: Any, **keys: Any) -> AlgorithmConfig:
    small = {"fcnet_hiddens": [16]}
    config = (
        kind()
        .api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
        .environment("CartPole-v1" if kind is DQNConfig else "Pendulum-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2, rollout_fragment_length=4)
        .reporting(min_sample_timesteps_per_iteration=40, min_time_s_per_iteration=0)
        .debugging(seed=1)
        .training(
            train_batch_size=16,
            num_steps_sampled_before_learning_starts=40,
            replay_buffer_config={"type": type_, "capacity": 500, **keys},
            model=small,
        )
    )
    if kind is SACConfig:
        config.training(q_model_config=small, policy_model_config=small)
    return config


def two_agents(config: AlgorithmConfig) -> AlgorithmConfig:
    env = make_multi_agent(config.env)
    return config.environment(env, env_config={"num_agents": 2}).multi_agent(
        policies=set(POLICIES.values()),
        policy_mapping_fn=lambda agent_id, *args, **kwargs: POLICIES[agent_id],
    )


def train(config: AlgorithmConfig, iterations: int = 3) -> tuple[Any, dict]:
    """Trains; returns the buffer's statistics, and by policy the masses."""
    algo = config.build_algo()
    try:
        buffer = algo.local_replay_buffer
        assert type(buffer) is CLASS
        for _ in range(iterations):
            result = algo.train()
        masses = {
            policy_id: of_policy.get_priorities()["mass"]
            for policy_id, of_policy in buffer.replay_buffers.items()
        }
        for policy_id, of_policy in masses.items():
            stats = result["info"]["learner"][policy_id]["learner_stats"]
            assert np.isfinite(stats.get("mean_q", stats.get("mean_td_error", np.nan)))
            assert len(np.unique(of_policy)) > 10, "no priority was ever updated"
        return buffer.stats(), masses
    finally:
        algo.stop()


@pytest.mark.parametrize(
    ("kind", "type_", "keys"),
    [
        (DQNConfig, NAME, {"num_shards": 0}),
        (DQNConfig, CLASS, {"num_shards": 1}),
        pytest.param(SACConfig, NAME, {"num_shards": 2}, marks=pytest.mark.slow),
        (SACConfig, CLASS, {"num_shards": 0, "items_per_sample_call": 16}),
    ],
    ids=["DQN by name", "DQN by class, an actor", "SAC by name, two actors", "SAC by class"],
)
def test_an_algorithm_trains(kind: Any, type_: Any, keys: dict) -> None:
    stats, masses = train(old_stack(kind, type_, **keys))
    assert list(masses) == ["default_policy"]
    assert stats["policy_default_policy"]["added_count"] >= 120
    assert stats["policy_default_policy"]["sampled_count"] % 16 == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DQNConfig, SACConfig])
@pytest.mark.parametrize("num_shards", [0, 2])
def test_two_policies_train(kind: Any, num_shards: int) -> None:
    stats, masses = train(two_agents(old_stack(kind, NAME, num_shards=num_shards)))
    assert set(masses) == set(POLICIES.values())
    assert all(stats[f"policy_{p}"]["sampled_count"] >= 16 for p in masses)


def test_worker_side_priorities_arrive() -> None:
    """RLlib's policy computes them from the key that it reads in `replay_buffer_config`."""
    config = old_stack(
        DQNConfig, NAME, num_shards=0, worker_side_prioritization=True,
        prioritized_replay_alpha=1.0, prioritized_replay_eps=1e-6,
    ).training(num_steps_sampled_before_learning_starts=10**6)  # fmt: skip
    algo = config.build_algo()
    try:
        algo.train()
        buffer = algo.local_replay_buffer.replay_buffers["default_policy"]
        masses = buffer.get_priorities()["mass"]
        columns = buffer._ring.take(np.arange(len(masses)))
        np.testing.assert_allclose(masses, columns["weights"], rtol=1e-6)
        assert len(np.unique(masses)) > 10
    finally:
        algo.stop()


@pytest.mark.slow
def test_compressed_observations_train(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived, add = [], CLASS.add

    def watched(buffer: Any, batch: Any, **kwargs: Any) -> None:
        of_policy = batch.as_multi_agent()["default_policy"]
        arrived.extend(is_compressed(obs) for obs in of_policy["obs"])
        add(buffer, batch, **kwargs)

    monkeypatch.setattr(CLASS, "add", watched)
    config = old_stack(DQNConfig, NAME, num_shards=0).env_runners(compress_observations=True)
    stats, _ = train(config)
    assert len(arrived) >= 120
    assert all(arrived)
    assert stats["policy_default_policy"]["sampled_count"] >= 16


def test_a_misspelt_key_is_an_error_when_the_algorithm_is_built() -> None:
    with pytest.raises(TypeError, match="'itmes_per_sample_call', did you mean 'items_per_sam"):
        old_stack(DQNConfig, NAME, itmes_per_sample_call=16).build_algo()


def test_rllibs_own_class_does_not_build() -> None:
    """As the documents say: it needs the metaclass of ours."""
    with pytest.raises(TypeError, match="not iterable"):
        old_stack(DQNConfig, "MultiAgentPrioritizedReplayBuffer").build_algo()


@pytest.mark.slow
def test_a_checkpoint_holds_the_buffer(tmp_path: Path) -> None:
    config = old_stack(DQNConfig, NAME, num_shards=1)
    config.store_buffer_in_checkpoints = True
    algo, other = config.build_algo(), config.build_algo()
    try:
        algo.train()
        other.restore(algo.save(str(tmp_path)))
        before, after = (
            one.local_replay_buffer.replay_buffers["default_policy"].get_priorities()
            for one in (algo, other)
        )
        assert len(before["mass"]) >= 40
        for name, values in before.items():
            np.testing.assert_array_equal(after[name], values)
    finally:
        algo.stop()
        other.stop()


@pytest.mark.slow
def test_two_trials(tmp_path: Path) -> None:
    config = old_stack(DQNConfig, tune.grid_search([NAME, CLASS]), num_shards=1)
    results = tune.Tuner(
        DQN,
        param_space=config,
        run_config=tune.RunConfig(
            stop={"training_iteration": 2}, storage_path=str(tmp_path), verbose=0
        ),
    ).fit()
    assert not results.errors
    assert [result.metrics["training_iteration"] for result in results] == [2, 2]
    assert all("default_policy" in result.metrics["info"]["learner"] for result in results)
