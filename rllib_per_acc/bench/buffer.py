"""The RLlib buffer against RLlib's own: sample, update, add, memory, and a DQN training step."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import (
    PrioritizedEpisodeReplayBuffer,
)

from rllib_per_acc.bench.timing import interleave
from rllib_per_acc.rllib.episode_buffer import AccPrioritizedEpisodeReplayBuffer

OBSERVATION_SPACE = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
ACTION_SPACE: Any = gym.spaces.Discrete(2)
EPISODE_STEPS = 50
BATCH = 512
ALPHA, BETA, GAMMA, N_STEP = 0.6, 0.4, 0.99, 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """One row of the table.

    Attributes:
        name: What was measured.
        unit: Of the two values: `"ms"` or `"bytes"`.
        rllib: RLlib's value.
        ours: Our value.
    """

    name: str
    unit: str
    rllib: float
    ours: float

    @property
    def ratio(self) -> float:
        """How many times less ours is."""
        return self.rllib / self.ours


def episodes(rng: np.random.Generator) -> Iterator[SingleAgentEpisode]:
    """CartPole-sized episodes of `EPISODE_STEPS` steps with random content, without end."""
    for number in itertools.count():
        yield SingleAgentEpisode(
            id_=f"episode-{number}",
            observations=list(rng.normal(size=(EPISODE_STEPS + 1, 4)).astype(np.float32)),
            observation_space=OBSERVATION_SPACE,
            actions=list(rng.integers(0, 2, EPISODE_STEPS)),
            action_space=ACTION_SPACE,
            rewards=rng.normal(size=EPISODE_STEPS).tolist(),
            terminated=True,
            len_lookback_buffer=0,
        ).to_numpy()


def _ours(capacity: int, sample_format: str = "rows") -> AccPrioritizedEpisodeReplayBuffer:
    return AccPrioritizedEpisodeReplayBuffer(
        capacity, alpha=ALPHA, num_shards=0, sample_format=sample_format
    )


def _sample(buffer: Any) -> Any:
    return buffer.sample(num_items=BATCH, n_step=N_STEP, gamma=GAMMA, beta=BETA)


def compare_operations(
    capacity: int, repeats: int, progress: Callable[[], None]
) -> list[Comparison]:
    """`sample`, `update_priorities` and `add` of full buffers, in this process."""
    rng = np.random.default_rng(0)
    incoming = episodes(rng)
    buffers = {
        "rllib": PrioritizedEpisodeReplayBuffer(capacity, alpha=ALPHA),
        "rows": _ours(capacity),
        "episodes": _ours(capacity, "episodes"),
    }
    for _ in range(0, capacity, 20 * EPISODE_STEPS):
        chunk = list(itertools.islice(incoming, 20))
        for buffer in buffers.values():
            buffer.add(chunk)
        progress()
    for buffer in buffers.values():  # spread the priorities before anything is timed
        for _ in range(20):
            _sample(buffer)
            buffer.update_priorities(rng.exponential(size=BATCH))

    def sampling(buffer: Any) -> Callable[[], Any]:
        return lambda: _sample(buffer)

    def updating(buffer: Any) -> Callable[[], Any]:
        _sample(buffer)
        td_errors = rng.exponential(size=BATCH)
        return lambda: buffer.update_priorities(td_errors)

    def adding(buffer: Any) -> Callable[[], Any]:
        episode = next(incoming)
        return lambda: buffer.add(episode)

    rows = []
    for what, prepare in (
        (f"sample({BATCH})", sampling),
        (f"update_priorities({BATCH})", updating),
        (f"add({EPISODE_STEPS} steps), evicting", adding),
    ):
        medians = interleave(
            {name: lambda b=buffer, p=prepare: p(b) for name, buffer in buffers.items()},  # type: ignore[misc]
            repeats,
            progress=progress,
        )
        rows += [
            Comparison(f"{what}, {name}", "ms", 1e3 * medians["rllib"], 1e3 * medians[name])
            for name in ("rows", "episodes")
        ]
    return rows


def compare_memory(capacity: int) -> Comparison:
    """Resident bytes per step of a full buffer, each side in a process of its own."""
    rllib, ours = (
        float(
            subprocess.run(
                [sys.executable, "-m", "rllib_per_acc.bench.memory", side, str(capacity)],
                check=True,
                capture_output=True,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            ).stdout.splitlines()[-1]
        )
        for side in ("rllib", "ours")
    )
    return Comparison("memory per step", "bytes", rllib, ours)
