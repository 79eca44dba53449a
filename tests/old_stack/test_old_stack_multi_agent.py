"""The multi-agent buffer against RLlib's: policies, worker-side priorities, eps, lockstep."""

from typing import Any

import numpy as np
import pytest
from old_stack_oracle import (
    MAKERS,
    assert_same,
    episodes,
    multi_agent_pair,
    sequences,
    steps,
)
from ray.rllib.policy.sample_batch import DEFAULT_POLICY_ID, MultiAgentBatch, SampleBatch
from ray.rllib.utils.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer

from rllib_per_acc import AccMultiAgentPrioritizedReplayBuffer


def of_two(rng: np.random.Generator, n: int = 4, make: Any = steps) -> MultiAgentBatch:
    return MultiAgentBatch({"a": make(rng, n), "b": make(rng, n + 1)}, n)


def follow(ours: Any, theirs: Any, sample: MultiAgentBatch) -> None:
    """Makes RLlib's buffers draw what is in this sample."""
    for policy_id, batch in sample.policy_batches.items():
        buffer, drawn, at = theirs.replay_buffers[policy_id], [], 0
        while at < len(batch["batch_indexes"]):
            drawn.append(int(batch["batch_indexes"][at]))
            item = buffer._storage[drawn[-1]]
            at += item.max_seq_len if item.zero_padded else item.count
        buffer._sample_proportional = lambda num_items, drawn=drawn: drawn


def counters(buffer: Any) -> dict:
    """What stats say, without times and sizes."""
    stats = buffer.stats()
    assert stats.keys() >= {"add_batch_time_ms", "replay_time_ms", "update_priorities_time_ms"}
    return {
        policy: {key: value for key, value in of_policy.items() if key != "est_size_bytes"}
        for policy, of_policy in stats.items()
        if policy.startswith("policy_")
    }


@pytest.mark.parametrize("unit", MAKERS)
def test_operation_by_operation(unit: str) -> None:
    rng = np.random.default_rng(0)
    keys = {"replay_sequence_length": 4} if unit == "sequences" else {}
    make = MAKERS[unit]
    if unit == "sequences":  # RLlib wants episode ids to cut sequences

        def make(rng: np.random.Generator, n: int) -> SampleBatch:
            batch = sequences(rng, n)
            batch["eps_id"] = np.zeros(n, np.int64)
            return batch

    ours, theirs = multi_agent_pair(
        capacity=30, storage_unit=unit, prioritized_replay_alpha=0.7, prioritized_replay_beta=0.5,
        prioritized_replay_eps=0.01, **keys,
    )  # fmt: skip
    for round_ in range(12):
        batch = of_two(rng, 6, make)
        weight = {"weight": 2.5} if round_ == 4 else {}
        for buffer in (ours, theirs):
            buffer.add(batch, **weight)
        assert len(ours) == len(theirs)
        for arguments in ({"num_items": 3}, {"num_items": 1}, {"num_items": 2, "policy_id": "b"}):
            sample = ours.sample(**arguments)
            follow(ours, theirs, sample)
            assert_same(sample, theirs.sample(**arguments))
        for policy_id in ("a", "b"):
            indexes = np.arange(min(len(theirs.replay_buffers[policy_id]), 5))
            errors = rng.normal(size=len(indexes))
            for buffer in (ours, theirs):
                buffer.update_priorities({policy_id: (indexes, errors)})
            masses = ours.replay_buffers[policy_id].get_priorities()["mass"]
            tree = theirs.replay_buffers[policy_id]._it_sum
            assert masses.tolist() == [tree[i] for i in range(len(masses))]
        assert counters(ours) == counters(theirs)
    assert counters(ours)["policy_a"]["eviction_started"]


def test_each_step_gets_the_weight_that_came_with_it() -> None:
    buffer, theirs = multi_agent_pair(capacity=30, prioritized_replay_alpha=0.5)
    rng = np.random.default_rng(0)
    weights = np.array([0.25, 4.0, 9.0])
    for one in (buffer, theirs):
        one.add(steps(rng, 3, weights=weights))
    masses = buffer.replay_buffers[DEFAULT_POLICY_ID].get_priorities()["mass"]
    assert masses.tolist() == [0.5, 2.0, 3.0]
    tree = theirs.replay_buffers[DEFAULT_POLICY_ID]._it_sum
    assert [tree[i] for i in range(3)] == [0.5] * 3, "RLlib gives each step its own by now"
    buffer.add(steps(rng, 2, weights=np.ones(2)), weight=16.0)
    masses = buffer.replay_buffers[DEFAULT_POLICY_ID].get_priorities()["mass"]
    assert masses[3:].tolist() == [4.0, 4.0]


def test_an_episode_gets_the_mean_of_the_weights_that_came_with_it() -> None:
    rng = np.random.default_rng(0)
    buffer, _ = multi_agent_pair(capacity=30, prioritized_replay_alpha=1.0, storage_unit="episodes")
    batch = episodes(rng, 20)
    batch["weights"] = rng.random(20)
    buffer.add(batch)
    expected = [
        np.mean(part["weights"]) for part in batch.split_by_episode() if part["terminateds"][-1]
    ]
    masses = buffer.replay_buffers[DEFAULT_POLICY_ID].get_priorities()["mass"]
    assert len(masses) > 3
    np.testing.assert_allclose(masses, expected, rtol=1e-12)


