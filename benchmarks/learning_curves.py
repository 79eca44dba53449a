"""Learning with RLlib's buffer and with ours: the curves should agree.

Trains DQN on CartPole-v1 and SAC on Pendulum-v1, with the same hyperparameters and several seeds,
with RLlib's `PrioritizedEpisodeReplayBuffer` and with this package's buffer: rows and one-step
episodes in the algorithm's process, and rows in a Ray actor. Writes every curve to a JSON file
(runs that it already holds are not repeated) and draws mean and range over the seeds.

    python benchmarks/learning_curves.py docs/learning_curves.json docs/learning_curves.png

One run takes half a minute to three minutes on one core, and with RLlib's buffer three times as
long: about an hour for three seeds of everything. `--seeds 1` gives a first look.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import pathlib
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny networks; to be set before torch loads

import numpy as np
import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

import rllib_per_acc

OURS = rllib_per_acc.AccPrioritizedEpisodeReplayBuffer
BUFFERS: dict[str, dict[str, Any]] = {
    "RLlib": {"type": "PrioritizedEpisodeReplayBuffer"},
    "ours, rows": {"type": OURS, "num_shards": 0},
    "ours, episodes": {"type": OURS, "num_shards": 0, "sample_format": "episodes"},
    "ours, rows in an actor": {"type": OURS},
}


def dqn_cartpole(buffer: dict[str, Any]) -> AlgorithmConfig:
    """DQN on CartPole-v1; a random policy gets about 22, the best possible is 500."""
    return (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(num_envs_per_env_runner=8, rollout_fragment_length=4)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[64], fcnet_activation="relu", head_fcnet_hiddens=[64]
            )
        )
        .training(
            lr=1e-3,
            train_batch_size_per_learner=128,
            training_intensity=32,
            tau=0.01,
            target_network_update_freq=0,
            epsilon=[(0, 1.0), (5_000, 0.02)],
            num_steps_sampled_before_learning_starts=1_000,
            replay_buffer_config={"capacity": 20_000, "alpha": 0.6, "beta": 0.4, **buffer},
        )
    )


def sac_pendulum(buffer: dict[str, Any]) -> AlgorithmConfig:
    """SAC on Pendulum-v1; a random policy gets about -1,200, a good one about -150."""
    return (
        SACConfig()
        .environment("Pendulum-v1")
        .env_runners(num_envs_per_env_runner=1, rollout_fragment_length=1)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[64, 64], fcnet_activation="relu", head_fcnet_hiddens=[]
            )
        )
        .training(
            actor_lr=1e-3,
            critic_lr=1e-3,
            alpha_lr=1e-3,
            lr=None,
            train_batch_size_per_learner=64,
            n_step=1,
            tau=0.01,
            num_steps_sampled_before_learning_starts=500,
            replay_buffer_config={"capacity": 20_000, "alpha": 0.6, "beta": 0.4, **buffer},
        )
    )


TASKS = {
    "DQN, CartPole-v1": (dqn_cartpole, 8_000, 500),
    "SAC, Pendulum-v1": (sac_pendulum, 4_000, 200),
}
"""By name the config, the env steps to train for, and the steps between two points."""


def curve(config: AlgorithmConfig, seed: int, env_steps: int, every: int) -> list[list[float]]:
    """Pairs of env steps and mean episode return of one run."""
    algorithm = (
        config.debugging(seed=seed, log_level="ERROR")
        .reporting(
            metrics_num_episodes_for_smoothing=10,
            min_sample_timesteps_per_iteration=every,
            min_time_s_per_iteration=0,
        )
        .build_algo()
    )
    points: list[list[float]] = []
    try:
        while not points or points[-1][0] < env_steps:
            sampled = algorithm.train()["env_runners"]
            steps = float(sampled["num_env_steps_sampled_lifetime"])
            points.append([steps, float(sampled.get("episode_return_mean", np.nan))])
    finally:
        algorithm.stop()
    return points


def train_all(path: pathlib.Path, seeds: int) -> dict[str, list[list[float]]]:
    """Runs what is missing in the file at `path`, and adds it there run by run."""
    curves = json.loads(path.read_text()) if path.exists() else {}
    for seed in range(seeds):
        for task, (make, env_steps, every) in TASKS.items():
            for name, buffer in BUFFERS.items():
                run = f"{task} | {name} | {seed}"
                if run not in curves:
                    started = time.monotonic()
                    curves[run] = curve(make(dict(buffer)), seed, env_steps, every)
                    took = time.monotonic() - started
                    print(f"{run}: {curves[run][-1][1]:.0f} after {took:.0f} s", flush=True)
                    path.write_text(json.dumps(curves, indent=1) + "\n")
    return curves


def draw(curves: dict[str, list[list[float]]], path: pathlib.Path) -> None:
    """One panel for each task: for each buffer the mean over the seeds, and their range."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(TASKS), figsize=(6 * len(TASKS), 4), layout="constrained")
    for axis, task in zip(axes, TASKS, strict=True):
        for name in BUFFERS:
            runs = [
                np.array(c) for run, c in curves.items() if run.startswith(f"{task} | {name} |")
            ]
            if not runs:
                continue
            steps = np.linspace(0, min(run[-1, 0] for run in runs), 60)
            returns = np.array([np.interp(steps, *_known(run)) for run in runs])
            (line,) = axis.plot(steps, returns.mean(0), label=f"{name} ({len(runs)} seeds)")
            axis.fill_between(
                steps, returns.min(0), returns.max(0), color=line.get_color(), alpha=0.12
            )
        axis.set(title=task, xlabel="env steps", ylabel="mean episode return")
        axis.legend()
    figure.savefig(path, dpi=110)


def _known(run: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    known = run[~np.isnan(run[:, 1])]
    return known[:, 0], known[:, 1]


def main() -> None:
    """Trains and draws."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("curves", type=pathlib.Path, help="JSON file of curves, read and written")
    parser.add_argument("picture", type=pathlib.Path, help="PNG file to draw")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    try:
        draw(train_all(arguments.curves, arguments.seeds), arguments.picture)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
