"""Rows in one and in several actors: the same as in the process, drawn as from one buffer."""

import gc
import os
import signal
import time
from typing import Any

import numpy as np
import pytest
from old_stack_oracle import assert_same, sequences, steps
from scipy import stats

from rllib_per_acc import AccMultiAgentPrioritizedReplayBuffer, AccPrioritizedReplayBuffer
from rllib_per_acc.shards import ShardPlacementError

pytestmark = pytest.mark.usefixtures("ray_session")


def make(num_shards: int, capacity: int = 40, **keys: Any) -> AccPrioritizedReplayBuffer:
    keys = {"alpha": 0.6, "beta": 0.4, "seed": 3} | keys
    return AccPrioritizedReplayBuffer(capacity, num_shards=num_shards, **keys)


def marked(rng: np.random.Generator, numbers: Any) -> Any:
    """Time steps whose `actions` are these numbers."""
    batch = steps(rng, len(numbers))
    batch["actions"] = np.asarray(numbers)
    return batch


@pytest.mark.parametrize("unit", ["timesteps", pytest.param("sequences", marks=pytest.mark.slow)])
def test_one_actor_does_what_the_process_does(unit: str) -> None:
    rng = np.random.default_rng(0)
    make_batch = steps if unit == "timesteps" else sequences
    here, there = (make(n, storage_unit=unit) for n in (0, 1))
    for n in (3, 30, 17, 50):
        batch = make_batch(rng, n)
        weight = None if n == 30 else 0.5
        here.add(batch.copy(), weight=weight)
        there.add(batch.copy(), weight=weight)
        for beta in (None, 1.0):
            samples = [buffer.sample(7, beta=beta) for buffer in (here, there)]
            assert_same(*samples)
        for _ in range(3):
            assert_same(here.sample(1), there.sample(1))
        indexes = samples[0]["batch_indexes"][:4]
        for buffer in (here, there):
            buffer.update_priorities(indexes, [0.1, 2.0, 3.0, 4.0])
    assert here.stats() == there.stats()
    assert here.stats(debug=True)["reprio_mean"] == there.stats(debug=True)["reprio_mean"]
    np.testing.assert_array_equal(here._hit_count, there._hit_count)
    for one, other in zip(here._storage, there._storage, strict=True):
        assert_same(one, other)
    (info,) = there.get_shard_info()
    assert info["pid"] != os.getpid()
    assert info["rows"] == len(here)


def test_draws_from_several_actors_are_those_of_one_buffer() -> None:
    rng = np.random.default_rng(1)
    buffer = make(3, 90)
    for start in range(0, 90, 10):
        buffer.add(marked(rng, range(start, start + 10)))
    priorities = rng.exponential(size=90) ** 3 + 1e-3
    owner = {}  # which index a marked step has
    for _ in range(40):
        sample = buffer.sample(64)
        owner |= dict(zip(sample["batch_indexes"].tolist(), sample["actions"], strict=True))
    assert sorted(owner.values()) == list(range(90))
    indexes = np.array(list(owner))
    buffer.update_priorities(indexes, priorities)

    masses = priorities**0.6
    expected = dict(zip(indexes.tolist(), masses / masses.sum(), strict=True))
    drawn = [buffer.sample(500, beta=0.7) for _ in range(8)]
    drawn += [buffer.sample(1, beta=0.7) for _ in range(40)]
    highest = (90 * masses.min() / masses.sum()) ** -0.7
    for batch in drawn:
        for index, weight in zip(batch["batch_indexes"], batch["weights"], strict=True):
            assert weight == pytest.approx((90 * expected[index]) ** -0.7 / highest, rel=1e-9)
        assert [owner[i] for i in batch["batch_indexes"]] == batch["actions"].tolist()
    counts = np.bincount(np.concatenate([b["batch_indexes"] for b in drawn]), minlength=90)
    assert stats.chisquare(counts, [expected[i] * counts.sum() for i in range(90)]).pvalue > 1e-4
    assert buffer.stats()["sampled_count"] == 40 * 64 + 8 * 500 + 40
    assert buffer._hit_count.sum() == 40 * 64 + 8 * 500 + 40
    assert len(buffer.get_shard_info()) == 3


def test_new_steps_get_the_highest_priority_of_all_actors() -> None:
    rng = np.random.default_rng(1)
    buffer = make(2, 40, alpha=1.0)
    buffer.add(steps(rng, 4))
    buffer.update_priorities([0], [7.0])
    buffer.add(steps(rng, 4))
    buffer.add(steps(rng, 4))
    assert sorted(buffer.get_priorities()["mass"]) == [1.0] * 3 + [7.0] * 9


