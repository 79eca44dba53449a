"""The buffer of one policy: draws, single items, what comes in and out, refusals, states."""

import random
from typing import Any

import numpy as np
import pytest
from old_stack_oracle import Pair, assert_same, sequences, steps
from ray.rllib.policy.sample_batch import SampleBatch
from ray.rllib.utils.replay_buffers import PrioritizedReplayBuffer
from scipy import stats

from rllib_per_acc import AccPrioritizedReplayBuffer


def make(capacity: int = 20, **keys: Any) -> AccPrioritizedReplayBuffer:
    return AccPrioritizedReplayBuffer(capacity, **{"alpha": 0.6, "num_shards": 0, "seed": 1} | keys)


class Shared:
    """The random numbers of RLlib's `random` for our buffer."""

    bit_generator = np.random.PCG64()

    def random(self, n: int) -> np.ndarray:
        return np.array([random.random() for _ in range(n)])


@pytest.mark.parametrize("singly", [False, True])
def test_the_same_random_numbers_draw_the_same(singly: bool) -> None:
    rng = np.random.default_rng(0)
    ours, theirs = make(100), PrioritizedReplayBuffer(100, alpha=0.6)
    ours._ring.rng = Shared()  # type: ignore[attr-defined]
    batch = steps(rng, 70)
    for buffer in (ours, theirs):
        buffer.add(batch)
        buffer.update_priorities(np.arange(70), np.linspace(0.1, 5, 70))
    drawn = []
    for buffer in (ours, theirs):
        random.seed(4)
        if singly:
            parts = [buffer.sample(1, beta=0.5)["batch_indexes"] for _ in range(40)]
            drawn.append(np.concatenate(parts).tolist())
        else:
            drawn.append(buffer.sample(40, beta=0.5)["batch_indexes"].tolist())
    assert drawn[0] == drawn[1]


def test_single_items_follow_the_priorities_at_the_time_they_are_drawn() -> None:
    """Updates in between, at every stage of a batch that was drawn ahead."""
    rng = np.random.default_rng(0)
    buffer = make(8, alpha=1.0)
    buffer.add(steps(rng, 8))
    counts, expected = np.zeros(8), np.zeros(8)
    masses = np.ones(8)
    for round_ in range(150):
        for _ in range(round_ % 7 + 1):
            item = buffer.sample(1, beta=0.4)
            counts[item["batch_indexes"]] += 1
            expected += masses / masses.sum()
            low = (8 * masses.min() / masses.sum()) ** -0.4
            share = masses[item["batch_indexes"][0]] / masses.sum()
            assert item["weights"][0] == pytest.approx((8 * share) ** -0.4 / low)
        masses = rng.exponential(size=8) + 0.01
        if round_ % 3:
            buffer.update_priorities(np.arange(8), masses)
        else:  # the same by adding
            for mass in masses:
                buffer.add(steps(rng, 1), weight=mass)
    assert stats.chisquare(counts, expected).pvalue > 1e-4
    assert buffer.stats()["sampled_count"] == counts.sum()


def test_a_call_for_one_item_can_return_a_whole_batch() -> None:
    buffer = make(items_per_sample_call=16)
    buffer.add(steps(np.random.default_rng(0), 5))
    assert len(buffer.sample(1)) == 16
    assert len(buffer.sample(3)) == 3
    assert buffer.stats()["sampled_count"] == 19


def test_beta_of_the_buffer_and_of_the_call() -> None:
    rng = np.random.default_rng(0)
    buffer = make(beta=[[0, 0.0], [10, 1.0]])
    buffer.add(steps(rng, 5))
    buffer.update_priorities([0, 1], [0.1, 5.0])

    def exponent(**beta: Any) -> float:
        sample = buffer.sample(30, **beta)
        masses = buffer.get_priorities()["mass"][sample["batch_indexes"]]
        low = buffer.get_priorities()["mass"].min()
        pick = masses.argmax()
        return float(np.log(sample["weights"][pick]) / -np.log(masses[pick] / low))

    assert exponent() == pytest.approx(0.5)
    assert exponent(beta=0.2) == pytest.approx(0.2)
    buffer.add(steps(rng, 5))
    assert exponent() == pytest.approx(1.0)


