"""Ape-X-style DQN: many env runners fill sharded replay while a learner draws batches ahead.

Distributed prioritized replay as in Horgan et al., "Distributed Prioritized Experience Replay"
(2018), with RLlib's DQN: remote env runners, each with its own exploration; n-step 3; replay in
several Ray actors (`num_shards`) with batches drawn ahead (`prefetch`); many updates for each step
taken (`training_intensity`). RLlib's DQN takes turns: env runners sample, then the learner trains,
while the shards draw ahead. It is run twice, with RLlib's own buffer and with this package's, and
prints env steps and learner updates per second of both.

The defaults suit a laptop. `--paper` shows the paper's settings for a cluster, `--gpu-shards` the
same with each shard's tree on a share of a GPU; both print the config and need such a cluster to
run (`--paper --run`): **neither has been run here**. `--smoke` takes seconds.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from typing import Any

# The network is tiny: a second thread costs more than it brings. To be set before torch loads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

OURS = "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer"
RLLIBS = "PrioritizedEpisodeReplayBuffer"

LAPTOP: dict[str, Any] = {
    "environment": "CartPole-v1",
    "env_runners": 2,
    "envs_per_env_runner": 4,
    "train_batch_size": 512,
    "training_intensity": 64,
    "learning_starts": 1_000,
    "lr": 5e-4,
    "target_update": 500,
    "replay": {"capacity": 100_000, "alpha": 0.6, "beta": 0.4},
    "shards": {"num_shards": 4, "prefetch": 2},
}
# The paper: 360 actors, together 12,500 transitions a second, of which 50,000 before learning
# starts; 2 million kept; 19 batches of 512 a second, a new target network every 2,500 of them.
# RLlib counts both in steps taken.
PAPER = LAPTOP | {
    "environment": "ale_py:ALE/Pong-v5",
    "env_runners": 360,
    "envs_per_env_runner": 1,
    "training_intensity": 19 * 512 / 12_500,
    "learning_starts": 50_000,
    "lr": 0.00025 / 4,
    "target_update": 2_500 * 12_500 // 19,
    "replay": {"capacity": 2_000_000, "alpha": 0.6, "beta": 0.4},
    "shards": {
        "num_shards": 4,
        "prefetch": 4,
        "shard_placement": "spread",
        "num_cpus_per_shard": 1,
    },
}
# Each shard's tree on a quarter of a GPU. Ray accounts for the share; a GPU that is not there or a
# build without the GPU backend is an error, never a silent fallback.
GPU_SHARDS = {"num_gpus_per_shard": 0.25, "device": "gpu"}


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each side trains")
    parser.add_argument("--env-runners", type=int, help="remote env runners (default: 2)")
    parser.add_argument("--shards", type=int, help="replay actors (default: 4)")
    parser.add_argument("--paper", action="store_true", help="the paper's settings, for a cluster")
    parser.add_argument("--gpu-shards", action="store_true", help="each shard on a share of a GPU")
    parser.add_argument("--run", action="store_true", help="run what is otherwise only printed")
    parser.add_argument("--smoke", action="store_true", help="a run of seconds")
    return parser.parse_args()


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line asks for."""
    settings = dict(PAPER if args.paper else LAPTOP)
    if args.env_runners is not None:
        settings["env_runners"] = args.env_runners
    shards = dict(settings["shards"])
    if args.shards is not None:
        shards["num_shards"] = args.shards
    if args.gpu_shards:
        shards |= GPU_SHARDS
    if args.smoke:
        settings |= {"env_runners": 1, "learning_starts": 200, "train_batch_size": 64}
        shards["num_shards"] = 2
    return settings | {"shards": shards}


def epsilon_of(worker_index: int, num_workers: int) -> float:
    """The paper's exploration: a constant for each env runner, from 0.4 down to 0.4 ** 8."""
    return float(0.4 ** (1 + 7 * (worker_index - 1) / max(num_workers - 1, 1)))


def explore_as_in_the_paper(*, env_runner: Any, **_: Any) -> None:
    """Gives an env runner its own epsilon, in the place of RLlib's schedule."""
    from ray.rllib.utils.schedules.scheduler import Scheduler

    epsilon = epsilon_of(env_runner.worker_index, env_runner.config.num_env_runners)
    env_runner.module.epsilon_schedule = Scheduler(epsilon)


