"""The buffer class made into an actor by hand keeps its rows in itself: no actor in an actor."""

import numpy as np
import ray
from rllib_episodes import mixed_episodes
from rllib_oracle import read_rows

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer


def test_the_rows_are_in_the_actor_itself(ray_session: None) -> None:
    actor = ray.remote(num_cpus=0)(AccPrioritizedEpisodeReplayBuffer).remote(
        capacity=100, alpha=0.6, beta=0.4, seed=1
    )
    ray.get(actor.add.remote(mixed_episodes()))
    (info,) = ray.get(actor.get_shard_info.remote())
    pid = ray.get(actor.__ray_call__.remote(lambda self: __import__("os").getpid()))
    assert info["pid"] == pid
    sample = ray.get(actor.sample.remote(num_items=8, n_step=2))
    assert len(read_rows(sample)) == 8
    ray.get(actor.update_priorities.remote(np.full(8, 2.0)))
    masses = ray.get(actor.get_priorities.remote())["mass"]
    assert set(masses) == {1.0, 2.0**0.6}
