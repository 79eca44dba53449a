"""RLlib episodes whose numbers say where they come from, cut and interleaved as env runners do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

OBSERVATIONS = gym.spaces.Box(-1e6, 1e6, (4,), np.float32)
ACTIONS = gym.spaces.Discrete(2)
ENDS = ("terminated", "truncated")


def observation_of(number: int, t: int) -> np.ndarray:
    """The observation at time `t` of episode `number`: its first two entries name both."""
    return np.array([number, t, math.sin(number + 7 * t), math.cos(t)], np.float32)


def action_of(number: int, t: int) -> np.int64:
    return np.int64((number + t // 2) % 2)


def reward_of(number: int, t: int) -> float:
    """The reward of the step that leaves time `t`; no two steps share one."""
    return math.sin(12.9898 * number + 78.233 * t) * 10.0


class Player:
    """Plays one numbered episode after another into `SingleAgentEpisode`s.

    `cut()` hands over what was played since the last cut, as an env runner's `sample()` does.
    """

    def __init__(
        self,
        number: int,
        *,
        lookback: int = 1,
        to_numpy: bool = True,
        observation: Callable[[int, int], Any] = observation_of,
        action: Callable[[int, int], Any] = action_of,
        observation_space: gym.Space = OBSERVATIONS,
        action_space: gym.Space = ACTIONS,
        extras: bool = False,
    ) -> None:
        self.lookback, self.to_numpy, self.extras = lookback, to_numpy, extras
        self.observation, self.action = observation, action
        self.spaces = {"observation_space": observation_space, "action_space": action_space}
        self.start(number)

    def start(self, number: int) -> None:
        self.number = number
        self.episode = SingleAgentEpisode(id_=f"episode-{number}", **self.spaces)
        self.episode.add_env_reset(self.observation(number, 0), {"t": 0})

    def play(self, steps: int, end: str = "") -> None:
        """Plays `steps` steps; the last one ends the episode if `end` says how."""
        for i in range(steps):
            t, last = self.episode.t, i == steps - 1
            self.episode.add_env_step(
                self.observation(self.number, t + 1),
                self.action(self.number, t),
                reward_of(self.number, t),
                {"t": t + 1},
                terminated=last and end == "terminated",
                truncated=last and end == "truncated",
                extra_model_outputs=self.outputs(t),
            )

    def outputs(self, t: int) -> dict[str, Any] | None:
        """What the module gives beside the action of step `t`."""
        if not self.extras:
            return None
        return {"logp": np.float32(-t), "probs": np.full(2, t, np.float32)}

    def cut(self) -> SingleAgentEpisode:
        """What was played since the last cut; a finished episode must be followed by `start`."""
        chunk = self.episode
        if not chunk.is_done:
            self.episode = chunk.cut(len_lookback_buffer=self.lookback)
        return chunk.to_numpy() if self.to_numpy else chunk


def make_episode(number: int, length: int, end: str = "", **options: Any) -> SingleAgentEpisode:
    """A whole episode in one piece."""
    player = Player(number, **options)
    player.play(length, end)
    return player.cut()


def play(
    num_envs: int, fragment: int, *, longest: int = 30, seed: int = 0, **options: Any
) -> Iterator[list[SingleAgentEpisode]]:
    """What an env runner's `sample(fragment * num_envs)` returns, call after call.

    Finished episodes come first, then the pieces of ongoing ones; episodes last 1 to `longest`
    steps and end either way.
    """
    rng = np.random.default_rng(seed)
    players = [Player(number, **options) for number in range(num_envs)]
    left = [int(n) for n in rng.integers(1, longest + 1, num_envs)]
    next_number = num_envs
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
                    player.start(next_number)
                    next_number += 1
                    left[env] = int(rng.integers(1, longest + 1))
            if len(player.episode):
                ongoing.append(player.cut())
        yield finished + ongoing


def mixed_episodes(**options: Any) -> list[SingleAgentEpisode]:
    """Eight whole episodes of 1 to 12 steps, finished either way or not at all."""
    ends = ("terminated", "truncated", "")
    lengths = (5, 1, 12, 3, 2, 8, 1, 4)
    return [make_episode(n, length, ends[n % 3], **options) for n, length in enumerate(lengths)]
