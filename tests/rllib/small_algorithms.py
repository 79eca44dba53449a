"""Algorithms that have learned after one short iteration."""

from typing import Any

from ray.rllib.algorithms.dqn import DQNConfig

NAME = "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer"


def small_dqn(env: Any = "CartPole-v1", **keys: Any) -> DQNConfig:
    return (
        DQNConfig()
        .environment(env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .rl_module(model_config={"fcnet_hiddens": [16]})
        .reporting(min_sample_timesteps_per_iteration=40, min_time_s_per_iteration=0)
        .training(
            train_batch_size_per_learner=16,
            num_steps_sampled_before_learning_starts=60,
            replay_buffer_config={
                "type": NAME, "capacity": 500, "alpha": 0.6, "beta": 0.4, **keys,
            },
        )
        .debugging(seed=1)
    )  # fmt: skip
