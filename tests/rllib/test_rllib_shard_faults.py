"""DQN goes on training while its shards are killed (R4)."""

import os
import random
import signal
import threading
import time

import pytest
from ray.rllib.algorithms.dqn import DQNConfig

pytestmark = [pytest.mark.usefixtures("ray_session"), pytest.mark.slow]


def make_algorithm(**options):
    buffer = {
        "type": "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer",
        "capacity": 5_000,
        "alpha": 0.6,
        "beta": 0.4,
    }
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .training(
            replay_buffer_config=buffer | options,
            train_batch_size_per_learner=32,
            num_steps_sampled_before_learning_starts=100,
            n_step=3,
            training_intensity=4.0,
        )
        .reporting(min_sample_timesteps_per_iteration=40, min_time_s_per_iteration=0)
    )
    return config.build_algo()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "options",
    [{"num_shards": 1}, {"num_shards": 1, "prefetch": 2}, {"num_shards": 3, "prefetch": 1}],
    ids=str,
)
def test_training_goes_on_while_shards_are_killed(options):
    algorithm = make_algorithm(**options)
    buffer = algorithm.local_replay_buffer
    stop, killed = threading.Event(), []
    pids = {i: info["pid"] for i, info in enumerate(buffer.get_shard_info())}
    dice = random.Random(1)

    def kill_at_random_moments():
        """Ten times; a shard that has been killed is not killed again before it is back."""
        while len(killed) < 10 and not stop.is_set():
            time.sleep(0.2 + dice.random() * 2)
            connections = buffer._client._group.connections
            pid = connections[dice.randrange(len(connections))].where["pid"]
            if pid not in killed:
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

    for _ in range(4):
        algorithm.train()
    killer = threading.Thread(target=kill_at_random_moments)
    killer.start()
    end = time.monotonic() + 400
    try:
        while killer.is_alive() and time.monotonic() < end:
            algorithm.train()
    finally:
        stop.set()
        killer.join()
    assert len(killed) == 10
    steps = 0
    while steps < 400 and time.monotonic() < end + 60:  # it is filled again
        result = algorithm.train()
        steps = buffer.get_num_timesteps()
    assert steps >= 400
    infos = buffer.get_shard_info()
    assert sum(info["restarts"] for info in infos) == 10
    assert sum(info["lost_steps"] for info in infos) > 0
    assert not {info["pid"] for info in infos} & set(killed)
    assert pids.keys() == set(range(options["num_shards"]))
    assert result["learners"]["default_policy"]["num_module_steps_trained"] > 0
    lifetime = result["num_env_steps_sampled_lifetime"]
    assert buffer.get_added_timesteps() >= lifetime - sum(info["lost_steps"] for info in infos)
    algorithm.stop()