def dqn_config(settings: dict[str, Any], buffer: str) -> Any:
    """RLlib's DQN with these settings; all that differs between the sides is the buffer."""
    from ray.rllib.algorithms.dqn import DQNConfig

    import rllib_per_acc

    replay = {"type": buffer, **settings["replay"]}
    config = (
        DQNConfig()
        .environment(settings["environment"])
        .env_runners(
            num_env_runners=settings["env_runners"],
            num_envs_per_env_runner=settings["envs_per_env_runner"],
            rollout_fragment_length=50 // settings["envs_per_env_runner"],
        )
        .training(
            n_step=3,
            lr=settings["lr"],
            train_batch_size_per_learner=settings["train_batch_size"],
            training_intensity=settings["training_intensity"],
            num_steps_sampled_before_learning_starts=settings["learning_starts"],
            target_network_update_freq=settings["target_update"],
            replay_buffer_config=replay,
        )
        .callbacks(on_episode_start=explore_as_in_the_paper)
        .reporting(min_sample_timesteps_per_iteration=200, min_time_s_per_iteration=0)
        .debugging(log_level="ERROR")
    )
    # enable() puts what shards ask for (CPUs, GPUs) into Tune's placement groups.
    return rllib_per_acc.enable(config, **settings["shards"]) if buffer == OURS else config


def measure(config: Any, name: str, seconds: float) -> dict[str, float]:
    """Trains for some time after learning has begun; env steps and updates per second."""

    def updates_of(result: dict[str, Any]) -> float:
        trained = result.get("learners", {}).get("__all_modules__", {})
        rows = float(trained.get("num_module_steps_trained_lifetime", 0.0))
        return rows / config.total_train_batch_size

    algorithm = config.build_algo()
    try:
        result = algorithm.train()
        while not updates_of(result):
            result = algorithm.train()
        first, started = result, time.perf_counter()
        while (taken := time.perf_counter() - started) < seconds:
            result = algorithm.train()
        rates = {
            "env steps/s": (steps_of(result) - steps_of(first)) / taken,
            "learner updates/s": (updates_of(result) - updates_of(first)) / taken,
        }
        print_side(name, result, rates)
    finally:
        algorithm.stop()
    return rates


def steps_of(result: dict[str, Any]) -> float:
    """Env steps taken so far."""
    return float(result["env_runners"]["num_env_steps_sampled_lifetime"])


def print_side(name: str, result: dict[str, Any], rates: dict[str, float]) -> None:
    """The rates of one side, and what its shards did."""
    mean = result["env_runners"].get("episode_return_mean", float("nan"))
    print(f"\n{name}: " + ", ".join(f"{value:.1f} {what}" for what, value in rates.items()))
    print(f"  mean return {mean:.1f}")
    for index, shard in result["replay_buffer"].get("shards", {}).items():
        print(
            f"  shard {index}: {shard['steps']:,.0f} steps, {shard['bytes'] / 1e6:.1f} MB, "
            f"{shard['lost_steps']:.0f} lost, {shard['restarts']:.0f} restarts"
        )


def main() -> int:
    """Runs both sides and compares them; returns the exit code."""
    args = parse_arguments()
    settings = settings_of(args)
    if (args.paper or args.gpu_shards) and not args.run:
        print("For a cluster; run it there with --run:\n")
        for key, value in settings.items():
            print(f"  {key}: {value}")
        return 0
    import ray
    import ray.rllib

    for name in ("ray", "ray.rllib"):
        logging.getLogger(name).setLevel(logging.ERROR)
    ray.init(
        address=None if args.run else "local",
        num_cpus=None if args.run else settings["env_runners"] + 1,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    seconds = 2.0 if args.smoke else args.seconds
    try:
        theirs = measure(dqn_config(settings, RLLIBS), "RLlib's buffer", seconds)
        ours = measure(
            dqn_config(settings, OURS), f"{settings['shards']['num_shards']} shards", seconds
        )
    finally:
        ray.shutdown()
    print("\nours / RLlib's: " + ", ".join(f"{ours[w] / theirs[w]:.1f}x {w}" for w in ours))
    return 0 if ours["learner updates/s"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