def test_alpha_of_zero_draws_uniformly() -> None:
    buffer = make(alpha=0.0)
    buffer.add(steps(np.random.default_rng(0), 4))
    buffer.update_priorities([0], [1e6])
    counts = np.bincount(buffer.sample(4000)["batch_indexes"], minlength=4)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_nested_and_odd_columns_survive() -> None:
    rng = np.random.default_rng(0)
    pair = Pair(7)
    for n in (3, 6):
        pair.add(
            SampleBatch(
                obs={"image": rng.integers(0, 255, (n, 2, 2), np.uint8), "pair": (
                    rng.normal(size=n), rng.integers(0, 2, (n, 1)))},
                actions=rng.normal(size=(n, 2)).astype(np.float16),
                infos=[{"i": i} for i in range(n)],
                names=np.array(["a", "long name", "b"] * 2)[:n],
                weights=np.ones(n, np.float32),
                _num_grad_updates=float(n),
            )
        )  # fmt: skip
        sample = pair.sample(9)
        assert type(sample["infos"]) is list
        pair.sample(1)
    pair.check_items()


@pytest.mark.parametrize("unit", ["timesteps", "fragments"])
def test_compressed_observations_come_out_decompressed(unit: str) -> None:
    rng = np.random.default_rng(0)
    pair = Pair(20, unit)
    for n in (3, 5):
        batch = steps(rng, n)
        plain = batch["obs"].copy()
        batch.compress()
        pair.add(batch)
        pair.sample(4)
        item = pair.sample(1)
        assert item["obs"].dtype == np.float32
    assert plain[-1].tolist() in pair.sample(40)["obs"].tolist()


def test_batches_of_sequences_are_kept_as_sequences() -> None:
    """Also with the unit `timesteps`, as in RLlib; there empty items would be stored as well."""
    rng = np.random.default_rng(0)
    buffer = make()
    buffer.add(sequences(rng, 9))
    sample = buffer.sample(5)
    assert sample["seq_lens"].sum() == len(sample) == len(sample["weights"])
    with pytest.raises(ValueError, match="plain time steps"):
        buffer.add(steps(rng, 3))


def test_infos_are_copies() -> None:
    buffer = make()
    batch = steps(np.random.default_rng(0), 2)
    batch["infos"][0]["number"] = batch["infos"][1]["number"] = 5
    buffer.add(batch)
    batch["infos"][0]["number"] = batch["infos"][1]["number"] = 6
    assert buffer.sample(1)["infos"][0]["number"] == 5


def test_refusals_change_nothing() -> None:
    rng = np.random.default_rng(0)
    buffer = make()
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)
    buffer.add(steps(rng, 4))
    before = buffer.get_priorities()["mass"].tolist(), buffer.stats()
    bad = steps(rng, 2)
    del bad["rewards"]
    other = steps(rng, 2)
    other["obs"] = np.zeros((2, 4), np.float32)
    for call, error, match in (
        (lambda: buffer.add(bad), ValueError, "rewards"),
        (lambda: buffer.add(other), ValueError, r"obs: got items of shape \(4,\)"),
        (lambda: buffer.add(steps(rng, 2), weight=-1.0), ValueError, "weight"),
        (lambda: buffer.add(steps(rng, 2), weight=[1.0]), ValueError, "weight"),
        (lambda: buffer.add(sequences(rng, 2)), ValueError, "plain time steps"),
        (lambda: buffer.sample(0), ValueError, "num_items"),
        (lambda: buffer.sample(2.5), TypeError, "num_items"),
        (lambda: buffer.sample(2, beta=-1.0), ValueError, "beta"),
        (lambda: buffer.update_priorities([0, 4], [1.0, 1.0]), IndexError, "4 at position 1"),
        (lambda: buffer.update_priorities([-1], [1.0]), IndexError, "-1 at position 0"),
        (lambda: buffer.update_priorities([0, 1], [1.0, 0.0]), ValueError, "0.0 at position 1"),
        (lambda: buffer.update_priorities([0, 1], [1.0]), ValueError, "shape"),
        (lambda: buffer.set_state({"_storage": []}), ValueError, "get_state"),
        (lambda: buffer.set_state(None), ValueError, "get_state"),
    ):
        with pytest.raises(error, match=match):
            call()
        assert (buffer.get_priorities()["mass"].tolist(), buffer.stats()) == before


