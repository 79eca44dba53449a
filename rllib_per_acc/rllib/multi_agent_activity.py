"""What happens in a multi-agent buffer, counted by environment and by agent, for its metrics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.activity import Activity, Counts
from rllib_per_acc.changes import Change
from rllib_per_acc.descriptions import dict_of, integer, record
from rllib_per_acc.rllib.multi_agent_ledger import AgentEpisode, MultiAgentLedger, Plan

_check_sums = record({"agent_steps_added": integer(), "sampled_together": dict_of(integer())})


class Drawn(NamedTuple):
    """Rows of a sample: whose they are, the agent's time step, the steps of the transition."""

    agents: Sequence[AgentEpisode]
    t: NDArray[np.int64]
    n_step: NDArray[np.int64]


class _Sampled:
    """Sums over some rows of one sample."""

    def __init__(self) -> None:
        self.rows = 0
        self.n_step = 0
        self.steps: set[Any] = set()
        self.episodes: set[Any] = set()

    def see(self, episode: Any, t: int, n_step: int) -> None:
        self.rows += 1
        self.n_step += n_step
        self.steps.add((episode, t))
        self.episodes.add(episode)

    def log(self, activity: Activity) -> None:
        activity.log_sample(
            steps=self.rows,
            distinct_steps=len(self.steps),
            distinct_episodes=len(self.episodes),
            resampled=0,
            mean_n_step=self.n_step / self.rows,
        )


class MultiAgentActivity:
    """Counts of adds, evictions and samples, but for repeated draws, which are known by module.

    Args:
        window: See `Activity`.

    Attributes:
        lifetimes: Sums over all calls, in multi-agent episodes and steps of the environment.
        agent_steps_added: Steps of agents added so far.
        sampled_together: Steps in synchronized samples so far, by module.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self.lifetimes = Counts()
        self.agent_steps_added = 0
        self.sampled_together: Counter[Any] = Counter()
        self._clear()

    def _clear(self) -> None:
        self._env = Activity(self._window)
        self._agents: defaultdict[Any, Activity] = defaultdict(partial(Activity, self._window))

    def plan_add(self, change: Change, plan: Plan, ledger: MultiAgentLedger) -> None:
        """Plans to note an add that is planned."""
        agent_steps_added = self.agent_steps_added
        counts = Counts(num_adds=1)
        agents: defaultdict[Any, Counts] = defaultdict(lambda: Counts(num_adds=1))
        for id_ in plan.evicted:
            if (entry := ledger.episodes.get(id_)) is not None:
                counts.episodes_evicted += 1
                counts.steps_evicted += len(entry)
                for episode in entry.agents.values():
                    agents[episode.owner.agent_id].episodes_evicted += 1
                    agents[episode.owner.agent_id].steps_evicted += len(episode)
        new, new_agents = set[str](), set[str]()
        for chunk in plan.kept:
            counts.steps_added += chunk.env_steps
            if chunk.episode_id not in ledger.episodes:
                new.add(chunk.episode_id)
            for agent in chunk.agents:
                by_agent = agents[agent.owner.agent_id]
                by_agent.steps_added += len(agent.steps)
                agent_steps_added += len(agent.steps)
                id_ = agent.steps.episode_id
                if id_ not in ledger.agents and id_ not in new_agents:
                    new_agents.add(id_)
                    by_agent.episodes_added += 1
        counts.episodes_added = len(new)
        growth = counts.episodes_added - counts.episodes_evicted
        self._env.plan_add(
            change,
            counts,
            episodes_stored=len(ledger.episodes) + growth,
            steps_stored=ledger.num_steps + counts.steps_added - counts.steps_evicted,
        )
        for agent_id, agent_counts in agents.items():
            self._agents[agent_id].plan_add(change, agent_counts, episodes_stored=0, steps_stored=0)
        change.let(self, "lifetimes", self.lifetimes + counts)
        change.let(self, "agent_steps_added", agent_steps_added)

    def log_removal(self, before: MultiAgentLedger, after: MultiAgentLedger) -> None:
        """Notes what went with a module as evicted."""
        counts = Counts(
            num_adds=1,
            episodes_evicted=len(before.episodes) - len(after.episodes),
            steps_evicted=before.num_steps - after.num_steps,
        )
        stored = {"episodes_stored": len(after.episodes), "steps_stored": after.num_steps}
        self._env.log_add(counts, **stored)
        self.lifetimes += counts
        for id_, agent in before.agents.items():
            if id_ not in after.agents:
                gone = Counts(num_adds=1, episodes_evicted=1, steps_evicted=len(agent))
                agent_id = agent.owner.agent_id
                self._agents[agent_id].log_add(gone, episodes_stored=0, steps_stored=0)

    def log_sample(self, sample: list[Drawn], num_items: int) -> None:
        """Notes a sample of `num_items` rows of each module; nothing of it is kept."""
        everything = _Sampled()
        by_agent: defaultdict[Any, _Sampled] = defaultdict(_Sampled)
        for drawn in sample:
            rows = zip(drawn.agents, drawn.t.tolist(), drawn.n_step.tolist(), strict=True)
            for episode, t, n_step in rows:
                id_, agent_id, _ = episode.owner
                everything.see(id_, episode.env_t[t - episode.t_started], n_step)
                by_agent[agent_id].see(episode, t, n_step)
        everything.log(self._env)
        for agent_id, sampled in by_agent.items():
            sampled.log(self._agents[agent_id])
        self.lifetimes.steps_sampled += num_items

    def log_together(self, steps: dict[Any, int], num_items: int) -> None:
        """Notes a synchronized sample of `num_items` env steps; RLlib has no metrics of it."""
        self.sampled_together.update(steps)
        self.lifetimes.steps_sampled += num_items

    def take(self) -> tuple[Activity, dict[Any, Activity]]:
        """What happened since the last call, and by agent."""
        taken = self._env, dict(self._agents)
        self._clear()
        return taken

    def state(self) -> dict[str, Any]:
        """The sums over all calls."""
        return asdict(self.lifetimes) | {
            "agent_steps_added": self.agent_steps_added,
            "sampled_together": dict(self.sampled_together),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from such sums.

        Raises:
            TypeError, ValueError: If they are no such sums.
        """
        _check_sums("counts", state)
        sums = dict(state)
        self.agent_steps_added = sums.pop("agent_steps_added")
        self.sampled_together = Counter(sums.pop("sampled_together"))
        self.lifetimes = Counts.restored(sums)
