"""The data flow of RLlib's former Ape-X (old API stack), with replay actors made by hand.

    env runners --batches--> replay actors --samples--> learner --TD errors--> replay actors

Batches go from the env runners to the replay actors without passing through the learner's process,
and every replay actor has its next sample under way while the learner works.

    python examples/apex_old_stack.py           # CartPole, two env runners, two replay actors
    python examples/apex_old_stack.py --smoke   # seconds
"""

from __future__ import annotations

import argparse
import platform
import random
import time
from typing import Any

import numpy as np
import ray
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.execution.train_ops import train_one_step
from ray.rllib.policy.sample_batch import MultiAgentBatch
from ray.rllib.utils.actor_manager import FaultTolerantActorManager
from ray.rllib.utils.actors import create_colocated_actors
from ray.rllib.utils.metrics import NUM_AGENT_STEPS_SAMPLED, NUM_ENV_STEPS_SAMPLED

import rllib_per_acc


def store(buffer: Any, batch: Any) -> int:
    """Runs in a replay actor; returns how many env steps were added."""
    buffer.add(batch)
    return int(batch.env_steps())


class ApexDQN(DQN):
    """DQN whose replay buffer is in actors of its own, and which waits for none of them."""

    def setup(self, config: Any) -> None:
        """Starts the replay actors on the algorithm's node."""
        super().setup(config)
        buffer_config = self.config.replay_buffer_config
        replay_actor = ray.remote(num_cpus=0, max_restarts=-1)(buffer_config["type"])
        # As in RLlib, each of `num_shards` actors made by hand keeps its share of the capacity.
        specification = (replay_actor, None, buffer_config, buffer_config["num_shards"])
        (actors,) = create_colocated_actors([specification], node=platform.node())
        self.replay = FaultTolerantActorManager(actors, max_remote_requests_in_flight_per_actor=4)
        self.num_updates = 0

    def training_step(self) -> dict[str, Any]:
        """Moves everything that is ready one station further."""
        self._store_new_batches()
        results: dict[str, Any] = {}
        if self._counters[NUM_ENV_STEPS_SAMPLED] >= FIRST_STEPS:
            for sample in self._samples():
                results = self._learn(sample.actor_id, sample.get())
        self.replay.probe_unhealthy_actors(mark_healthy=True)  # those that Ray has started again
        return results

    def _store_new_batches(self) -> None:
        """Passes references to new batches on, and has the env runners go on."""
        batches = self.env_runner_group.foreach_env_runner_async_fetch_ready(
            "sample", timeout_seconds=0.01, return_obj_refs=True
        )
        for batch in batches:
            self.replay.foreach_actor_async(
                store,
                tag="add",
                kwargs={"batch": batch},
                remote_actor_ids=[random.choice(self.replay.healthy_actor_ids())],
            )
        for added in self.replay.fetch_ready_async_reqs(tags="add").ignore_errors():
            self._counters[NUM_ENV_STEPS_SAMPLED] += added.get()
            self._counters[NUM_AGENT_STEPS_SAMPLED] += added.get()

    def _samples(self) -> Any:
        """Samples that are there; the next ones are asked for before these are learned from."""
        samples = self.replay.fetch_ready_async_reqs(tags="sample", timeout_seconds=0.05)
        num_items = self.config.train_batch_size
        self.replay.foreach_actor_async("sample", tag="sample", kwargs={"num_items": num_items})
        return samples.ignore_errors()

    def _learn(self, actor_id: int, batch: MultiAgentBatch) -> dict[str, Any]:
        """One update; the TD errors go back to the actor that the batch came from."""
        results = train_one_step(self, batch)
        errors = {
            policy_id: (batch[policy_id]["batch_indexes"], np.asarray(info["td_error"]))
            for policy_id, info in results.items()
        }
        self.replay.foreach_actor_async(
            "update_priorities",
            tag="update",
            kwargs={"prio_dict": errors},
            remote_actor_ids=[actor_id],
        )
        self.replay.fetch_ready_async_reqs(tags="update")
        self.num_updates += 1
        if self.num_updates % 50 == 0:
            self.env_runner.foreach_policy_to_train(lambda policy, _: policy.update_target())
        if self.num_updates % 5 == 0:
            self.env_runner_group.sync_weights(
                global_vars={"timestep": self._counters[NUM_ENV_STEPS_SAMPLED]}
            )
        return results

    def cleanup(self) -> None:
        """Ends the replay actors with the algorithm."""
        super().cleanup()
        self.replay.clear()


FIRST_STEPS = 500


def config_of(num_env_runners: int, num_replay_actors: int) -> DQNConfig:
    """DQN on CartPole, on the old API stack."""
    return (
        DQNConfig(algo_class=ApexDQN)
        .api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
        .environment("CartPole-v1")
        .env_runners(num_env_runners=num_env_runners, rollout_fragment_length=50)
        .training(
            replay_buffer_config={
                "type": rllib_per_acc.AccMultiAgentPrioritizedReplayBuffer,
                "no_local_replay_buffer": True,
                "capacity": 50_000,
                "num_shards": num_replay_actors,
                "prioritized_replay_alpha": 0.6,
                "prioritized_replay_beta": 0.4,
            },
            n_step=3,
            train_batch_size=512,
        )
        .reporting(min_sample_timesteps_per_iteration=0, min_time_s_per_iteration=1)
    )


def main() -> None:
    """Trains and prints what flows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to train")
    parser.add_argument("--env-runners", type=int, default=2)
    parser.add_argument("--replay-actors", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="stop after the first updates")
    arguments = parser.parse_args()
    ray.init(address="local", num_cpus=arguments.env_runners + 1, log_to_driver=False)
    algorithm = config_of(arguments.env_runners, arguments.replay_actors).build_algo()
    print(f"{'seconds':>8}{'env steps':>11}{'updates':>9}{'return':>8}   stored in each actor")
    began = time.monotonic()
    while True:
        result = algorithm.train()
        stored = algorithm.replay.foreach_actor(lambda buffer: len(buffer)).ignore_errors()
        print(
            f"{time.monotonic() - began:8.1f}"
            f"{algorithm._counters[NUM_ENV_STEPS_SAMPLED]:11,}"
            f"{algorithm.num_updates:9,}"
            f"{result['env_runners'].get('episode_reward_mean', np.nan):8.1f}"
            f"   {[one.get() for one in stored]}"
        )
        if time.monotonic() - began > arguments.seconds:
            break
        if arguments.smoke and algorithm.num_updates >= 5:
            break
    algorithm.stop()


if __name__ == "__main__":
    main()