def test_an_empty_batch_is_nothing() -> None:
    buffer = make()
    buffer.add(SampleBatch())
    buffer.update_priorities([], [])
    assert len(buffer) == 0


@pytest.mark.parametrize("filled", [0, 7, 20, 33])
def test_a_state_goes_on_the_same_and_does_not_change(filled: int) -> None:
    rng = np.random.default_rng(0)
    buffer = make()
    if filled:
        buffer.add(steps(rng, filled))
        buffer.sample(1)
        buffer.update_priorities([0, 3], [0.2, 3.0])
    state = buffer.get_state()
    others = make(seed=9), make(seed=8)
    for other in others:
        other.set_state(state)
        assert other.stats() == buffer.stats()
        np.testing.assert_array_equal(other._hit_count, buffer._hit_count)
    batch = steps(rng, 4)
    for one in (buffer, *others):
        one.add(batch)
    samples = [one.sample(30) for one in (buffer, *others)]
    assert_same(samples[0], samples[1])
    assert_same(samples[0], samples[2])
    others[0].add(steps(rng, 20))
    assert_same(others[1].sample(5), buffer.sample(5))
    again = make()
    again.set_state(state)
    assert len(again) == min(filled, 20)


@pytest.mark.parametrize("unit", ["timesteps", "sequences"])
def test_rllibs_state_is_taken_in(unit: str) -> None:
    pair = Pair(8, unit)
    for n in (3, 6, 4):
        pair.add(n)
        pair.sample(3)
    pair.update([0, 1], [0.5, 4.0])
    taken = AccPrioritizedReplayBuffer(8, unit, 0.6, num_shards=0)
    taken.set_state(pair.theirs.get_state())
    pair.theirs._hit_count[:] = 0  # not in RLlib's state
    pair.ours = taken
    pair.check_items()
    pair.add(5)
    pair.sample(6)
    pair.update([1], [0.3])
    pair.check()


def test_a_smaller_buffer_takes_the_newest() -> None:
    rng = np.random.default_rng(0)
    buffer = make(20, alpha=1.0)
    for number in range(26):
        batch = steps(rng, 1)
        batch["actions"][:] = number
        buffer.add(batch, weight=number + 1.0)
    smaller, larger = make(5, alpha=0.5), make(50, alpha=1.0)
    for other in (smaller, larger):
        other.set_state(buffer.get_state())
    assert [int(item["actions"][0]) for item in smaller._storage] == [21, 22, 23, 24, 25]
    np.testing.assert_allclose(
        smaller.get_priorities()["mass"], np.sqrt([22, 23, 24, 25, 26]), rtol=1e-12
    )
    assert [int(item["actions"][0]) for item in larger._storage] == list(range(6, 26))
    assert larger.stats()["added_count"] == 26


def test_the_memory_is_that_of_the_columns() -> None:
    buffer = make(10_000)
    for _ in range(10):
        buffer.add(steps(np.random.default_rng(0), 1000))
    (info,) = buffer.get_shard_info()
    assert info["bytes"] < 10_000 * 100
    assert buffer.stats()["est_size_bytes"] == pytest.approx(10_000 * (12 + 12 + 4 + 4 + 2 + 8))
