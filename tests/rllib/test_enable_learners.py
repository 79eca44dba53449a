"""The TD error found at a row is the row's own for SAC and TQC, and for enabled configs, too.

As in test_rllib_learners: nothing is learned and nothing bootstrapped, so the TD error of a step
is its reward, less the small value of an untrained network.
"""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from learner_buffers import make_buffer
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.tune.registry import register_env
from reward_env import RewardNamesStep
from tqc_here import TQCConfig, needs_tqc
from update_watch import Watch

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer, enable

CONFIGS = {"DQN": DQNConfig, "SAC": SACConfig, "TQC": TQCConfig}


class ContinuousRewardNamesStep(RewardNamesStep):
    """For SAC and TQC."""

    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)


@pytest.fixture
def algorithm(request: pytest.FixtureRequest, ray_session: None) -> Iterator[Algorithm]:
    """An algorithm by name, enabled or not, with a number of learners."""
    name, enabled, num_learners = request.param
    register_env("reward_names_step", RewardNamesStep)
    register_env("continuous_reward_names_step", ContinuousRewardNamesStep)
    config = (
        CONFIGS[name]()
        .environment(("" if name == "DQN" else "continuous_") + "reward_names_step")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=3)
        .learners(num_learners=num_learners)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .reporting(min_sample_timesteps_per_iteration=0, min_time_s_per_iteration=0)
        .training(
            gamma=0.0,
            n_step=1,
            train_batch_size_per_learner=33 // max(1, num_learners),
            num_steps_sampled_before_learning_starts=60,
            replay_buffer_config={"type": AccPrioritizedEpisodeReplayBuffer, "num_shards": 0},
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


def case(name: str, enabled: bool, num_learners: int) -> Any:
    is_quick = (enabled, num_learners) == (True, 0) and name != "TQC"
    marks = [*([] if is_quick else [pytest.mark.slow]), *([needs_tqc] if name == "TQC" else [])]
    return pytest.param(
        (name, enabled, num_learners),
        marks=marks,
        id=f"{name}, {'enabled' if enabled else 'type only'}, {num_learners} learners",
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "algorithm",
    [
        *[case("DQN", True, n) for n in (0, 2, 3)],
        *[case("SAC", True, n) for n in (0, 1, 2, 4)],
        *[case("SAC", False, n) for n in (0, 2, 3)],
        *[case("TQC", True, n) for n in (0, 2)],
    ],
    indirect=True,
)
def test_td_errors_reach_their_rows(algorithm: Algorithm) -> None:
    for sample_format in ("rows", "episodes"):
        algorithm.local_replay_buffer = make_buffer(sample_format)
        watch = Watch(algorithm.local_replay_buffer)
        algorithm.local_replay_buffer.add(algorithm.env_runner.sample(num_timesteps=60))
        while watch.num_updates < 15:
            algorithm.train()
        masses = watch.masses()
        updated = sorted(watch.updated)
        assert len(updated) >= 50
        rewards = np.array([watch.rewards[key] for key in updated])
        errors = np.array([masses[key] for key in updated])
        assert np.corrcoef(rewards, errors)[0, 1] >= 0.999


def test_fewer_rows_than_learners() -> None:
    """RLlib asks for 2 // 4 rows for each learner; before that, an enabled config refuses."""
    config = DQNConfig().learners(num_learners=4).training(train_batch_size=2)
    with pytest.raises(ValueError, match="train_batch_size=2, num_learners=4"):
        enable(config).validate()
    with pytest.raises(ValueError, match=r"num_items: got 0.*num_learners"):
        make_buffer("rows").sample(num_items=config.total_train_batch_size)
