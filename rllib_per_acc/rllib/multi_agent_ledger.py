"""Which multi-agent episodes are stored, what their agents' episodes are, and who has to go."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rllib_per_acc.changes import Change
from rllib_per_acc.descriptions import array as array_of_items
from rllib_per_acc.descriptions import boolean, hashable, integer, list_of, record, tuple_of, wrong
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.episode_table import oldest_beyond
from rllib_per_acc.rllib.departed_agents import DepartedAgents
from rllib_per_acc.rllib.multi_agent_chunks import AgentChunk, MultiAgentChunk
from rllib_per_acc.rllib.row_group import Owner

_INT32 = np.iinfo(np.int32).max
_any_int32 = integer(-_INT32, _INT32)
_check_agent = tuple_of(
    hashable, hashable, hashable, _any_int32, boolean, integer(0, _INT32)
)  # id, agent, module, first time step, has it ended, how many steps
_check_episode = tuple_of(hashable, tuple_of(_any_int32, _any_int32), list_of(_check_agent))
_check_state = record(
    {
        "episodes": list_of(_check_episode),
        "arrays": record({"env_t": array_of_items(np.int32, (None,))}),
    }
)


class AgentEpisode:
    """An agent's episode within a multi-agent episode.

    Attributes:
        owner: The agent.
        t_started: The agent's first time step that is stored.
        env_t: The time step of the environment at each of its observations.
        is_done: Whether the agent's episode has ended.
    """

    __slots__ = ("env_t", "is_done", "owner", "t_started")

    def __init__(self, owner: Owner, t_started: int) -> None:
        self.owner = owner
        self.t_started = t_started
        self.env_t = array("i")
        self.is_done = False

    def __len__(self) -> int:
        return max(len(self.env_t) - 1, 0)


class MultiAgentEntry:
    """A stored multi-agent episode; its length is in time steps of the environment.

    Attributes:
        env_t: Its first time step that is stored, and the one after the last step.
        agents: Its agents' episodes by their ids.
    """

    __slots__ = ("agents", "env_t")

    def __init__(self, env_t_started: int) -> None:
        self.env_t = [env_t_started, env_t_started]
        self.agents: dict[str, AgentEpisode] = {}

    def __len__(self) -> int:
        return self.env_t[1] - self.env_t[0]


class Plan(NamedTuple):
    """What an `add` is going to do.

    Attributes:
        kept: The chunks that are stored.
        evicted: Ids of the multi-agent episodes that go before, oldest first.
        chunks: By module the chunks of agents' episodes to store.
        evict: By module the ids of the agents' episodes to evict.
    """

    kept: list[MultiAgentChunk]
    evicted: list[str]
    chunks: dict[str, list[EpisodeChunk]]
    evict: dict[str, list[str]]


class MultiAgentLedger:
    """The multi-agent episodes of a buffer, oldest first, evicted as RLlib's buffers do it.

    Args:
        capacity: Time steps of the environment to keep. The newest episode is kept even if it is
            longer.
        batches_ahead: How many batches of each module may have been drawn ahead.

    Attributes:
        episodes: The stored multi-agent episodes by id.
        agents: Their agents' episodes by id.
        num_steps: Time steps of the environment stored.
        num_agent_steps: Steps of agents stored.
        departed: Agents' episodes that are gone, but for batches drawn ahead.
    """

    def __init__(self, capacity: int, batches_ahead: int = 0) -> None:
        self.capacity = capacity
        self.episodes: dict[str, MultiAgentEntry] = {}
        self.agents: dict[str, AgentEpisode] = {}
        self.num_steps = self.num_agent_steps = 0
        self.departed: DepartedAgents[AgentEpisode] = DepartedAgents(batches_ahead)

    def plan(self, chunks: Sequence[MultiAgentChunk]) -> Plan:
        """What storing these chunks takes; changes nothing.

        Whole multi-agent episodes go, oldest first, until the new total fits; the last one stays.
        Chunks of an episode that this very call evicts are dropped, and so is what RLlib says of
        agents whose episodes have ended (RLlib: `MultiAgentPrioritizedEpisodeReplayBuffer.add`,
        `MultiAgentEpisode.concat_episode`).
        """
        new_steps: dict[str, int] = {}
        for chunk in chunks:
            new_steps[chunk.episode_id] = new_steps.get(chunk.episode_id, 0) + chunk.env_steps
        evicted = oldest_beyond(self.episodes, self.num_steps, self.capacity, new_steps)
        dropped = set(evicted)
        kept: list[MultiAgentChunk] = []
        by_module: dict[str, list[EpisodeChunk]] = {}
        for chunk in chunks:
            if chunk.episode_id in dropped:
                continue
            agents = [agent for agent in chunk.agents if not self._has_ended(agent)]
            kept.append(chunk._replace(agents=agents))
            for agent in agents:
                by_module.setdefault(agent.owner.module_id, []).append(agent.steps)
        evict: dict[str, list[str]] = {}
        for id_ in evicted:
            for agent_episode_id, agent_episode in self._agents_of(id_):
                evict.setdefault(agent_episode.owner.module_id, []).append(agent_episode_id)
        return Plan(kept, evicted, by_module, evict)

    def _has_ended(self, agent: AgentChunk) -> bool:
        stored = self.agents.get(agent.steps.episode_id)
        return stored is not None and stored.is_done

    def _agents_of(self, episode_id: str) -> Iterable[tuple[str, AgentEpisode]]:
        stored = self.episodes.get(episode_id)
        return stored.agents.items() if stored else ()

    def plan_commit(self, change: Change, plan: Plan) -> None:
        """Plans to do what was planned since the last change."""
        gone = {id_: self.episodes[id_] for id_ in plan.evicted if id_ in self.episodes}
        new: dict[Any, MultiAgentEntry] = {}
        ends: dict[Any, int] = {}
        new_agents: dict[Any, tuple[MultiAgentEntry, AgentEpisode]] = {}
        times: dict[Any, array[int]] = {}
        num_steps = self.num_steps - sum(map(len, gone.values()))
        num_agent_steps = self.num_agent_steps
        num_agent_steps -= sum(len(a) for entry in gone.values() for a in entry.agents.values())
        for chunk in plan.kept:
            entry = self.episodes.get(chunk.episode_id, new.get(chunk.episode_id))
            if entry is None:
                entry = new[chunk.episode_id] = MultiAgentEntry(chunk.env_t[0])
            end = ends.get(chunk.episode_id, entry.env_t[1])
            ends[chunk.episode_id] = end + chunk.env_steps
            num_steps += chunk.env_steps
            for came in chunk.agents:
                id_ = came.steps.episode_id
                if id_ in self.agents:
                    agent = self.agents[id_]
                elif id_ in new_agents:
                    agent = new_agents[id_][1]
                else:
                    agent = AgentEpisode(came.owner, came.steps.t_started)
                    new_agents[id_] = entry, agent
                more = times.setdefault(id_, array("i"))
                more.extend(came.env_t[1:] if agent.env_t or more else came.env_t)
                change.let(agent, "is_done", came.steps.terminated or came.steps.truncated)
                num_agent_steps += len(came.steps)
        for id_, end in ends.items():
            change.put((new[id_] if id_ in new else self.episodes[id_]).env_t, 1, end)
        for id_, more in times.items():
            agent = self.agents[id_] if id_ in self.agents else new_agents[id_][1]
            change.put(agent.env_t, slice(len(agent.env_t), None), more)
        change.call(self._replace, gone, new, new_agents)
        change.let(self, "num_steps", num_steps)
        change.let(self, "num_agent_steps", num_agent_steps)

    def _replace(
        self,
        gone: dict[Any, MultiAgentEntry],
        new: dict[Any, MultiAgentEntry],
        new_agents: dict[Any, tuple[MultiAgentEntry, AgentEpisode]],
    ) -> None:
        for id_, entry in gone.items():
            self.episodes.pop(id_, None)
            for agent_episode_id, agent in entry.agents.items():
                self.departed.note(agent.owner.module_id, agent_episode_id, agent)
                self.agents.pop(agent_episode_id, None)
        self.episodes.update(new)
        for agent_episode_id, (entry, agent) in new_agents.items():
            entry.agents[agent_episode_id] = self.agents[agent_episode_id] = agent

    def without(self, module_id: Any) -> MultiAgentLedger:
        """What is left when a module's agents go, and the episodes in which only they are."""
        left = MultiAgentLedger(self.capacity)
        left.departed = self.departed
        for id_, entry in self.episodes.items():
            agents = {i: a for i, a in entry.agents.items() if a.owner.module_id != module_id}
            if agents or not entry.agents:
                kept = left.episodes[id_] = MultiAgentEntry(entry.env_t[0])
                kept.env_t, kept.agents = entry.env_t, agents
                left.agents.update(agents)
                left.num_steps += len(kept)
                left.num_agent_steps += sum(map(len, agents.values()))
        return left

    def find(self, agent_episode_ids: Iterable[str]) -> list[AgentEpisode]:
        """The agents' episodes with these ids: stored ones, or of a batch that was drawn ahead."""
        stored, gone = self.agents, self.departed
        return [stored[id_] if id_ in stored else gone.find(id_) for id_ in agent_episode_ids]

    def state(self) -> dict[str, Any]:
        """Everything needed to go on: `description` (JSON-able, if the ids are) and `arrays`."""
        episodes = [
            [
                id_,
                entry.env_t.copy(),
                [
                    [agent_episode_id, *agent.owner[1:], agent.t_started, agent.is_done, len(agent)]
                    for agent_episode_id, agent in entry.agents.items()
                ],
            ]
            for id_, entry in self.episodes.items()
        ]
        env_t = b"".join(
            agent.env_t for entry in self.episodes.values() for agent in entry.agents.values()
        )
        return {
            "description": {"episodes": episodes},
            "arrays": {"env_t": np.frombuffer(env_t, np.int32).copy()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes what another's `state` returned into this new ledger.

        Raises:
            ValueError: If it is not such a state.
        """
        _check_state("", {**state, "episodes": list(state["description"]["episodes"])})
        env_t, end = state["arrays"]["env_t"], 0
        for id_, (first, last), agents in state["description"]["episodes"]:
            if last < first or id_ in self.episodes:
                raise ValueError(f"episodes: got {id_!r:.80} twice, or from {first} to {last}")
            entry = self.episodes[id_] = MultiAgentEntry(first)
            entry.env_t[1] = last
            self.num_steps += len(entry)
            for agent_episode_id, agent_id, module_id, t_started, is_done, length in agents:
                if agent_episode_id in self.agents:
                    raise ValueError(f"episodes: got the agent's {agent_episode_id!r:.80} twice")
                agent = AgentEpisode(Owner(id_, agent_id, module_id), t_started)
                start, end = end, end + length + 1
                agent.env_t.frombytes(env_t[start:end].tobytes())
                agent.is_done = is_done
                entry.agents[agent_episode_id] = self.agents[agent_episode_id] = agent
                self.num_agent_steps += len(agent)
        if len(env_t) != end:
            raise ValueError(f"env_t: got {len(env_t)} time steps, expected {end}")

    def check_holds(self, module_id: Any, episode_ids: Any, t: Any) -> None:
        """Checks that steps of a module's replay are those of its agents' episodes here.

        Args:
            module_id: Of the module.
            episode_ids: Of each step, the id of the agent's episode.
            t: The agent's time steps.

        Raises:
            ValueError: If a step belongs to none. (Some may be missing: shards lose theirs.)
        """
        for id_, step in zip(episode_ids.tolist(), t.tolist(), strict=True):
            agent = self.agents.get(id_)
            if agent is None or agent.owner.module_id != module_id:
                raise wrong("episodes", id_, f"the agents' episodes of module {module_id!r:.80}")
            if not 0 <= step - agent.t_started < len(agent):
                raise wrong("episodes", (id_, step), f"{len(agent)} steps from {agent.t_started}")
