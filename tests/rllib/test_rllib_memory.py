"""With `enable`, what a full buffer takes is known at build."""

import logging

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.algorithms.dqn import DQNConfig

import rllib_per_acc
from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer
from rllib_per_acc.memory_estimate import machine_memory

IMAGES = gym.spaces.Box(0, 255, (84, 84, 4), np.uint8)


def config(**options):
    base = DQNConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    return rllib_per_acc.enable(base, num_shards=0, **options)


def test_an_estimate_is_logged_at_build(ray_session, caplog):
    with caplog.at_level(logging.INFO, "rllib_per_acc"):
        algorithm = config(capacity=12_345).build_algo()
    algorithm.stop()
    assert "A full replay of 12345 steps takes about" in caplog.text


def test_an_impossible_capacity_is_an_error_at_build(ray_session):
    with pytest.raises(ValueError, match="capacity: got 1000000000000 steps"):
        config(capacity=10**12).build_algo()


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ({}, False),
        ({"frame_stack": 4}, True),
        ({"num_shards": 4}, False),
        ({"num_shards": 4, "shard_placement": "spread"}, True),
    ],
)
def test_what_a_machine_has_to_hold(options, fits, monkeypatch):
    # The check is about the options; shards would be started for nothing.
    monkeypatch.setattr("rllib_per_acc.rllib.episode_buffer.replay_client", lambda *_: None)
    capacity = 2 * machine_memory() // 84 // 84 // 4
    buffer = AccPrioritizedEpisodeReplayBuffer(capacity, **{"num_shards": 0} | options)
    if fits:
        buffer.check_memory(IMAGES, gym.spaces.Discrete(4))
    else:
        with pytest.raises(ValueError, match="capacity"):
            buffer.check_memory(IMAGES, gym.spaces.Discrete(4))
