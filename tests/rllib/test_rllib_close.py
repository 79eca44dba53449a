"""close() ends a buffer and its actors; what comes after it is an error that says so."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from multi_agent_buffers import TYPE as MULTI_AGENT_TYPE
from multi_agent_episodes import make_multi
from processes import comes_true, runs
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.examples.envs.classes.multi_agent import MultiAgentCartPole
from rllib_episodes import make_episode

from rllib_per_acc import (
    AccMultiAgentPrioritizedEpisodeReplayBuffer,
    AccPrioritizedEpisodeReplayBuffer,
    enable,
)
from rllib_per_acc.shards import ReplayClosedError

CLASSES = (AccPrioritizedEpisodeReplayBuffer, AccMultiAgentPrioritizedEpisodeReplayBuffer)


def filled(class_: type, num_shards: int) -> Any:
    make: Callable[..., Any] = make_episode if class_ is CLASSES[0] else make_multi
    buffer = class_(100, num_shards=num_shards)
    buffer.add([make(n, 5, "terminated") for n in range(3)])
    buffer.sample(num_items=4)
    return buffer


def calls(buffer: Any) -> dict[str, Callable[[], object]]:
    """What can be asked of a buffer."""
    one = make_episode(5, 5) if isinstance(buffer, CLASSES[0]) else make_multi(5, 5)
    state = buffer.get_state()
    return {
        "add": lambda: buffer.add([one]),
        "sample": lambda: buffer.sample(num_items=4),
        "update": lambda: buffer.update_priorities(np.ones(4), "m1"),
        "metrics": buffer.get_metrics,
        "length": lambda: len(buffer),
        "episodes": buffer.get_num_episodes,
        "evicted": buffer.get_num_episodes_evicted,
        "steps": buffer.get_num_timesteps,
        "sampled": buffer.get_sampled_timesteps,
        "added": buffer.get_added_timesteps,
        "shards": buffer.get_shard_info,
        "priorities": buffer.get_priorities,
        "state": buffer.get_state,
        "set_state": lambda: buffer.set_state(state),
        "save": lambda: buffer.save_to_path("/nowhere"),
    }


@pytest.mark.parametrize("class_", CLASSES)
@pytest.mark.parametrize("num_shards", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_after_close_everything_is_an_error(
    class_: type, num_shards: int, request: pytest.FixtureRequest
) -> None:
    if num_shards:
        request.getfixturevalue("ray_session")
    buffer = filled(class_, num_shards)
    pids = [info["pid"] for info in buffer.get_shard_info()] if num_shards else []
    made = calls(buffer)
    buffer.close()
    buffer.close()
    for call in made.values():
        with pytest.raises(ReplayClosedError, match="after close"):
            call()
    buffer.close()
    assert comes_true(lambda: not any(map(runs, pids)))


@pytest.mark.parametrize("policies", [None, {"m1", "m2"}])
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.timeout(300)
def test_stop_ends_the_actors(ray_session: None, policies: Any, enabled: bool) -> None:
    """With a variable that still holds the algorithm; by the type alone `close` does it."""
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, rollout_fragment_length=8)
        .reporting(min_sample_timesteps_per_iteration=8, min_time_s_per_iteration=0)
        .training(
            num_steps_sampled_before_learning_starts=8,
            train_batch_size_per_learner=8,
            replay_buffer_config={"type": "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer"},
        )
    )
    if policies:
        config.environment(MultiAgentCartPole, env_config={"num_agents": 2})
        config.multi_agent(
            policies=policies, policy_mapping_fn=lambda agent_id, *_, **__: f"m{agent_id + 1}"
        ).training(replay_buffer_config={"type": MULTI_AGENT_TYPE})
    algorithm = (enable(config) if enabled else config).build_algo()
    algorithm.train()
    buffer = algorithm.local_replay_buffer
    pids = [info["pid"] for info in buffer.get_shard_info()]
    assert len(pids) == len(policies or [1])
    assert all(map(runs, pids))
    algorithm.stop()
    if not enabled:
        assert buffer.get_num_timesteps() == 8
        buffer.close()
    assert comes_true(lambda: not any(map(runs, pids)))
    with pytest.raises(ReplayClosedError):
        buffer.get_num_timesteps()
    algorithm.stop()
