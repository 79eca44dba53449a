"""The buffer class made into an actor by hand keeps its rows in itself: no actor in an actor."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import ray
from multi_agent_episodes import TWO, make_multi
from rllib_episodes import mixed_episodes
from rllib_oracle import read_rows

from rllib_per_acc import (
    AccMultiAgentPrioritizedEpisodeReplayBuffer,
    AccPrioritizedEpisodeReplayBuffer,
)

Call = Callable[..., Any]


@pytest.fixture
def start(ray_session: None) -> Iterator[Callable[..., Call]]:
    """Makes a buffer into an actor; what is returned calls a method of it and waits."""
    actors = []

    def start(class_: type = AccPrioritizedEpisodeReplayBuffer, max_concurrency: int = 1) -> Call:
        actor = (
            ray.remote(class_)
            .options(num_cpus=0, max_concurrency=max_concurrency)
            .remote(capacity=1000, alpha=0.6, beta=0.4, seed=1)
        )
        actors.append(actor)
        return lambda method, *args, **kwargs: ray.get(
            getattr(actor, method).remote(*args, **kwargs)
        )

    yield start
    for actor in actors:
        ray.kill(actor)


def test_the_rows_are_in_the_actor_itself(start: Callable[..., Call]) -> None:
    call = start()
    call("add", mixed_episodes())
    (info,) = call("get_shard_info")
    pid = call("__ray_call__", lambda self: __import__("os").getpid())
    assert info["pid"] == pid
    sample = call("sample", num_items=8, n_step=2)
    assert len(read_rows(sample)) == 8
    call("update_priorities", np.full(8, 2.0))
    assert set(call("get_priorities")["mass"]) == {1.0, 2.0**0.6}


def test_updates_after_their_samples_come_through_in_any_thread(start: Callable[..., Call]) -> None:
    call = start(max_concurrency=2)
    call("add", mixed_episodes())
    for i in range(20):
        call("sample", num_items=8)
        call("update_priorities", np.full(8, 2.0 + i))
        assert call("get_priorities")["mass"].max() == (2.0 + i) ** 0.6


def test_callers_that_take_turns_name_their_samples(start: Callable[..., Call]) -> None:
    call = start(max_concurrency=2)
    call("add", mixed_episodes())
    one, two = call("sample", num_items=8), call("sample", num_items=8)
    before = call("get_priorities")["mass"]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="after more than one sample"):
            call("update_priorities", np.full(8, 9.0))
        three = call("sample", num_items=8)
    np.testing.assert_array_equal(call("get_priorities")["mass"], before)
    for priority, sample in ((3.0, two), (2.0, one), (5.0, three)):
        call("update_priorities", np.full(8, priority), sample_id=sample.sample_id)
        assert priority**0.6 in call("get_priorities")["mass"]
    with pytest.raises(RuntimeError, match=rf"sample_id: got {one.sample_id}, expected one of"):
        call("update_priorities", np.full(8, 9.0), sample_id=one.sample_id)


def test_modules_that_are_not_trained_are_no_turns(start: Callable[..., Call]) -> None:
    call = start(AccMultiAgentPrioritizedEpisodeReplayBuffer, max_concurrency=2)
    episode = make_multi(0, 9, "terminated", TWO)
    episode.agent_to_module_mapping_fn = None
    call("add", [episode])
    for i in range(8):
        call("sample", num_items=8)
        call("update_priorities", np.full(8, 2.0 + i), "m1")
    assert set(call("get_priorities", "m2")["mass"]) == {1.0}
    with pytest.raises(RuntimeError, match="of module 'm2' after more than one sample"):
        call("update_priorities", np.ones(8), "m2")
