"""RLlib's own prioritized buffer as the oracle, and one way to read what any buffer samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tree
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.execution.segment_tree import SumSegmentTree
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer


def key_of(value: Any) -> tuple:
    """Something hashable that is equal if structure, dtypes, shapes and bits are equal."""
    leaves = []
    for path, leaf in tree.flatten_with_path(value):
        array = np.asarray(leaf)
        content = array.tolist() if array.dtype == object else array.tobytes()
        leaves.append((path, array.dtype.str, array.shape, content))
    return tuple(leaves)


class Row(NamedTuple):
    """One sampled transition, as RLlib's learner reads it."""

    observation: tuple
    action: tuple
    reward: float
    next_observation: tuple
    terminated: bool
    truncated: bool
    n_step: int
    weight: float
    step: tuple[int, int]  # (episode number, time), read from a plain observation

    @property
    def transition(self) -> tuple:
        """All but the weight."""
        return (*self[:7], self.step)


def unbatch(items: Any, n: int) -> list:
    """`n` items of a list, or of a structure of arrays."""
    if isinstance(items, list):
        assert len(items) == n
        return items
    return [tree.map_structure(lambda leaf, i=i: leaf[i], items) for i in range(n)]


def read_rows(sample: Sequence[SingleAgentEpisode]) -> list[Row]:
    """Reads a sample the way RLlib's learner connectors do, whatever its episodes are."""
    rows = []
    for episode in sample:
        assert isinstance(episode, SingleAgentEpisode)
        n = len(episode)
        here, ahead = slice(0, n), slice(1, n + 1)
        columns = zip(
            unbatch(episode.get_observations(here), n),
            unbatch(episode.get_observations(ahead), n),
            unbatch(episode.get_actions(here), n),
            unbatch(episode.get_rewards(here), n),
            unbatch(episode.get_extra_model_outputs("n_step", here), n),
            unbatch(episode.get_extra_model_outputs("weights", here), n),
            strict=True,
        )
        for i, (obs, next_obs, action, reward, n_step, weight) in enumerate(columns):
            last = i == n - 1
            first = tree.flatten(obs)[0]
            step = (-1, -1)
            if np.ndim(first) == 1 and len(first) >= 2:
                step = (int(first[0]), int(first[1]))
            rows.append(
                Row(
                    key_of(obs),
                    key_of(action),
                    float(reward),
                    key_of(next_obs),
                    bool(last and episode.is_terminated),
                    bool(last and episode.is_truncated),
                    int(n_step),
                    float(weight),
                    step,
                )
            )
    return rows


class Scripted:
    """Stands in for RLlib's random generator: its draws land on the leaves named, in turn."""

    def __init__(self, sums: SumSegmentTree, leaves: Sequence[int], n_steps: Iterable[int]) -> None:
        masses = np.array([sums[i] for i in range(sums.capacity)])
        middles = np.cumsum(masses) - masses / 2
        self._draws = iter(middles[list(leaves)] / sums.sum())
        self._n_steps = iter(n_steps)

    def random(self) -> float:
        return float(next(self._draws))

    def integers(self, low: int, high: int) -> int:
        return next(self._n_steps)


class RLlibOracle(PrioritizedEpisodeReplayBuffer):
    """RLlib's buffer, with its draws chosen and its priorities set by step."""

    def leaf_of(self) -> dict[tuple[int, int], int]:
        """The leaf of each (episode number, time)."""
        leaves = {}
        for position, place, leaf in self._indices:
            episode = self.episodes[position - self._num_episodes_evicted]
            first = tree.flatten(episode.get_observations(place))[0]
            leaves[int(first[0]), int(first[1])] = leaf
        return leaves

    def masses(self) -> dict[tuple[int, int], float]:
        """The mass of each (episode number, time)."""
        return {step: self._sum_segment[leaf] for step, leaf in self.leaf_of().items()}

    def sample_steps(
        self, steps: Sequence[tuple[int, int]], n_steps: Sequence[int], **options: Any
    ) -> list[SingleAgentEpisode]:
        """What RLlib returns when it happens to draw these steps."""
        leaves = self.leaf_of()
        kept, self.rng = self.rng, Scripted(self._sum_segment, [leaves[s] for s in steps], n_steps)
        try:
            return self.sample(num_items=len(steps), n_step=(0, 0), **options)
        finally:
            self.rng = kept

    def able_steps(self, n: int) -> list[tuple[int, int]]:
        """The steps that have `n` steps of their episode from there on."""
        able = []
        for position, place, _ in self._indices:
            episode = self.episodes[position - self._num_episodes_evicted]
            if place + n <= len(episode):
                first = tree.flatten(episode.get_observations(place))[0]
                able.append((int(first[0]), int(first[1])))
        return able

    def every_row(self, n: int, **options: Any) -> list[Row]:
        """Each transition of `n` steps that can be drawn."""
        steps = self.able_steps(n)
        return read_rows(self.sample_steps(steps, [n] * len(steps), **options)) if steps else []

    def set_priorities(self, priorities: dict[tuple[int, int], float]) -> None:
        """Gives the named steps priorities, through RLlib's own update."""
        leaves = self.leaf_of()
        self._last_sampled_indices = [leaves[step] for step in priorities]
        self.update_priorities(np.array(list(priorities.values())))
