"""Multi-agent episodes as chunks of their agents' episodes."""

from __future__ import annotations

from typing import Any, NamedTuple

from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.rllib.episode_chunks import chunk_of
from rllib_per_acc.rllib.row_group import Owner


class AgentChunk(NamedTuple):
    """What one agent did in a chunk of a multi-agent episode.

    Attributes:
        owner: The agent.
        steps: Its steps.
        env_t: The time step of the environment at each of its L + 1 observations.
        spaces: Its observation and action space.
    """

    owner: Owner
    steps: EpisodeChunk
    env_t: list[int]
    spaces: tuple[Any, Any]


class MultiAgentChunk(NamedTuple):
    """A chunk of a multi-agent episode.

    Attributes:
        episode_id: Of the episode.
        env_t: The first time step of the environment, and the one after the last step.
        agents: What the agents did.
    """

    episode_id: str
    env_t: tuple[int, int]
    agents: list[AgentChunk]

    @property
    def env_steps(self) -> int:
        """Time steps of the environment."""
        return self.env_t[1] - self.env_t[0]


def multi_agent_chunk_of(episode: MultiAgentEpisode) -> MultiAgentChunk:
    """The steps of `episode`, without its lookback; arrays are shared, not copied."""
    agents = []
    for agent_id, agent_episode in episode.agent_episodes.items():
        module_id = agent_episode.module_id
        if module_id is None:
            module_id = episode.module_for(agent_id)
        steps = chunk_of(agent_episode)
        agents.append(
            AgentChunk(
                Owner(episode.id_, agent_id, module_id),
                steps,
                _env_times(episode, agent_id, len(steps)),
                (agent_episode.observation_space, agent_episode.action_space),
            )
        )
    return MultiAgentChunk(episode.id_, (episode.env_t_started, episode.env_t), agents)


def _env_times(episode: MultiAgentEpisode, agent_id: Any, num_steps: int) -> list[int]:
    """The environment's time step at each of an agent's last `num_steps + 1` observations.

    `MultiAgentEpisode.env_t_to_agent_t` has an entry for each time step, a number where the agent
    made an observation. It begins with the lookback, but for agents that came later than the chunk
    began it begins with the episode (`MultiAgentEpisode.add_env_step`: `self.env_t` skip tags).
    The lookback may be longer than the episode was by then (`MultiAgentEpisode.cut` fills it up);
    which of the two it is, is seen by the number of entries then.
    """
    entries = episode.env_t_to_agent_t[agent_id]
    observed = [i for i, t in enumerate(entries.data) if t != episode.SKIP_ENV_TS_TAG]
    came_later = observed[0] > entries.lookback or (
        observed[0] > episode.env_t_started and len(entries.data) == episode.env_t + 1
    )
    start = 0 if came_later else episode.env_t_started - entries.lookback
    return [start + i for i in observed[-num_steps - 1 :]]
