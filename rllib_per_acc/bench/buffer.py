"""The RLlib buffer against RLlib's own: sample, update, add and memory."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import (
    PrioritizedEpisodeReplayBuffer,
)

from rllib_per_acc.bench.report import Settings, Table
from rllib_per_acc.bench.timing import interleaved
from rllib_per_acc.rllib.episode_buffer import AccPrioritizedEpisodeReplayBuffer

OBSERVATION_SPACE = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
ACTION_SPACE: Any = gym.spaces.Discrete(2)
EPISODE_STEPS = 50
SIDES = ("rllib", "ours")
BATCH = 512
ALPHA, BETA, GAMMA, N_STEP = 0.6, 0.4, 0.99, 3


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


def _ours(capacity: int, sample_format: str) -> AccPrioritizedEpisodeReplayBuffer:
    return AccPrioritizedEpisodeReplayBuffer(
        capacity, alpha=ALPHA, num_shards=0, sample_format=sample_format
    )


def _sample(buffer: Any) -> Any:
    return buffer.sample(num_items=BATCH, n_step=N_STEP, gamma=GAMMA, beta=BETA)


def run(settings: Settings) -> list[Table]:
    """The table of operations of full buffers in this process, and of their memory."""
    capacity, repeats = (20_000, 5) if settings.quick else (500_000, 25)
    settings.progress("buffer: memory")
    with ThreadPoolExecutor() as pool:  # of processes that take seconds to import RLlib
        memory = dict(zip(SIDES, pool.map(partial(_memory, capacity=capacity), SIDES), strict=True))
    rows = [
        *_operations(capacity, repeats, settings.progress),
        (
            "resident bytes per step",
            memory["rllib"],
            memory["ours"],
            memory["rllib"] / memory["ours"],
        ),
    ]
    return [
        Table(
            name="buffer",
            title=(
                f"RLlib's PrioritizedEpisodeReplayBuffer and ours: {capacity:,} CartPole-sized "
                f"steps, batch {BATCH}, n_step {N_STEP}, in process"
            ),
            columns=("operation", "RLlib", "ours", "ratio"),
            rows=rows,
            notes=("Times in milliseconds, medians; ratios are medians over the repeats.",),
        )
    ]


def _operations(capacity: int, repeats: int, progress: Callable[[str], None]) -> list[Any]:
    rng = np.random.default_rng(0)
    incoming = episodes(rng)
    buffers: dict[str, Any] = {
        "rllib": PrioritizedEpisodeReplayBuffer(capacity, alpha=ALPHA),
        "rows": _ours(capacity, "rows"),
        "episodes": _ours(capacity, "episodes"),
    }
    for filled in range(0, capacity, 20 * EPISODE_STEPS):
        progress(f"buffer: filling {filled:,} of {capacity:,}")
        some = list(itertools.islice(incoming, 20))
        for buffer in buffers.values():
            buffer.add(some)
    for buffer in buffers.values():  # spread the priorities before anything is timed
        for _ in range(20):
            _sample(buffer)
            buffer.update_priorities(rng.exponential(size=BATCH))

    def sampled() -> np.ndarray:
        for buffer in buffers.values():
            _sample(buffer)
        return rng.exponential(size=BATCH)

    measured: list[tuple[str, Callable[[], Any], Callable[[Any, Any], Any]]] = [
        (f"sample({BATCH})", lambda: None, lambda buffer, _: _sample(buffer)),
        (
            f"update_priorities({BATCH})",
            sampled,
            lambda buffer, td_errors: buffer.update_priorities(td_errors),
        ),
        (
            f"add({EPISODE_STEPS} steps), evicting",
            lambda: next(incoming),
            lambda buffer, episode: buffer.add(episode),
        ),
    ]
    rows = []
    for what, fresh, call in measured:
        progress(f"buffer: {what}")
        timings = interleaved(
            {name: partial(call, buffer) for name, buffer in buffers.items()},
            fresh,
            repeats=repeats,
            stretch=0.0,  # an update belongs to the sample just before it
        )
        rows += [
            (
                f"{what}, {name}",
                1e3 * timings["rllib"].median,
                1e3 * timings[name].median,
                timings[name].times_faster_than(timings["rllib"]),
            )
            for name in ("rows", "episodes")
        ]
    return rows


def _memory(side: str, capacity: int) -> float:
    """Resident bytes per step of a full buffer, in a process of its own."""
    printed = subprocess.run(
        [sys.executable, "-m", "rllib_per_acc.bench.memory", side, str(capacity)],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ).stdout
    return float(printed.splitlines()[-1])