@pytest.mark.slow
def test_batches_fill_all_actors_and_the_oldest_are_overwritten() -> None:
    rng = np.random.default_rng(1)
    buffer = make(2, 41)
    for start in range(0, 200, 8):
        buffer.add(marked(rng, range(start, start + 8)))
    assert sorted(info["rows"] for info in buffer.get_shard_info()) == [20, 21]
    kept = [int(item["actions"][0]) for item in buffer._storage]
    assert len(kept) == 41
    assert min(kept) >= 200 - 41 - 16
    buffer.add(marked(rng, range(1000, 1100)))  # longer than all of them together
    assert min(int(item["actions"][0]) for item in buffer._storage) >= 1000


@pytest.mark.slow
def test_states_go_from_any_number_of_actors_to_any_other() -> None:
    rng = np.random.default_rng(2)
    source = make(2, 40)
    for start in range(0, 60, 6):
        source.add(marked(rng, range(start, start + 6)))
    source.update_priorities(np.arange(40), rng.exponential(size=40))
    source.sample(9)
    state = source.get_state()
    content = contents(source)
    for num_shards in (0, 1, 2, 3):
        other = make(num_shards, 40)
        other.set_state(state)
        assert contents(other) == pytest.approx(content)
        assert other.stats()["added_count"] == 60
        assert other.stats()["sampled_count"] == 9
        if num_shards == 2:
            assert_same(source.sample(20), other.sample(20))
    smaller = make(3, 12)
    smaller.set_state(state)
    kept = contents(smaller)
    assert len(kept) == 12
    assert min(kept) >= 40
    assert {number: content[number] for number in kept} == pytest.approx(kept)


def contents(buffer: AccPrioritizedReplayBuffer) -> dict[int, float]:
    """By the number of each step its mass."""
    found = buffer.get_priorities()
    columns = buffer._ring.take(found["batch_indexes"])
    return dict(zip(columns["actions"].tolist(), found["mass"].tolist(), strict=True))


@pytest.mark.slow
def test_policies_share_the_actors() -> None:
    rng = np.random.default_rng(2)
    buffer = AccMultiAgentPrioritizedReplayBuffer(40, num_shards=2, seed=1)
    for policy_id in ("a", "b"):
        for _ in range(3):
            buffer.replay_buffers[policy_id].add(steps(rng, 5))
    infos = buffer.get_shard_info()
    assert len({info["pid"] for info in infos}) == 2
    assert {info["policy_id"] for info in infos} == {"a", "b"}
    sample = buffer.sample(6)
    assert {policy: len(batch) for policy, batch in sample.policy_batches.items()} == {
        "a": 6, "b": 6,
    }  # fmt: skip


@pytest.mark.slow
def test_the_actors_start_at_first_use_and_end_with_the_buffer() -> None:
    buffer = make(1)
    assert "_ring" not in vars(buffer)
    buffer.add(steps(np.random.default_rng(0), 2))
    (info,) = buffer.get_shard_info()
    del buffer
    gc.collect()
    end = time.monotonic() + 30
    while os.path.exists(f"/proc/{info['pid']}") and time.monotonic() < end:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{info['pid']}")


def test_a_shard_that_cannot_be_placed_says_what_there_is() -> None:
    buffer = make(2, num_gpus_per_shard=1)
    with pytest.raises(ShardPlacementError, match="num_shards=2"):
        buffer.add(steps(np.random.default_rng(0), 2))


def test_an_error_in_an_actor_reaches_the_caller() -> None:
    rng = np.random.default_rng(0)
    buffer = make(1)
    buffer.add(steps(rng, 2))
    buffer.add(steps(rng, 2, unexpected=np.zeros(2)))
    with pytest.raises(ValueError, match="unexpected"):
        buffer.sample(2)
    assert len(buffer.sample(2)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("num_shards", [1, 2])
def test_sampling_goes_on_when_actors_die(num_shards: int) -> None:
    rng = np.random.default_rng(0)
    buffer = make(num_shards)
    for _ in range(4):
        buffer.add(steps(rng, 10))
    for round_ in range(3):
        sample = buffer.sample(8)
        infos = [info for info in buffer.get_shard_info() if info["is_up"]]
        for info in infos if round_ else infos[:1]:
            os.kill(info["pid"], signal.SIGKILL)
        buffer.update_priorities(sample["batch_indexes"], np.full(8, 2.0))
        buffer.add(steps(rng, 10))
        assert len(buffer.sample(8)) == 8
    infos = buffer.get_shard_info()
    assert sum(info["restarts"] for info in infos) >= 3
    assert sum(info["lost_steps"] for info in infos) >= 30
    assert buffer.stats()["sampled_count"] >= 8
