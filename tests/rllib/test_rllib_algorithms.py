"""DQN trains with the buffer: class and dotted string, in process and in an actor."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.tune.registry import register_env
from small_algorithms import NAME, small_dqn

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

pytestmark = pytest.mark.usefixtures("ray_session")


def train(config: DQNConfig, iterations: int = 6) -> tuple[DQN, dict]:
    algo = config.build_algo()
    try:
        for _ in range(iterations):
            result = algo.train()
    finally:
        algo.stop()
    return algo, result


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (NAME, {}),
        (AccPrioritizedEpisodeReplayBuffer, {"num_shards": 0}),
        (AccPrioritizedEpisodeReplayBuffer, {"sample_format": "episodes"}),
        (NAME, {"num_shards": 0, "sampling": "stratified", "weight_normalization": "batch"}),
    ],
    ids=["string", "class in process", "class and episodes", "string with options"],
)
def test_dqn_trains(kind: Any, keys: dict) -> None:
    config = small_dqn(type=kind, **keys)
    algo = config.build_algo()
    try:
        buffer = algo.local_replay_buffer
        assert type(buffer) is AccPrioritizedEpisodeReplayBuffer
        assert buffer.capacity == 500
        for _ in range(6):
            result = algo.train()
        assert buffer.get_num_timesteps() > 100
        assert buffer.get_sampled_timesteps() > 16
        masses = buffer.get_priorities()["mass"]
        assert len(np.unique(masses)) > 10, "no priority was ever updated"
    finally:
        algo.stop()
    metrics = result["replay_buffer"]
    assert metrics["num_env_steps_stored"] > 100
    assert metrics["num_env_steps_added_lifetime"] > 100
    assert np.isfinite(result["learners"]["default_policy"]["qf_loss"])


@pytest.mark.parametrize("n_step", [3, (1, 3)])
def test_dqn_trains_with_longer_steps(n_step: Any) -> None:
    config = small_dqn(num_shards=0).training(n_step=n_step)
    _, result = train(config)
    expected = 3 if n_step == 3 else pytest.approx(2, abs=0.9)
    assert result["replay_buffer"]["actual_n_step"] == expected


@pytest.mark.slow
def test_dqn_trains_on_a_range_of_steps_from_a_remote_env_runner() -> None:
    config = small_dqn().training(n_step=(1, 3))
    config.env_runners(num_env_runners=1, rollout_fragment_length="auto")
    _, result = train(config)
    assert result["num_env_steps_sampled_lifetime"] > 100
    assert result["replay_buffer"]["actual_n_step"] == pytest.approx(2, abs=0.9)
    assert np.isfinite(result["learners"]["default_policy"]["qf_loss"])


def test_a_misspelt_key_is_an_error_when_the_algorithm_is_built() -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        small_dqn(smaple_format="rows").build_algo()
    assert "'smaple_format'" in str(error.value)
    assert "'sample_format'" in str(error.value)


def test_a_wrong_value_is_an_error_when_the_algorithm_is_built() -> None:
    with pytest.raises(ValueError, match="capacity"):
        small_dqn(capacity=0).build_algo()


class NestedEnv(gym.Env):
    """Observations of several kinds in a Dict."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Dict(
        {
            "position": gym.spaces.Box(-1, 1, (2,), np.float32),
            "door": gym.spaces.Discrete(4),
            "both": gym.spaces.Tuple((gym.spaces.Discrete(2), gym.spaces.Box(0, 1, (1,)))),
        }
    )

    def __init__(self, config: Any = None) -> None:
        self.observation_space.seed(0)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        self._left = 7
        return self.observation_space.sample(), {}

    def step(self, action: int) -> tuple:
        self._left -= 1
        return self.observation_space.sample(), float(action), self._left == 0, False, {}


def test_dqn_trains_on_nested_observations() -> None:
    register_env("nested", NestedEnv)
    config = small_dqn("nested", num_shards=0).env_runners(
        env_to_module_connector=lambda env, spaces, device: FlattenObservations()
    )
    _, result = train(config)
    assert np.isfinite(result["learners"]["default_policy"]["qf_loss"])


def test_the_same_seed_trains_the_same() -> None:
    def final_loss() -> float:
        _, result = train(small_dqn(num_shards=0, seed=5), 4)
        return result["learners"]["default_policy"]["qf_loss"]

    assert final_loss() == final_loss()
