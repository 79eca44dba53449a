"""With several modules and any number of learners the TD error found at a row is the row's own.

As in test_rllib_learners: nothing is learned and nothing bootstrapped, so the TD error of a step
is its reward, less the small value of an untrained network.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from multi_agent_buffers import TYPE
from multi_agent_reward_env import AGENTS, RewardsNameSteps, module_of
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.tune.registry import register_env
from update_watch import Watch

from rllib_per_acc import AccMultiAgentPrioritizedEpisodeReplayBuffer, enable

MODULES = ("m1", "m2")


@pytest.fixture
def algorithm(request: pytest.FixtureRequest, ray_session: None) -> Iterator[Algorithm]:
    """An algorithm by name, enabled or not, with a number of learners and of actors per module."""
    name, enabled, num_learners, num_shards = request.param
    register_env("rewards_name_steps", RewardsNameSteps)
    config = (
        {"DQN": DQNConfig, "SAC": SACConfig}[name]()
        .environment("rewards_name_steps", env_config={"continuous": name == "SAC"})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=1)
        .multi_agent(policies=set(MODULES), policy_mapping_fn=module_of)
        .learners(num_learners=num_learners)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .reporting(min_sample_timesteps_per_iteration=0, min_time_s_per_iteration=0)
        .training(
            gamma=0.0,
            n_step=1,
            train_batch_size_per_learner=33 // max(1, num_learners),
            num_steps_sampled_before_learning_starts=60,
            replay_buffer_config={
                "type": AccMultiAgentPrioritizedEpisodeReplayBuffer if name == "SAC" else TYPE,
                "num_shards": num_shards,
                "beta": 0.4,
            },
        )
        .debugging(seed=1)
    )
    if name == "DQN":
        config.training(lr=0.0)
    else:
        config.training(lr=None, actor_lr=0.0, critic_lr=0.0, alpha_lr=0.0)
    algo = (enable(config) if enabled else config).build_algo()
    yield algo
    algo.stop()


def case(name: str, enabled: bool, num_learners: int, num_shards: int = 0) -> Any:
    return pytest.param(
        (name, enabled, num_learners, num_shards),
        marks=() if (name, num_learners) == ("DQN", 0) and not num_shards else pytest.mark.slow,
        id=f"{name}, {'enabled' if enabled else 'type only'}, {num_learners} learners, "
        f"{num_shards} shards",
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "algorithm",
    [
        case("DQN", False, 0),
        case("DQN", True, 0, 1),
        case("DQN", False, 2),
        case("DQN", True, 3, 2),
        case("SAC", False, 0, 1),
        case("SAC", True, 2),
    ],
    indirect=True,
)
def test_td_errors_reach_their_rows(algorithm: Algorithm) -> None:
    options = {"num_shards": algorithm.config.replay_buffer_config["num_shards"]}
    for sample_format in ("rows", "episodes"):
        algorithm.local_replay_buffer = AccMultiAgentPrioritizedEpisodeReplayBuffer(
            2000, alpha=1.0, seed=3, sample_format=sample_format, **options
        )
        watch = Watch(algorithm.local_replay_buffer)
        algorithm.local_replay_buffer.add(algorithm.env_runner.sample(num_timesteps=60))
        while watch.num_updates < 20:
            algorithm.train()
        held = algorithm.local_replay_buffer.get_priorities()
        modules = dict(zip(held["agent_id"], held["module_id"], strict=True))
        assert modules == {agent_id: module_of(agent_id) for agent_id in AGENTS}
        masses = watch.masses()
        updated = sorted(watch.updated)
        assert len(updated) >= 50
        rewards = np.array([watch.rewards[key] for key in updated])
        errors = np.array([masses[key] for key in updated])
        assert np.corrcoef(rewards, errors)[0, 1] >= 0.999
        # Steps are 10 apart, agents 3.
        np.testing.assert_allclose(errors, rewards, atol=1.4)
