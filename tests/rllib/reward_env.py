"""An environment whose reward says which step it was."""

from typing import Any

import gymnasium as gym
import numpy as np


class RewardNamesStep(gym.Env):
    """The k-th step ever taken is worth 10 k; episodes last 1 to 12 steps and end either way."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config: Any = None) -> None:
        self._rng = np.random.default_rng(0)
        self._steps_ever = 0

    def _observe(self) -> np.ndarray:
        return self._rng.uniform(-1, 1, 3).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        self._left = int(self._rng.integers(1, 13))
        return self._observe(), {}

    def step(self, action: int) -> tuple:
        self._steps_ever += 1
        self._left -= 1
        done = self._left == 0
        terminated = done and self._steps_ever % 2 == 0
        return self._observe(), 10.0 * self._steps_ever, terminated, done and not terminated, {}