def test_lockstep_is_not_prioritized_as_in_rllib() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = multi_agent_pair(capacity=30, replay_mode="lockstep")
    ids = {"eps_id": np.zeros(4, np.int64), "t": np.arange(4), "agent_index": np.zeros(4, np.int64)}
    batch = MultiAgentBatch({p: steps(rng, 4, **ids) for p in ("a", "b")}, 4)
    for buffer in (ours, theirs):
        buffer.add(batch, weight=3.0)
    assert len(ours) == len(theirs) == 4
    sample = ours.sample(6)
    assert set(sample.policy_batches) == {"a", "b"}
    assert {len(one) for one in sample.policy_batches.values()} == {6}
    assert "weights" not in sample["a"]
    assert counters(ours)["policy___all__"] == counters(theirs)["policy___all__"] | {
        "sampled_count": 6
    }


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_other_underlying_buffers_are_rllibs(kind: type) -> None:
    config = {"type": kind, "capacity": 9, "storage_unit": "timesteps"} | (
        {"alpha": 0.5, "beta": 0.5} if kind is PrioritizedReplayBuffer else {}
    )
    buffer, _ = multi_agent_pair(capacity=30, underlying_buffer_config=config)
    buffer.add(of_two(np.random.default_rng(0), 4))
    assert type(buffer.replay_buffers["a"]) is kind
    assert len(buffer.sample(3)["b"]) == 3


def test_states_pass_between_both() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = multi_agent_pair(capacity=10)
    for _ in range(4):
        batch = of_two(rng, 3)
        for buffer in (ours, theirs):
            buffer.add(batch)
    errors = rng.normal(size=9)
    for buffer in (ours, theirs):
        buffer.update_priorities({"a": (np.arange(9), errors)})
    restored, others = multi_agent_pair(capacity=10)
    restored.set_state(theirs.get_state())
    state = ours.get_state()
    for of_policy in state["replay_buffers"].values():
        of_policy["_storage"] = of_policy["_storage"].timeslices(1)
    others.set_state(state)
    assert counters(restored) == counters(others) == counters(ours)
    for policy_id in ("a", "b"):
        pairs = zip(
            restored.replay_buffers[policy_id]._storage,
            others.replay_buffers[policy_id]._storage,
            strict=True,
        )
        for one, other in pairs:
            assert_same(one, other)
    masses = restored.replay_buffers["a"].get_priorities()["mass"]
    tree = others.replay_buffers["a"]._it_sum
    assert masses.tolist() == [tree[i] for i in range(len(masses))]
    for buffer in (restored, others):  # and go on alike
        buffer.add(of_two(np.random.default_rng(5), 7))
    assert counters(restored) == counters(others)


def test_wrong_priorities_change_nothing() -> None:
    rng = np.random.default_rng(0)
    buffer, _ = multi_agent_pair(capacity=10)
    buffer.add(of_two(rng))
    before = buffer.replay_buffers["a"].get_priorities()["mass"].tolist()
    for policy_id, indexes, errors, error, match in (
        ("c", [0], [1.0], ValueError, "'c'"),
        ("a", [0, 1], [1.0], ValueError, r"shape \(1,\)"),
        ("a", [0, 9], [1.0, 1.0], IndexError, "9 at position 1"),
        ("a", [0, 1], [1.0, np.nan], ValueError, "nan at position 1"),
        ("a", [0.5], [1.0], TypeError, "float64"),
    ):
        with pytest.raises(error, match=match):
            buffer.update_priorities({policy_id: (np.array(indexes), np.array(errors))})
    assert buffer.replay_buffers["a"].get_priorities()["mass"].tolist() == before
    assert "c" not in buffer.replay_buffers


def test_a_td_error_of_zero_without_eps_does_not_hide_a_step() -> None:
    buffer, _ = multi_agent_pair(
        capacity=10, prioritized_replay_eps=0.0, prioritized_replay_alpha=1.0
    )
    buffer.add(steps(np.random.default_rng(0), 2))
    buffer.update_priorities({DEFAULT_POLICY_ID: (np.array([0]), np.array([0.0]))})
    masses = buffer.replay_buffers[DEFAULT_POLICY_ID].get_priorities()["mass"]
    assert masses.tolist() == [1e-12, 1.0]


@pytest.mark.parametrize(
    ("keys", "error", "match"),
    [
        ({"prioritized_replay_alhpa": 0.5}, TypeError, "'prioritized_replay_alpha'"),
        ({"alpha": 0.5}, TypeError, "'alpha'"),
        ({"capacity": 0}, ValueError, "capacity"),
        ({"capacity": 1.5}, TypeError, "capacity"),
        ({"storage_unit": "steps"}, ValueError, "storage_unit: got 'steps'"),
        ({"prioritized_replay_alpha": -1.0}, ValueError, "alpha"),
        ({"prioritized_replay_eps": -1e-6}, ValueError, "prioritized_replay_eps"),
        ({"prioritized_replay_beta": "0.4"}, TypeError, "beta"),
        ({"num_shards": -1}, ValueError, "num_shards"),
        ({"items_per_sample_call": 0}, ValueError, "items_per_sample_call"),
        ({"prefetch": 2}, ValueError, "prefetch"),
        ({"replay_mode": "both"}, ValueError, "both"),
    ],
)
def test_wrong_keys_and_values_are_errors(keys: dict, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        AccMultiAgentPrioritizedReplayBuffer(**{"num_shards": 0} | keys)


def test_keys_that_mean_nothing_to_a_buffer_are_accepted() -> None:
    AccMultiAgentPrioritizedReplayBuffer(
        type="ignored", no_local_replay_buffer=True, worker_side_prioritization=True,
        replay_buffer_shards_colocated_with_driver=True,
    )  # fmt: skip
