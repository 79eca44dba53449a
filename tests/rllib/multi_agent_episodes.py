"""Multi-agent episodes whose numbers say where they come from, cut and interleaved."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from rllib_episodes import ACTIONS, ENDS, OBSERVATIONS, action_of, observation_of, reward_of


class Agent(NamedTuple):
    """When an agent is there: it observes at `arrives` and every `period` steps, until `leaves`."""

    module: str
    arrives: int = 0
    leaves: int = 10_000
    period: int = 1

    def observes(self, t: int) -> bool:
        return self.arrives <= t <= self.leaves and (t - self.arrives) % self.period == 0


TWO = {"a": Agent("m1"), "b": Agent("m2")}
SHARED = {"a": Agent("m1"), "b": Agent("m1"), "c": Agent("m2")}
UNEQUAL = {
    "a": Agent("m1"),
    "b": Agent("m2", leaves=4),
    "c": Agent("m2", arrives=2),
    7: Agent("m3"),
}
IN_TURNS = {"a": Agent("m1", period=2), "b": Agent("m2", arrives=1, period=2), "c": Agent("m2")}


def number_of(episode: int, agent: object) -> int:
    """The number in the observations of an agent's episode."""
    return 10 * episode + "abc7".index(str(agent))


class MultiAgentPlayer:
    """Plays one numbered episode after another into `MultiAgentEpisode`s, cut as by env runners."""

    def __init__(
        self,
        number: int,
        agents: dict[object, Agent] = TWO,
        *,
        lookback: int = 1,
        to_numpy: bool = True,
        extras: bool = False,
        space: gym.Space = ACTIONS,
        action: Callable[[int, int], object] = action_of,
    ) -> None:
        self.agents, self.lookback, self.to_numpy = agents, lookback, to_numpy
        self.extras, self.space, self.action = extras, space, action
        self.start(number)

    def start(self, number: int) -> None:
        self.number = number
        self.done: set = set()
        self.steps = dict.fromkeys(self.agents, -1)  # observations less one
        self.acted: dict[object, int] = {}
        self.episode = MultiAgentEpisode(
            id_=f"episode-{number}",
            observation_space=dict.fromkeys(self.agents, OBSERVATIONS),
            action_space=dict.fromkeys(self.agents, self.space),
            agent_to_module_mapping_fn=lambda agent_id, _: self.agents[agent_id].module,
        )
        present = {a for a, agent in self.agents.items() if agent.observes(0)}
        self.episode.add_env_reset(
            observations={a: self._observe(a) for a in self.agents if a in present},
            infos={a: {"t": 0} for a in present},
        )

    def _observe(self, agent: object) -> np.ndarray:
        self.steps[agent] += 1
        return observation_of(number_of(self.number, agent), self.steps[agent])

    def play(self, steps: int, end: str = "") -> None:
        """Plays `steps` steps; the last one ends the episode if `end` says how."""
        for i in range(steps):
            t, over = self.episode.env_t, bool(end) and i == steps - 1
            actions = {}
            for a in self.episode.get_agents_to_act():
                self.acted[a] = self.steps[a]
                actions[a] = self.action(number_of(self.number, a), self.steps[a])
            outputs = {a: {"logp": np.float32(self.steps[a])} for a in actions}
            observations, rewards, terminateds = {}, {}, {}
            for a, agent in self.agents.items():
                if a in self.done or (over and a not in self.acted):
                    continue
                if agent.observes(t + 1) or over:
                    observations[a] = self._observe(a)
                    if a in self.acted:
                        rewards[a] = reward_of(number_of(self.number, a), self.acted.pop(a))
                    if agent.leaves == t + 1 and not over:
                        terminateds[a] = True
                        self.done.add(a)
            self.episode.add_env_step(
                observations,
                actions,
                rewards,
                {a: {"t": self.steps[a]} for a in observations},
                terminateds=terminateds | {"__all__": over and end == "terminated"},
                truncateds={"__all__": over and end == "truncated"},
                extra_model_outputs=outputs if self.extras else None,
            )

    def cut(self) -> MultiAgentEpisode:
        """What was played since the last cut; a finished episode must be followed by `start`."""
        chunk = self.episode
        if not chunk.is_done:
            self.episode = chunk.cut(len_lookback_buffer=self.lookback)
        return chunk.to_numpy() if self.to_numpy else chunk


def make_multi(number: int, length: int, end: str = "", *args, **options) -> MultiAgentEpisode:
    """A whole episode in one piece."""
    player = MultiAgentPlayer(number, *args, **options)
    player.play(length, end)
    return player.cut()


def play_multi(
    num_envs: int, fragment: int, *args, longest: int = 12, seed: int = 0, **options
) -> Iterator[list[MultiAgentEpisode]]:
    """What a multi-agent env runner's `sample` returns, call after call."""
    rng = np.random.default_rng(seed)
    numbers = itertools.count()
    players = [MultiAgentPlayer(next(numbers), *args, **options) for _ in range(num_envs)]
    left = [int(n) for n in rng.integers(1, longest + 1, num_envs)]
    while True:
        finished, ongoing = [], []
        for env, player in enumerate(players):
            to_play = fragment
            while to_play:
                steps = min(to_play, left[env])
                to_play -= steps
                left[env] -= steps
                player.play(steps, "" if left[env] else ENDS[int(rng.integers(2))])
                if not left[env]:
                    finished.append(player.cut())
                    player.start(next(numbers))
                    left[env] = int(rng.integers(1, longest + 1))
            if len(player.episode):
                ongoing.append(player.cut())
        yield finished + ongoing
