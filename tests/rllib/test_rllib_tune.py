"""Tune runs DQN with the buffer as class and as dotted string; each trial has its own settings."""

from pathlib import Path

from ray import tune
from ray.rllib.algorithms.dqn import DQN
from small_algorithms import NAME, small_dqn

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer


def test_two_trials(ray_session: None, tmp_path: Path) -> None:
    config = small_dqn(type=tune.grid_search([NAME, AccPrioritizedEpisodeReplayBuffer]))
    results = tune.Tuner(
        DQN,
        param_space=config,
        run_config=tune.RunConfig(
            stop={"training_iteration": 4}, storage_path=str(tmp_path), verbose=0
        ),
    ).fit()
    assert len(results) == 2
    assert not results.errors
    for result in results:
        assert result.metrics["training_iteration"] == 4
        assert result.metrics["replay_buffer"]["num_env_steps_added_lifetime"] >= 100
        assert "default_policy" in result.metrics["learners"]
