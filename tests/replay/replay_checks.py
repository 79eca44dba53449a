"""What must hold of a replay at any moment, and of every batch it gives."""

from __future__ import annotations

import numpy as np
import pytest
from replay_reference import NaiveReplay, Step, tree_sum

from rllib_per_acc import PrioritizedReplay
from rllib_per_acc.replay import ReplayBatch


def check_invariants(replay: PrioritizedReplay) -> None:
    """Root, leaves and row counts agree with each other."""
    store, tree = replay._store, replay.tree
    leaves = tree[np.arange(len(tree))]
    live = store.live_rows()
    assert tree.sum() == tree_sum(leaves)
    assert tree.min() == (leaves[leaves > 0].min() if (leaves > 0).any() else np.inf)
    np.testing.assert_array_equal(np.flatnonzero(leaves > 0), np.sort(live))
    assert len(live) == store.num_steps == len(replay)
    # Each row handed out holds a step, the last observation of an episode, or nothing.
    assert store.pool.num_free + store.num_steps + store.num_episodes == store.pool.num_used


def episodes_of(replay: PrioritizedReplay) -> list[str]:
    """The stored episodes, oldest first."""
    return list(dict.fromkeys(replay.get_priorities()["episode_id"].tolist()))


def masses_of(replay: PrioritizedReplay) -> dict[tuple[str, int], float]:
    """The mass of each step by episode and time."""
    held = replay.get_priorities()
    keys = zip(held["episode_id"], held["t"], strict=True)
    masses = {(str(i), int(t)): float(m) for (i, t), m in zip(keys, held["mass"], strict=True)}
    assert len(masses) == len(held["mass"])
    return masses


def check_same(replay: PrioritizedReplay, naive: NaiveReplay) -> None:
    """Same episodes, same steps, same masses to the bit."""
    assert episodes_of(replay) == list(naive.episodes)
    assert len(replay) == len(naive.steps())
    expected = {(f"episode-{s.number}", s.t): s.mass for s in naive.steps()}
    assert masses_of(replay) == expected
    assert replay.max_priority == naive.max_priority
    info = replay.info()
    assert info["steps"] == len(expected)
    assert info["episodes"] == len(naive.episodes)
    assert info["stale_priorities_dropped"] == naive.stale_dropped


def check_batch(
    batch: ReplayBatch, naive: NaiveReplay, num_items: int, n: int, gamma: float, beta: float
) -> list[Step]:
    """Every row is the transition it claims to be; returns the sampled steps."""
    assert len(batch.rewards) == num_items
    steps = []
    for i in range(num_items):
        number, t = int(batch.observations[i][0]), int(batch.observations[i][1])
        assert naive.can_serve(number, t, n), "a row that cannot serve n steps was sampled"
        expected = naive.transition(number, t, n, gamma)
        np.testing.assert_array_equal(batch.observations[i], expected["observation"])
        np.testing.assert_array_equal(batch.next_observations[i], expected["next_observation"])
        assert batch.actions[i] == expected["action"]
        assert batch.rewards[i] == expected["reward"]
        assert bool(batch.terminateds[i]) == expected["terminated"]
        assert bool(batch.truncateds[i]) == expected["truncated"]
        assert batch.n_step[i] == n
        assert batch.t[i] == t
        episode, place = naive.find(number, t)
        step = episode.steps[place]
        assert batch.weights[i] == pytest.approx(naive.weight_of(step, beta), rel=1e-12)
        steps.append(step)
    ends = np.asarray(batch.terminateds) | np.asarray(batch.truncateds)
    assert not ends[: num_items - int(ends.sum())].any(), "rows that end an episode come last"
    return steps
