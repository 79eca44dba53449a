"""The class made into an actor by hand, as the former Ape-X did it: rows in the actor itself."""

import os
import platform
import time
from typing import Any

import numpy as np
import pytest
import ray
from old_stack_oracle import steps
from ray.rllib.utils.actor_manager import FaultTolerantActorManager
from ray.rllib.utils.actors import create_colocated_actors

from rllib_per_acc import AccMultiAgentPrioritizedReplayBuffer, AccPrioritizedReplayBuffer

pytestmark = pytest.mark.usefixtures("ray_session")

CONFIG: dict[str, Any] = {
    "type": "ignored",
    "no_local_replay_buffer": True,
    "replay_buffer_shards_colocated_with_driver": True,
    "worker_side_prioritization": False,
    "capacity": 60,
    "num_shards": 2,
    "prioritized_replay_alpha": 1.0,
    "prioritized_replay_beta": 0.4,
    "prioritized_replay_eps": 0.5,
    "seed": 1,
}


def pid_of(buffer: Any) -> int:
    return os.getpid()


def fail(buffer: Any) -> None:
    raise ValueError("something is wrong with this call")


@pytest.mark.slow
def test_actors_behind_a_manager() -> None:
    actor_class = ray.remote(num_cpus=0, max_restarts=-1)(AccMultiAgentPrioritizedReplayBuffer)
    (actors,) = create_colocated_actors([(actor_class, None, CONFIG, 2)], node=platform.node())
    apart = actor_class.remote(**CONFIG)
    manager = FaultTolerantActorManager([*actors, apart])
    assert [r.get() for r in manager.foreach_actor("ping")] == ["pong"] * 3
    assert {r.get() for r in manager.foreach_actor("get_host")} == {platform.node()}
    batch = steps(np.random.default_rng(0), 40)
    for result in manager.foreach_actor(lambda buffer: buffer.add(batch)):
        assert result.ok, result.get()
    # Rows are in the actors themselves, and each keeps its share of the capacity.
    pids = [r.get() for r in manager.foreach_actor(pid_of)]
    assert len({os.getpid(), *pids}) == 4
    assert [r.get() for r in manager.foreach_actor(len)] == [30] * 3
    assert [r.get() for r in manager.foreach_actor(lambda b: b.capacity)] == [30] * 3

    samples = manager.foreach_actor("sample", kwargs={"num_items": 8})
    for result in samples:
        sample = result.get()["default_policy"]
        assert len(sample) == 8
        priorities = {"default_policy": (sample["batch_indexes"], np.full(8, 2.0))}
        (done,) = manager.foreach_actor(
            "update_priorities", kwargs={"prio_dict": priorities},
            remote_actor_ids=[result.actor_id],
        )  # fmt: skip
        assert done.ok, done.get()
        masses = ray.get(
            manager.actors()[result.actor_id].apply.remote(
                lambda b: b.replay_buffers["default_policy"].get_priorities()["mass"]
            )
        )
        assert set(masses[sample["batch_indexes"]]) == {2.5}
    (stats, *_) = [r.get() for r in manager.foreach_actor("stats")]
    assert stats["policy_default_policy"]["num_entries"] == 30
    assert stats["policy_default_policy"]["sampled_count"] == 8

    # A call that fails reaches the caller; the actor and its rows stay.
    failed = list(manager.foreach_actor(fail))
    assert all("something is wrong" in str(result.get()) for result in failed)
    manager.probe_unhealthy_actors(mark_healthy=True)
    assert manager.num_healthy_actors() == 3
    assert [r.get() for r in manager.foreach_actor(pid_of)] == pids
    assert [r.get() for r in manager.foreach_actor(len)] == [30] * 3
    manager.clear()


@pytest.mark.slow
def test_an_actor_that_dies_comes_back_empty() -> None:
    actor_class = ray.remote(num_cpus=0, max_restarts=-1)(AccPrioritizedReplayBuffer)
    actor = actor_class.remote(capacity=20, alpha=0.6, num_shards=1)
    manager = FaultTolerantActorManager([actor])
    batch = steps(np.random.default_rng(0), 10)
    ray.get(actor.add.remote(batch))
    assert len(ray.get(actor.sample.remote(5, beta=0.4))) == 5
    before = ray.get(actor.apply.remote(pid_of))
    ray.kill(actor, no_restart=False)
    for _ in range(300):  # the old process may still answer, or nobody
        try:
            if ray.get(actor.apply.remote(pid_of)) != before:
                break
        except ray.exceptions.RayActorError:
            time.sleep(0.1)
    manager.probe_unhealthy_actors(mark_healthy=True)
    ray.get(actor.add.remote(batch))
    assert ray.get(actor.stats.remote())["added_count"] == 10


@pytest.mark.slow
def test_adding_keeps_nothing_of_the_object_store() -> None:
    actor = ray.remote(num_cpus=0)(AccMultiAgentPrioritizedReplayBuffer).remote(
        capacity=100, num_shards=0
    )

    def held(buffer: Any) -> int:
        columns = buffer.replay_buffers["default_policy"]._ring.ring._columns
        leaves = [leaf for column in columns.values() for leaf in column.leaves]
        infos = [info["array"] for info in columns["infos"].leaves[0] if info]
        return sum(not array.flags.writeable for array in (*leaves, *infos))

    batch = steps(np.random.default_rng(0), 4)
    batch["obs"] = batch["new_obs"] = np.zeros((4, 50_000))
    for info in batch["infos"]:
        info["array"] = np.zeros(50_000)
    ray.get(actor.add.remote(ray.put(batch)))
    assert ray.get(actor.apply.remote(held)) == 0, "read-only: views of the object store"
