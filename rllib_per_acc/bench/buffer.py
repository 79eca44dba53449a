"""The RLlib buffer against RLlib's own: sample, update, add and memory."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

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
    buffers = {
        "rllib": PrioritizedEpisodeReplayBuffer(capacity, alpha=ALPHA),
        "rows": _ours(capacity, "rows"),
        "episodes": _ours(capacity, "episodes"),
    }
    calls = Calls(
        episodes(np.random.default_rng(0)),
        _sample,
        lambda buffer, td_errors: buffer.update_priorities(td_errors),
    )
    rows = [
        *operations("buffer", buffers, calls, capacity, repeats, settings.progress),
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


class Calls(NamedTuple):
    """What is done with buffers.

    Attributes:
        incoming: Episodes of `EPISODE_STEPS` steps, without end.
        sample: Samples from one.
        update: Updates its last sample with `BATCH` TD errors.
    """

    incoming: Iterator[Any]
    sample: Callable[[Any], Any]
    update: Callable[[Any, np.ndarray], Any]


def operations(
    section: str,
    buffers: dict[str, Any],
    calls: Calls,
    capacity: int,
    repeats: int,
    progress: Callable[[str], None],
) -> list[Any]:
    """Rows of a table: each operation of each of our buffers against RLlib's, full ones.

    Args:
        section: For the progress.
        buffers: `"rllib"`, and ours: `"rows"` and `"episodes"`.
        calls: What is done with them.
        capacity: Time steps that they keep.
        repeats: How often.
        progress: Is told what is going on.
    """
    rng = np.random.default_rng(0)
    for filled in range(0, capacity, 20 * EPISODE_STEPS):
        progress(f"{section}: filling {filled:,} of {capacity:,}")
        some = list(itertools.islice(calls.incoming, 20))
        for buffer in buffers.values():
            buffer.add(some)
    for buffer in buffers.values():  # spread the priorities before anything is timed
        for _ in range(20):
            calls.sample(buffer)
            calls.update(buffer, rng.exponential(size=BATCH))

    def sampled() -> np.ndarray:
        for buffer in buffers.values():
            calls.sample(buffer)
        return rng.exponential(size=BATCH)

    measured: list[tuple[str, Callable[[], Any], Callable[[Any, Any], Any]]] = [
        (f"sample({BATCH})", lambda: None, lambda buffer, _: calls.sample(buffer)),
        (f"update_priorities({BATCH})", sampled, calls.update),
        (
            f"add({EPISODE_STEPS} steps), evicting",
            lambda: next(calls.incoming),
            lambda buffer, episode: buffer.add(episode),
        ),
    ]
    rows = []
    for what, fresh, call in measured:
        progress(f"{section}: {what}")
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
