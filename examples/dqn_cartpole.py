"""DQN learns CartPole-v1 with its replay buffer in a Ray actor.

All that differs from plain RLlib is `replay_buffer_config`. Prints one line per iteration and a
summary, and exits with an error when the mean return stays below the target (a random policy
gets about 22). `--smoke` takes seconds and checks the machinery, not the learning; `--baseline`
trains with RLlib's own buffer instead, to compare the times.
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

TARGET_RETURN = 150
MAX_ENV_STEPS = 20_000
SMOKE_ENV_STEPS = 1_200
STEPS_PER_ITERATION = 1_000


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: 0)")
    parser.add_argument(
        "--shards",
        type=int,
        choices=(0, 1),
        default=1,
        help="1: the rows live in a Ray actor (default); 0: in this process",
    )
    parser.add_argument(
        "--sample-format",
        choices=("rows", "episodes"),
        default="rows",
        help="how samples look to RLlib (default: rows)",
    )
    parser.add_argument("--baseline", action="store_true", help="use RLlib's own buffer")
    parser.add_argument("--smoke", action="store_true", help="a run of seconds")
    return parser.parse_args()


def replay_buffer_config(args: argparse.Namespace) -> dict[str, Any]:
    """The one entry that chooses the buffer."""
    config = {"capacity": 50_000, "alpha": 0.6, "beta": 0.4}
    if args.baseline:
        return {"type": "PrioritizedEpisodeReplayBuffer", **config}
    return {
        "type": "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer",
        "num_shards": args.shards,
        "sample_format": args.sample_format,
        "seed": args.seed,
        **config,
    }


def dqn_config(args: argparse.Namespace) -> Any:
    """DQN as RLlib has it, sized for CartPole."""
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    return (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8, rollout_fragment_length=4)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[64], fcnet_activation="relu", head_fcnet_hiddens=[64]
            )
        )
        .training(
            lr=1e-3,
            train_batch_size_per_learner=128,
            training_intensity=32,  # each step is trained on 32 times on average
            num_steps_sampled_before_learning_starts=1_000,
            epsilon=[(0, 1.0), (5_000, 0.02)],
            tau=0.01,
            target_network_update_freq=0,  # a small step of the target after every update
            replay_buffer_config=replay_buffer_config(args),
        )
        .reporting(
            min_sample_timesteps_per_iteration=STEPS_PER_ITERATION,
            min_time_s_per_iteration=0,
            metrics_num_episodes_for_smoothing=20,
        )
        .debugging(seed=args.seed, log_level="ERROR")
    )


def print_iteration(result: dict[str, Any], replay_steps: int, seconds: float) -> None:
    """One line of progress."""
    sampled = result["env_runners"]
    milliseconds = [
        1e3 * result["timers"].get(name, float("nan"))
        for name in (
            "replay_buffer_add_data_timer",
            "replay_buffer_sampling_timer",
            "replay_buffer_update_prios_timer",
            "learner_update_timer",
        )
    ]
    print(
        f"{result['training_iteration']:>4}"
        f"{int(sampled['num_env_steps_sampled_lifetime']):>10,}"
        f"{sampled.get('episode_return_mean', float('nan')):>8.1f}"
        f"{replay_steps:>9,} |"
        + "".join(f"{ms:>8.2f}" for ms in milliseconds)
        + f" |{seconds:>6.0f} s",
        flush=True,
    )


def train(algorithm: Any, max_env_steps: int, target: float) -> tuple[float, int]:
    """Trains until the target or the last step; returns the last mean return and the env steps."""
    started = time.perf_counter()
    print(
        "\n               mean   replay |  milliseconds a call (running means)\n"
        "iter env steps return    steps |     add  sample  update learner |  time",
        flush=True,
    )
    while True:
        result = algorithm.train()
        mean_return = result["env_runners"].get("episode_return_mean", float("nan"))
        env_steps = int(result["env_runners"]["num_env_steps_sampled_lifetime"])
        print_iteration(
            result,
            algorithm.local_replay_buffer.get_num_timesteps(),
            time.perf_counter() - started,
        )
        if mean_return >= target or env_steps >= max_env_steps:
            return mean_return, env_steps


def buffer_problems(buffer: Any, args: argparse.Namespace, env_steps: int) -> list[str]:
    """What a working buffer would not show, after a line that says where it ran."""
    if args.baseline:
        print("replay: RLlib's own buffer, in this process")
        return []
    (shard,) = buffer.get_shard_info()
    masses = buffer.get_priorities()["mass"]
    where = f"Ray actor, pid {shard['pid']}" if args.shards else "this process"
    print(
        f"replay: {where}, tree on the {shard['device']}; {shard['steps']:,} steps stored, "
        f"{shard['steps_sampled']:,} sampled, priorities ** alpha from {masses.min():.2g} "
        f"to {masses.max():.2g}"
    )
    problems = []
    if args.shards and shard["pid"] == os.getpid():
        problems.append("the rows are in this process, not in an actor")
    if shard["steps_added"] != env_steps:
        problems.append(f"{env_steps} env steps were taken, but {shard['steps_added']} stored")
    if not shard["steps_sampled"]:
        problems.append("nothing was sampled")
    if masses.min() == masses.max():
        problems.append("no priority was ever updated")
    return problems


def main() -> int:
    """Trains, sums up, and returns the exit code."""
    args = parse_arguments()
    started = time.perf_counter()
    print("Importing RLlib and starting Ray (up to a minute) ...", flush=True)
    import ray
    import ray.rllib

    # RLlib announces its new API stack and its own deprecated calls as warnings.
    for name in ("ray", "ray.rllib"):
        logging.getLogger(name).setLevel(logging.ERROR)
    ray.init(
        address="local",
        num_cpus=1,
        num_gpus=0,
        object_store_memory=200 * 1024**2,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    try:
        algorithm = dqn_config(args).build_algo()
        print(f"Ready after {time.perf_counter() - started:.0f} s.", end=" ")
        if args.smoke:
            print(f"A smoke run of {SMOKE_ENV_STEPS:,} env steps.")
        else:
            print(
                f"Training until the mean return of 20 episodes is {TARGET_RETURN} (random: 22), "
                f"at most {MAX_ENV_STEPS:,} env steps;\n"
                "this takes about two minutes on a busy machine with two cores."
            )
        mean_return, env_steps = train(
            algorithm,
            SMOKE_ENV_STEPS if args.smoke else MAX_ENV_STEPS,
            float("inf") if args.smoke else TARGET_RETURN,
        )
        print(
            f"\n{env_steps:,} env steps in {time.perf_counter() - started:.0f} s, set-up included"
        )
        problems = buffer_problems(algorithm.local_replay_buffer, args, env_steps)
        algorithm.stop()
    finally:
        ray.shutdown()
    if not args.smoke and not mean_return >= TARGET_RETURN:
        problems.append(f"the mean return is {mean_return:.1f}, expected {TARGET_RETURN}")
    for problem in problems:
        print(f"FAILED: {problem}")
    if not problems:
        print("OK" if args.smoke else f"OK: learned, the mean return is {mean_return:.1f}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
