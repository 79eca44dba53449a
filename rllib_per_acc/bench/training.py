"""A DQN training step with RLlib's buffer and with ours, in one process, step by step in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import ray
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.utils import metrics as keys

from rllib_per_acc.bench.buffer import ALPHA, BATCH, BETA, GAMMA, N_STEP
from rllib_per_acc.bench.report import Settings, Table
from rllib_per_acc.bench.timing import Timing, interleaved
from rllib_per_acc.rllib.config import enable

CAPACITY = 500_000
FIRST_STEPS = 1_000
OURS = "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer"
SIDES: dict[str, dict[str, Any]] = {
    "rllib": {"type": "PrioritizedEpisodeReplayBuffer"},
    "rows": {"type": OURS, "num_shards": 0},
    "rows, in an actor": {"type": OURS},
    "episodes": {"type": OURS, "num_shards": 0, "sample_format": "episodes"},
    "episodes, in an actor": {"type": OURS, "sample_format": "episodes"},
}
PHASES = {
    "env steps": keys.ENV_RUNNER_SAMPLING_TIMER,
    "add": keys.REPLAY_BUFFER_ADD_DATA_TIMER,
    "sample": keys.REPLAY_BUFFER_SAMPLE_TIMER,
    "learner": keys.LEARNER_UPDATE_TIMER,
    "update priorities": keys.REPLAY_BUFFER_UPDATE_PRIOS_TIMER,
    "sync weights": keys.SYNCH_WORKER_WEIGHTS_TIMER,
}


def dqn_config(replay_buffer: dict[str, Any]) -> DQNConfig:
    """DQN on CartPole: 8 environments, batch 512, a local learner."""
    return (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(num_envs_per_env_runner=8)
        .training(
            replay_buffer_config={
                "capacity": CAPACITY,
                "alpha": ALPHA,
                "beta": BETA,
                **replay_buffer,
            },
            train_batch_size_per_learner=BATCH,
            n_step=N_STEP,
            gamma=GAMMA,
            num_steps_sampled_before_learning_starts=FIRST_STEPS,
        )
    )


@contextmanager
def filled(
    configs: dict[str, Any],
    first_steps: int,
    steps_sampled: Callable[[Any], int],
    settings: Settings,
) -> Iterator[dict[str, Any]]:
    """Algorithms with some steps in their buffers, in one Ray, torch on one thread.

    Args:
        configs: Of the algorithms, by name.
        first_steps: How many env steps to sample.
        steps_sampled: How many an algorithm has sampled.
        settings: Of the benchmark.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    algorithms = {name: config.build_algo() for name, config in configs.items()}
    try:
        for name, algorithm in algorithms.items():
            settings.progress(f"training: first {first_steps:,} env steps, {name}")
            while steps_sampled(algorithm) < first_steps:
                algorithm.training_step()
        settings.progress("training: timing")
        yield algorithms
    finally:
        for algorithm in algorithms.values():
            algorithm.stop()
        ray.shutdown()
        torch.set_num_threads(threads)


def time_steps(algorithms: dict[str, Any], repeats: int) -> dict[str, Timing]:
    """Times a training step of each, in turn."""
    return interleaved(
        {name: _stepping(algorithm) for name, algorithm in algorithms.items()},
        lambda: None,
        repeats=repeats,
    )


def run(settings: Settings) -> list[Table]:
    """The table of training steps, and where their time goes; torch on one thread."""
    configs: dict[str, Any] = {name: dqn_config(buffer) for name, buffer in SIDES.items()}
    configs["rows, enabled"] = enable(configs["rows"])
    with filled(configs, FIRST_STEPS, _steps_sampled, settings) as algorithms:
        timings = time_steps(algorithms, 5 if settings.quick else 40)
        phases: list[list[Any]] = [[name, *_phases(a)] for name, a in algorithms.items()]
    steps = [
        (name, 1e3 * timing.median, timing.times_faster_than(timings["rllib"]))
        for name, timing in timings.items()
    ]
    setting = f"CartPole, 8 environments, local learner, batch {BATCH}, n_step {N_STEP}"
    return [
        Table(
            name="training",
            title=f"A DQN training step: {setting}",
            columns=("buffer", "ms", "times faster"),
            rows=steps,
            notes=("Medians; ratios are medians over the repeats. torch runs on one thread.",),
        ),
        Table(
            name="training_phases",
            title="Where the time of a step goes, by RLlib's own timers (ms)",
            columns=("buffer", *PHASES),
            rows=phases,
        ),
    ]


def _stepping(algorithm: Any) -> Callable[[None], object]:
    return lambda _: algorithm.training_step()


def _phases(algorithm: Any) -> list[float]:
    peek = algorithm.metrics.peek
    return [
        1e3 * float(np.mean(peek((keys.TIMERS, key), default=np.nan))) for key in PHASES.values()
    ]


def _steps_sampled(algorithm: Any) -> int:
    return int(
        algorithm.metrics.peek(
            (keys.ENV_RUNNER_RESULTS, keys.NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0
        )
    )
