"""RLlib's own old-stack buffers beside ours, operation by operation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import tree
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.replay_buffers import (
    MultiAgentPrioritizedReplayBuffer,
    PrioritizedReplayBuffer,
)

from rllib_per_acc import AccMultiAgentPrioritizedReplayBuffer, AccPrioritizedReplayBuffer


def steps(rng: np.random.Generator, n: int, **more: Any) -> SampleBatch:
    """`n` time steps of a small environment, as RLlib's env runners collect them."""
    return SampleBatch(
        obs=rng.normal(size=(n, 3)).astype(np.float32),
        new_obs=rng.normal(size=(n, 3)).astype(np.float32),
        actions=rng.integers(0, 2, n).astype(np.int32),
        rewards=rng.normal(size=n).astype(np.float32),
        terminateds=rng.random(n) < 0.2,
        truncateds=np.zeros(n, np.bool_),
        infos=np.array([{"number": int(i)} for i in rng.integers(0, 99, n)]),
        **more,
    )


def sequences(rng: np.random.Generator, n: int) -> SampleBatch:
    """`n` time steps in sequences of up to three, with states of a recurrent model."""
    lengths = []
    while sum(lengths) < n:
        lengths.append(int(min(rng.integers(1, 4), n - sum(lengths))))
    batch = steps(rng, n)
    batch["state_in_0"] = rng.normal(size=(len(lengths), 2))
    return SampleBatch(dict(batch), seq_lens=np.array(lengths, np.int32))


def episodes(rng: np.random.Generator, n: int) -> SampleBatch:
    """`n` time steps of episodes of up to four, the last of which may be unfinished."""
    batch = steps(rng, n)
    ids, ts, ends = [], [], []
    while len(ids) < n:
        length = int(rng.integers(1, 5))
        ids += [int(rng.integers(1 << 40))] * length
        ts += range(length)
        ends += [False] * (length - 1) + [True]
    batch["eps_id"], batch["t"], batch["terminateds"] = (
        np.array(values[:n]) for values in (ids, ts, ends)
    )
    return batch


MAKERS = {"timesteps": steps, "sequences": sequences, "episodes": episodes, "fragments": steps}


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal batches: columns, dtypes, bits, and the attributes of the batch."""
    if isinstance(theirs, MultiAgentBatch):
        assert isinstance(ours, MultiAgentBatch)
        assert ours.policy_batches.keys() == theirs.policy_batches.keys()
        assert ours.count == theirs.count
        for policy_id, batch in theirs.policy_batches.items():
            assert_same(ours[policy_id], batch)
        return
    assert type(ours) is SampleBatch
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        tree.assert_same_structure(ours[name], expected)
        for one, other in zip(tree.flatten(ours[name]), tree.flatten(expected), strict=True):
            if isinstance(other, np.ndarray):
                same_kind = one.dtype.kind == other.dtype.kind == "U"  # of any width
                assert one.dtype == other.dtype or same_kind, name
                np.testing.assert_array_equal(one, other, err_msg=name)
            else:
                assert one == other, name
    for attribute in ("count", "zero_padded", "max_seq_len", "time_major"):
        assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
    # RLlib's concat_samples makes 0.0 of None, but a single item keeps it.
    assert (ours.num_grad_updates or 0.0) == (theirs.num_grad_updates or 0.0)


class Pair:
    """Both buffers; every operation goes to both and must have the same result.

    RLlib's is made to draw the items that ours has drawn.
    """

    def __init__(self, capacity: int = 8, unit: str = "timesteps", **keys: Any) -> None:
        self.rng = np.random.default_rng(0)
        self.unit = unit
        self.theirs = PrioritizedReplayBuffer(capacity, unit, keys.get("alpha", 0.6))
        self.ours = AccPrioritizedReplayBuffer(
            capacity, unit, **{"alpha": 0.6, "num_shards": 0, "seed": 1} | keys
        )

    def add(self, batch: SampleBatch | int, weight: float | None = None) -> None:
        if isinstance(batch, int):
            batch = MAKERS[self.unit](self.rng, batch)
        kept = batch.copy()
        self.ours.add(batch, weight=weight)
        self.theirs.add(kept, weight=weight)
        self.check()

    def sample(self, n: int, beta: float = 0.4) -> SampleBatch:
        ours = self.ours.sample(n, beta=beta)
        drawn = self._items_in(ours) if "batch_indexes" in ours else []
        assert len(drawn) == n
        self.theirs._sample_proportional = lambda num_items: drawn
        assert_same(ours, self.theirs.sample(n, beta=beta))
        return ours

    def _items_in(self, batch: SampleBatch) -> list[int]:
        """The items in the order in which they were drawn."""
        indexes, items, at = batch["batch_indexes"], [], 0
        while at < len(indexes):
            items.append(int(indexes[at]))
            item = self.theirs._storage[items[-1]]
            at += item.max_seq_len if item.zero_padded else item.count
        return items

    def update(self, idxes: list[int], priorities: list[float]) -> None:
        self.ours.update_priorities(np.array(idxes), np.array(priorities))
        self.theirs.update_priorities(idxes, priorities)
        self.check()

    def check(self) -> None:
        """Counters, priorities and hit counts are the same."""
        assert len(self.ours) == len(self.theirs) == len(self.ours._storage)
        ours, theirs = self.ours.stats(), self.theirs.stats()
        if self.unit == "timesteps":  # ours takes the mean over a batch
            assert abs(ours.pop("est_size_bytes") - theirs.pop("est_size_bytes")) <= len(self.ours)
        assert ours == theirs
        masses = self.ours.get_priorities()["mass"]
        assert masses.tolist() == [self.theirs._it_sum[i] for i in range(len(masses))]
        np.testing.assert_array_equal(
            self.ours._hit_count[: len(masses)], self.theirs._hit_count[: len(masses)]
        )

    def check_windows(self) -> None:
        ours = self.ours.stats(debug=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # RLlib's mean of no values
            theirs = self.theirs.stats(debug=True)
        assert ours.keys() == theirs.keys()
        for name in ("evicted_hit", "reprio"):
            assert ours[f"{name}_count"] == theirs[f"{name}_count"]
            if not ours[f"{name}_count"]:
                continue
            for what in ("mean", "std", "quantiles"):
                key = f"{name}_{what}"
                np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-12, atol=1e-15)

    def check_items(self) -> None:
        for ours, theirs in zip(self.ours._storage, self.theirs._storage, strict=True):
            assert_same(ours, theirs)


def multi_agent_pair(
    **keys: Any,
) -> tuple[AccMultiAgentPrioritizedReplayBuffer, MultiAgentPrioritizedReplayBuffer]:
    own = {"num_shards": 0, "seed": 1}
    return (
        AccMultiAgentPrioritizedReplayBuffer(**keys | own),
        MultiAgentPrioritizedReplayBuffer(**keys),
    )
