"""A multi-agent environment whose rewards say which agent took which step."""

from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.env.multi_agent_env import MultiAgentEnv

AGENTS = ("a", "b", "c")


def module_of(agent_id: str, *_: Any, **__: Any) -> str:
    """Agents a and b share a module."""
    return "m2" if agent_id == "c" else "m1"


class RewardsNameSteps(MultiAgentEnv):
    """The k-th step ever is worth 10 k and 3 for each agent before; b leaves every episode early.

    Episodes last 2 to 12 steps and end either way.
    """

    def __init__(self, config: Any = None) -> None:
        super().__init__()
        self.possible_agents = list(AGENTS)
        space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
        actions: gym.Space = gym.spaces.Discrete(2)
        if (config or {}).get("continuous"):
            actions = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_spaces = dict.fromkeys(AGENTS, space)
        self.action_spaces = dict.fromkeys(AGENTS, actions)
        self._rng = np.random.default_rng(0)
        self._steps_ever = 0

    def _observe(self) -> dict[str, np.ndarray]:
        return {a: self._rng.uniform(-1, 1, 3).astype(np.float32) for a in self.agents}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        self.agents = list(AGENTS)
        self._left = int(self._rng.integers(2, 13))
        self._b_left = int(self._rng.integers(1, self._left))
        return self._observe(), {}

    def step(self, action_dict: dict[str, Any]) -> tuple:
        self._steps_ever += 1
        self._left -= 1
        self._b_left -= 1
        assert set(action_dict) == set(self.agents)
        observations = self._observe()
        rewards = {a: 10.0 * self._steps_ever + 3 * AGENTS.index(a) for a in self.agents}
        done, even = self._left == 0, self._steps_ever % 2 == 0
        terminateds = {"__all__": done and even}
        if self._b_left == 0:
            terminateds["b"] = True
            self.agents.remove("b")
        return observations, rewards, terminateds, {"__all__": done and not even}, {}
