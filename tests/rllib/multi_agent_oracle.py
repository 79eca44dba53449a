"""RLlib's own multi-agent buffer as the oracle, with its draws chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import MultiAgentPrioritizedEpisodeReplayBuffer
from rllib_oracle import Row, Scripted, read_rows

from rllib_per_acc import AccMultiAgentPrioritizedEpisodeReplayBuffer
from rllib_per_acc.rllib.multi_agent_rows import MultiAgentRows

Step = tuple[int, int]
"""The number in the observations of an agent's episode, and the agent's time step."""


def read_modules(sample: Sequence[Any]) -> dict[str, list[Row]]:
    """Reads a sample of either format module by module, in the order of its episodes."""
    episodes: list[SingleAgentEpisode] = []
    for episode in sample:
        if isinstance(episode, MultiAgentRows):
            episodes += [episode.agent_episodes[key] for key in episode.agent_ids]
        else:
            episodes.append(episode)
    modules: dict[str, list[SingleAgentEpisode]] = {}
    for single in episodes:
        modules.setdefault(single.module_id, []).append(single)
    return {module_id: read_rows(some) for module_id, some in modules.items()}


class MultiAgentOracle(MultiAgentPrioritizedEpisodeReplayBuffer):
    """RLlib's buffer, with its draws chosen and its priorities set by step."""

    def add(self, episodes: Sequence[MultiAgentEpisode], weight: Any = None) -> None:
        for episode in self.episodes:  # else evicting agents that came in a later chunk fails
            for agent_id in episode.agent_ids:
                episode.module_for(agent_id)
        super().add(list(episodes), weight)  # RLlib takes what it drops out of the list given

    def leaf_of(self, module_id: str) -> dict[Step, int]:
        """The leaf of each step of a module."""
        leaves = {}
        for position, agent_id, place, leaf in self._module_to_indices[module_id]:
            episode = self.episodes[position - self._num_episodes_evicted].agent_episodes[agent_id]
            first = episode.get_observations(place)
            leaves[int(first[0]), int(first[1])] = leaf
        return leaves

    def masses(self, module_id: str) -> dict[Step, float]:
        """The mass of each step of a module."""
        sums = self._module_to_sum_segment[module_id]
        return {step: sums[leaf] for step, leaf in self.leaf_of(module_id).items()}

    def sample_steps(
        self, module_id: str, steps: Sequence[Step], n_steps: Sequence[int], **options: Any
    ) -> list[SingleAgentEpisode]:
        """What RLlib returns when it happens to draw these steps of a module."""
        leaves = self.leaf_of(module_id)
        kept, trees = self.rng, self._module_to_sum_segment
        self.rng = Scripted(trees[module_id], [leaves[s] for s in steps], n_steps)
        try:
            return self.sample(
                num_items=len(steps), n_step=(0, 0), modules_to_sample=[module_id], **options
            )
        finally:
            self.rng = kept
            self._module_to_last_sampled_indices[module_id].clear()

    def set_priorities(self, module_id: str, priorities: dict[Step, float]) -> None:
        """Gives the named steps priorities, through RLlib's own update."""
        leaves = self.leaf_of(module_id)
        self._module_to_last_sampled_indices[module_id] = [leaves[step] for step in priorities]
        self.update_priorities(np.array(list(priorities.values())), module_id)


def masses_of(
    ours: AccMultiAgentPrioritizedEpisodeReplayBuffer, module_id: str
) -> dict[Step, float]:
    """The mass of each step of a module."""
    masses = {}
    number = {}
    for episode in ours.module_episodes(module_id):
        number[episode.id_] = int(episode.get_observations(0)[0])
    held = ours.get_priorities(module_id)
    for id_, t, mass in zip(held["episode_id"], held["t"].tolist(), held["mass"], strict=True):
        masses[number[id_], t] = mass
    assert len(masses) == len(held["t"])
    return masses
