"""With any number of learners the TD error found at a row is the row's own.

Nothing is learned (lr 0) and nothing bootstrapped (gamma 0), so the TD error of a step is its
reward, less the small value of an untrained network.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from learner_buffers import make_buffer
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.tune.registry import register_env
from reward_env import RewardNamesStep
from update_watch import Watch


@pytest.fixture
def algorithm(request: pytest.FixtureRequest, ray_session: None) -> Iterator[DQN]:
    """DQN with a number of learners, an n_step and a batch size for each learner."""
    num_learners, n_step, per_learner = request.param
    register_env("reward_names_step", RewardNamesStep)
    config = (
        DQNConfig()
        .environment("reward_names_step")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=3)
        .learners(num_learners=num_learners)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .reporting(min_sample_timesteps_per_iteration=0, min_time_s_per_iteration=0)
        .training(
            lr=0.0,
            gamma=0.0,
            n_step=n_step,
            train_batch_size_per_learner=per_learner,
            num_steps_sampled_before_learning_starts=60,
            replay_buffer_config={
                "type": "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer",
                "num_shards": 0,
            },
        )
        .debugging(seed=1)
    )
    algo = config.build_algo()
    yield algo
    algo.stop()


def learners(num: int, n_step: Any, per_learner: int) -> Any:
    """A parameter; many learners take long to start."""
    return pytest.param(
        (num, n_step, per_learner),
        marks=() if num in (0, 2) else pytest.mark.slow,
        id=f"{num} learners, n_step {n_step}",
    )


@pytest.mark.parametrize(
    "algorithm",
    [
        learners(0, 1, 33),
        learners(0, (1, 3), 23),
        learners(1, 1, 33),
        learners(2, 1, 17),
        learners(3, 1, 11),
        learners(4, 1, 7),
    ],
    indirect=True,
)
def test_td_errors_reach_their_rows(algorithm: DQN) -> None:
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
        np.testing.assert_allclose(errors, rewards, atol=5.0)  # rewards are 10 apart
