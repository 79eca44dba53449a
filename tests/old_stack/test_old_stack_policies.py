"""Policies of any id come and go while an old-stack buffer is in use, and buffers end."""

import gc
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from old_stack_oracle import steps
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.env.multi_agent_env import make_multi_agent
from ray.rllib.policy.sample_batch import MultiAgentBatch

from rllib_per_acc import AccMultiAgentPrioritizedReplayBuffer, AccPrioritizedReplayBuffer
from rllib_per_acc.prioritized_ring import PrioritizedRing
from rllib_per_acc.shards import ReplayClosedError

OURS = "rllib_per_acc.AccMultiAgentPrioritizedReplayBuffer"
IDS = [1, "1", (1, "x"), np.int64(7), "a/b.c", "l" * 1_000_000]


def of(ids: list[Any], n: int = 6, seed: int = 0) -> MultiAgentBatch:
    rng = np.random.default_rng(seed)
    return MultiAgentBatch({id_: steps(rng, n) for id_ in ids}, n)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"


@pytest.mark.parametrize("num_shards", [0, 1])
def test_ids_are_anything(num_shards: int, request: pytest.FixtureRequest) -> None:
    if num_shards:
        request.getfixturevalue("ray_session")
    buffer = AccMultiAgentPrioritizedReplayBuffer(100, num_shards=num_shards, seed=3)
    for i, id_ in enumerate(IDS):
        buffer.add(of([id_], 4 + i))
    assert [len(buffer.replay_buffers[id_]) for id_ in IDS] == [4, 5, 6, 7, 8, 9]
    sample = buffer.sample(5)
    assert [(type(p), p) for p in sample.policy_batches] == [(type(p), p) for p in IDS]
    buffer.update_priorities({
        id_: (batch["batch_indexes"], np.full(5, 2.0))
        for id_, batch in sample.policy_batches.items()
    })  # fmt: skip
    other = AccMultiAgentPrioritizedReplayBuffer(100, num_shards=num_shards)
    other.set_state(buffer.get_state())
    assert [info["policy_id"] for info in other.get_shard_info()] == IDS
    for id_ in IDS:
        mine, theirs = (b.replay_buffers[id_].get_priorities() for b in (buffer, other))
        np.testing.assert_equal(mine, theirs)
    buffer.close()
    other.close()


@pytest.mark.parametrize("num_shards", [0, 1])
def test_a_policy_takes_its_items_with_it(num_shards: int, request: pytest.FixtureRequest) -> None:
    if num_shards:
        request.getfixturevalue("ray_session")
    buffer = AccMultiAgentPrioritizedReplayBuffer(100, num_shards=num_shards)
    buffer.add(of(["a", "b"]))
    buffer.remove_policy("b")
    buffer.remove_policy("c")
    assert list(buffer.sample(4).policy_batches) == ["a"]
    assert len(buffer) == 6
    with pytest.raises(ValueError, match=r"got the policy 'b', expected one of \['a'\]"):
        buffer.update_priorities({"b": (np.zeros(1, int), np.ones(1))})
    buffer.add(of(["b"], 3))
    assert len(buffer.replay_buffers["b"]) == 3
    for policy_id in "ab":
        buffer.remove_policy(policy_id)
    assert len(buffer) == 0
    buffer.add(of(["b"], 2))
    assert len(buffer) == 2
    buffer.close()


def test_memory_returns_to_its_baseline() -> None:
    def rings() -> int:
        gc.collect()
        return sum(type(thing) is PrioritizedRing for thing in gc.get_objects())

    buffer = AccMultiAgentPrioritizedReplayBuffer(100, num_shards=0)
    buffer.add(of(["main"]))
    before = rings()
    for n in range(20):
        buffer.add(of([f"opponent {n}"]))
        buffer.remove_policy(f"opponent {n}")
    assert rings() == before


@pytest.mark.parametrize("num_shards", [0, 1])
def test_after_close_everything_is_an_error(
    num_shards: int, request: pytest.FixtureRequest
) -> None:
    if num_shards:
        request.getfixturevalue("ray_session")
    several = AccMultiAgentPrioritizedReplayBuffer(100, num_shards=num_shards)
    several.add(of(["a", "b"]))
    one = AccPrioritizedReplayBuffer(100, num_shards=num_shards)
    one.add(steps(np.random.default_rng(0), 6))
    one.sample(1)
    never_used = AccPrioritizedReplayBuffer(100, num_shards=num_shards)
    pids = [i["pid"] for b in (one, several) for i in b.get_shard_info()] if num_shards else []
    for buffer in (several, one, never_used):
        buffer.close()
        buffer.close()
        batch = of(["a"]) if buffer is several else steps(np.random.default_rng(0), 6)
        for call in (
            lambda: buffer.add(batch),  # noqa: B023 - called at once
            lambda: buffer.sample(4),  # noqa: B023
            buffer.get_state,
            buffer.stats,
            buffer.get_shard_info,
            buffer.__len__,
        ):
            with pytest.raises(ReplayClosedError, match="after close"):
                call()
    end = time.monotonic() + 60
    while not all(map(gone, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    assert all(map(gone, pids))


@pytest.mark.timeout(300)
def test_training_goes_on_after_remove_policy(ray_session: None) -> None:
    config = (
        DQNConfig()
        .api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
        .environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 2})
        .env_runners(num_env_runners=0, rollout_fragment_length=4)
        .reporting(min_sample_timesteps_per_iteration=40, min_time_s_per_iteration=0)
        .multi_agent(
            policies={"main", "opponent"},
            policy_mapping_fn=lambda agent, *_, **__: ("main", "opponent")[agent],
        )
        .training(
            train_batch_size=16,
            num_steps_sampled_before_learning_starts=40,
            replay_buffer_config={"type": OURS, "capacity": 5000, "num_shards": 0},
            model={"fcnet_hiddens": [8]},
        )
    )
    algorithm = config.build_algo()
    algorithm.train()
    buffer = algorithm.local_replay_buffer
    assert set(buffer.replay_buffers) == {"main", "opponent"}

    def only_main(*_: Any, **__: Any) -> str:
        return "main"

    algorithm.env_runner.set_policy_mapping_fn(only_main)
    added = -1
    while added != (added := buffer.replay_buffers["opponent"].stats()["added_count"]):
        for _ in range(5):  # RLlib's sampler needs the policies of the episodes under way
            algorithm.train()
    algorithm.remove_policy("opponent", policy_mapping_fn=only_main, policies_to_train=["main"])
    for _ in range(2):
        algorithm.train()
        assert list(buffer.replay_buffers) == ["main"]
    algorithm.stop()
    buffer.close()
