"""A Tune sweep over settings of the replay buffer, with a table of the results.

DQN on CartPole-v1 for every pair of `alpha` and `num_shards` in `replay_buffer_config`, two
trials at a time. Each trial has a buffer of its own in Ray actors, which end with the trial; what
the table says of it comes from the buffer itself. Trials with a low return are stopped early
(ASHA), and checkpoints hold the buffer, so that `--resume FOLDER` goes on with an interrupted
sweep where it was. `--smoke` takes seconds and checks the machinery, not the learning.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
from typing import Any

# The network is tiny: a second thread costs more than it brings. To be set before torch loads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ENV_STEPS = 10_000
STEPS_PER_ITERATION = 1_000
SMOKE_STEPS_PER_ITERATION = 200


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.0, 0.6], help="exponents")
    parser.add_argument(
        "--shards", type=int, nargs="+", default=[0, 1, 2], help="numbers of actors"
    )
    parser.add_argument("--storage", help="where checkpoints go (default: a temporary folder)")
    parser.add_argument("--resume", metavar="FOLDER", help="of a sweep that was interrupted")
    parser.add_argument("--smoke", action="store_true", help="two short trials")
    return parser.parse_args()


def report_buffer(*, algorithm: Any, result: dict[str, Any], **_: Any) -> None:
    """Adds what the trial's buffer says of itself to the result."""
    shards = algorithm.local_replay_buffer.get_shard_info()
    result["buffer"] = {
        "actors": sum(shard["pid"] != os.getpid() for shard in shards),
        "steps": sum(shard["steps"] for shard in shards),
        "highest_mass": float(algorithm.local_replay_buffer.get_priorities()["mass"].max()),
    }
    mean_return = result["env_runners"].get("episode_return_mean")
    result["mean_return"] = float("-inf") if mean_return is None else mean_return


def sweep_config(args: argparse.Namespace) -> Any:
    """DQN, enabled, with the values to try in the buffer's keys."""
    from ray import tune
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    import rllib_per_acc

    steps = SMOKE_STEPS_PER_ITERATION if args.smoke else STEPS_PER_ITERATION
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8, rollout_fragment_length=4)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64], head_fcnet_hiddens=[64]))
        .training(
            lr=1e-3,
            train_batch_size_per_learner=128,
            training_intensity=16,
            num_steps_sampled_before_learning_starts=steps // 2,
            epsilon=[(0, 1.0), (5_000, 0.02)],
            tau=0.01,
            target_network_update_freq=0,
            store_buffer_in_checkpoints=True,
        )
        .reporting(min_sample_timesteps_per_iteration=steps, min_time_s_per_iteration=0)
        .callbacks(on_train_result=report_buffer)
        .debugging(seed=0, log_level="ERROR")
    )
    return rllib_per_acc.enable(
        config,
        capacity=50_000,
        beta=0.4,
        alpha=tune.grid_search(args.alphas[-1:] if args.smoke else args.alphas),
        num_shards=tune.grid_search([0, 2] if args.smoke else args.shards),
    )


def run_sweep(args: argparse.Namespace, storage: str) -> Any:
    """Runs the trials; their results."""
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    config = sweep_config(args)
    iterations = 2 if args.smoke else ENV_STEPS // STEPS_PER_ITERATION
    if args.resume:
        tuner = tune.Tuner.restore(
            args.resume, config.algo_class, param_space=config, resume_errored=True
        )
        return tuner.fit()
    print(f"Trials and checkpoints are in {storage}", flush=True)
    tuner = tune.Tuner(
        config.algo_class,
        param_space=config,
        tune_config=tune.TuneConfig(
            max_concurrent_trials=2,
            scheduler=ASHAScheduler(
                metric="mean_return", mode="max", max_t=iterations, grace_period=iterations // 2
            ),
        ),
        run_config=tune.RunConfig(
            name="sweep",
            storage_path=os.path.abspath(storage),
            stop={"training_iteration": iterations},
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, num_to_keep=1),
            verbose=0,
        ),
    )
    return tuner.fit()


def print_table(results: Any) -> list[str]:
    """A line for each trial, the best first; what is wrong with them."""
    print("\nalpha  num_shards  actors  iterations  steps stored  highest mass  mean return")
    problems = [f"a trial failed: {error}" for error in results.errors]
    metrics = [result.metrics for result in results if result.error is None]
    for told in sorted(metrics, key=lambda told: -told["mean_return"]):
        keys, buffer = told["config"]["replay_buffer_config"], told["buffer"]
        print(
            f"{keys['alpha']:>5.2f}{keys['num_shards']:>12}{buffer['actors']:>8}"
            f"{told['training_iteration']:>12}{buffer['steps']:>14,}"
            f"{buffer['highest_mass']:>14.3f}{told['mean_return']:>13.1f}"
        )
        if buffer["actors"] != keys["num_shards"]:
            problems.append(f"num_shards={keys['num_shards']}, but {buffer['actors']} actors")
    return problems


def main() -> int:
    """Runs the sweep, prints its table, and returns the exit code."""
    args = parse_arguments()
    print("Importing RLlib and starting Ray (up to a minute) ...", flush=True)
    import ray
    import ray.rllib

    for name in ("ray", "ray.rllib", "ray.tune"):
        logging.getLogger(name).setLevel(logging.ERROR)
    ray.init(
        address="local",
        num_cpus=2,
        num_gpus=0,
        object_store_memory=200 * 1024**2,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    storage = args.storage or tempfile.mkdtemp(prefix="tune_sweep_")
    try:
        problems = print_table(run_sweep(args, storage))
    finally:
        ray.shutdown()
        if args.smoke and not args.storage:
            shutil.rmtree(storage)
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
