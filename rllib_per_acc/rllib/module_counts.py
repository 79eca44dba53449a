"""RLlib's counters of a multi-agent buffer, by module or for all of them."""

from __future__ import annotations

from ray.rllib.utils.typing import ModuleID

from rllib_per_acc.activity import Counts
from rllib_per_acc.rllib.module_replays import ModuleReplays
from rllib_per_acc.rllib.multi_agent_activity import MultiAgentActivity
from rllib_per_acc.rllib.multi_agent_ledger import MultiAgentLedger
from rllib_per_acc.threads import serialized


class ModuleCounts:
    """The getters of RLlib's `MultiAgentEpisodeReplayBuffer`, under its names."""

    _modules: ModuleReplays
    _ledger: MultiAgentLedger
    _activity: MultiAgentActivity

    def _count(self, of_all: int, counter: str, module_id: ModuleID | None) -> int:
        """What all modules have, or one of them, in steps and episodes of its agents."""
        if module_id is None:
            return of_all
        client = self._modules.clients.get(module_id)
        return 0 if client is None else int(client.info()[counter])

    @serialized
    def get_num_episodes(self, module_id: ModuleID | None = None) -> int:
        """Multi-agent episodes stored, or episodes of a module's agents."""
        return self._count(len(self._ledger.episodes), "episodes", module_id)

    @serialized
    def get_num_episodes_evicted(self, module_id: ModuleID | None = None) -> int:
        """Multi-agent episodes evicted so far, or episodes of a module's agents."""
        return self._count(self._lifetimes.episodes_evicted, "episodes_evicted", module_id)

    @serialized
    def get_num_timesteps(self, module_id: ModuleID | None = None) -> int:
        """Steps of the environment stored, or of a module's agents."""
        return self._count(self._ledger.num_steps, "steps", module_id)

    @serialized
    def get_sampled_timesteps(self, module_id: ModuleID | None = None) -> int:
        """Items asked for so far, or steps sampled of a module."""
        together = self._activity.sampled_together.get(module_id, 0)
        return together + self._count(self._lifetimes.steps_sampled, "steps_sampled", module_id)

    @serialized
    def get_added_timesteps(self, module_id: ModuleID | None = None) -> int:
        """Steps of the environment added so far, or of a module's agents."""
        return self._count(self._lifetimes.steps_added, "steps_added", module_id)

    @serialized
    def get_num_agent_timesteps(self) -> int:
        """Steps of all agents stored."""
        return self._ledger.num_agent_steps

    @serialized
    def get_added_agent_timesteps(self) -> int:
        """Steps of all agents added so far."""
        return self._activity.agent_steps_added

    @serialized
    def get_module_ids(self) -> list[ModuleID]:
        """The modules whose steps have been added."""
        return list(self._modules.clients)

    @property
    def _lifetimes(self) -> Counts:
        return self._activity.lifetimes
