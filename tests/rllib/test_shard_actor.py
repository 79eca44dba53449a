"""The buffer in a Ray actor: same results, errors that arrive, bounded calls, no process left."""

import gc
import itertools
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import ray
from metric_values import values
from processes import comes_true, runs
from ray.util.placement_group import placement_group, remove_placement_group
from rllib_buffers import COUNTERS, masses_of
from rllib_episodes import make_episode, mixed_episodes, play
from rllib_oracle import read_rows
from shard_actors import ShardOwner, SlowShard, done_file

from rllib_per_acc import (
    AccPrioritizedEpisodeReplayBuffer,
    BackendUnavailableError,
    EpisodeChunk,
)
from rllib_per_acc.shards import MAX_CALLS_IN_FLIGHT, ShardedReplay

pytestmark = pytest.mark.usefixtures("ray_session")


def make_buffer(num_shards: int = 1, **options: Any) -> AccPrioritizedEpisodeReplayBuffer:
    return AccPrioritizedEpisodeReplayBuffer(
        **({"capacity": 60, "beta": 0.4, "num_shards": num_shards, "seed": 1} | options)
    )


def own_metrics(buffer: AccPrioritizedEpisodeReplayBuffer) -> dict[tuple, float]:
    """Those that do not tell where the rows are."""
    return {
        path: value for path, value in values(buffer.get_metrics()).items() if path[0] != "shards"
    }


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_same_results_as_in_process(sample_format: str) -> None:
    options = {"sample_format": sample_format, "metrics_num_episodes_for_smoothing": 5}
    local, remote = make_buffer(0, **options), make_buffer(1, **options)
    for episodes in itertools.islice(play(3, 4, seed=1, extras=True), 20):
        sampled = []
        for buffer in (local, remote):
            buffer.add(episodes)
            sample = buffer.sample(num_items=16, n_step=(1, 3), gamma=0.9, beta=None)
            sampled.append(read_rows(sample))
            buffer.update_priorities(np.abs([row.reward for row in sampled[-1]]))
        assert sampled[0] == sampled[1]
        assert own_metrics(local) == pytest.approx(own_metrics(remote))
    for name in COUNTERS:
        assert getattr(local, name)() == getattr(remote, name)(), name
    assert masses_of(local) == masses_of(remote)


def test_it_is_another_process() -> None:
    """`get_shard_info` says where, for both."""
    for num_shards in (0, 1):
        buffer = make_buffer(num_shards)
        buffer.add(mixed_episodes())
        (info,) = buffer.get_shard_info()
        assert (info["pid"] == os.getpid()) == (num_shards == 0)
        if num_shards:
            assert info["node"] == ray.get_runtime_context().get_node_id()
        assert info["device"] == "cpu"
        assert info["steps"] == 36
        assert info["mass"] == 36.0
        assert "incarnation" in info


def test_state_goes_from_actor_to_process_and_back() -> None:
    remote, local, again = make_buffer(1), make_buffer(0, seed=5), make_buffer(1, seed=6)
    remote.add(mixed_episodes())
    local.set_state(remote.get_state())
    again.set_state(local.get_state())
    rows = [read_rows(b.sample(num_items=20)) for b in (remote, local, again)]
    assert rows[0] == rows[1] == rows[2]


def consume(calls: Iterable[None]) -> None:
    """Makes one call after the other."""
    for _ in calls:
        pass


def gap() -> list:
    """A piece that does not continue the episode it names."""
    return [make_episode(1, 4, "terminated")]


def test_an_error_of_add_reaches_a_call_that_waits() -> None:
    buffer = make_buffer()
    buffer.add([make_episode(1, 5)])
    buffer.add(gap())
    with pytest.raises(ValueError, match="episode-1"):
        buffer.sample(num_items=4)
    assert len(read_rows(buffer.sample(num_items=4))) == 4
    assert buffer.get_num_timesteps() == 5


def test_an_error_reaches_one_who_only_adds() -> None:
    buffer = make_buffer()
    buffer.add([make_episode(1, 5)])
    buffer.add(gap())
    episodes = [make_episode(n, 1, "terminated") for n in range(10, 12 + MAX_CALLS_IN_FLIGHT)]
    with pytest.raises(ValueError, match="episode-1"):
        consume(buffer.add([episode]) for episode in episodes)


def test_an_error_of_sample_is_raised_at_once() -> None:
    buffer = make_buffer()
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(num_items=4)
    buffer.add([make_episode(1, 2)])
    with pytest.raises(ValueError, match="n_step"):
        buffer.sample(num_items=4, n_step=3)
    assert len(read_rows(buffer.sample(num_items=4))) == 4


def test_errors_in_the_callers_hand_are_raised_there() -> None:
    buffer = make_buffer()
    buffer.add(mixed_episodes())
    with pytest.raises((TypeError, ValueError), match="episodes"):
        buffer.add([1])
    buffer.sample(num_items=4)
    with pytest.raises(ValueError, match="priorities"):
        buffer.update_priorities(np.ones(5))
    buffer.update_priorities(np.ones(4))


def test_calls_in_flight_are_bounded() -> None:
    client = ShardedReplay(10_000, {"seed": 1}, shard_class=SlowShard)
    done = done_file(client.shard_info()[0]["pid"])
    done.write_text("0")
    waiting, in_flight = [], []

    def note(sent: int) -> None:
        waiting.append(sent - int(done.read_text()))
        in_flight.append(client._group.connections[0].num_in_flight)

    for i in range(60):
        observations = np.zeros((6, 3), np.float32)
        client.add([EpisodeChunk(f"episode-{i}", observations, np.zeros(5), np.zeros(5))])
        note(i + 1)
    batches = [client.sample(4) for _ in range(60)]
    for i, batch in enumerate(batches):
        batch.update(np.ones(4))
        note(61 + i)
    assert 1 < max(in_flight) <= MAX_CALLS_IN_FLIGHT
    assert 1 < max(waiting) <= MAX_CALLS_IN_FLIGHT + 1  # a reply may be there and not be read yet
    assert client.info()["steps"] == 300


def test_a_sample_sees_all_that_was_sent_before() -> None:
    client = ShardedReplay(10_000, {"alpha": 1.0}, shard_class=SlowShard)
    for i in range(5):
        client.add([EpisodeChunk(f"e{i}", np.full((2, 1), i), np.zeros(1), np.zeros(1))])
    batch = client.sample(200)
    assert set(batch.observations[:, 0]) == set(range(5))
    batch.update((batch.observations[:, 0] == 3).astype(float))
    assert set(client.sample(100).observations[:, 0]) == {3}


def test_the_actor_goes_with_the_buffer() -> None:
    buffer = make_buffer()
    pid = buffer.get_shard_info()[0]["pid"]
    assert runs(pid)
    del buffer
    gc.collect()
    assert comes_true(lambda: not runs(pid))


def test_the_actor_dies_with_its_owner() -> None:
    owner = ray.remote(num_cpus=0)(ShardOwner).remote()
    pid = ray.get(owner.shard.remote())
    assert runs(pid)
    ray.kill(owner)
    assert comes_true(lambda: not runs(pid))


@pytest.mark.timeout(120)
def test_it_needs_no_cpu() -> None:
    """With every CPU taken it is placed all the same."""
    group = placement_group([{"CPU": 8}])
    try:
        ray.get(group.ready())
        buffers = [make_buffer(seed=i) for i in range(3)]
        for i, buffer in enumerate(buffers):
            buffer.add([make_episode(i, 5 + i)])
        assert [buffer.get_num_timesteps() for buffer in buffers] == [5, 6, 7]
        pids = {buffer.get_shard_info()[0]["pid"] for buffer in buffers}
        assert len(pids) == 3
    finally:
        remove_placement_group(group)


@pytest.mark.timeout(120)
def test_a_dead_actor_does_not_stop_the_work() -> None:
    buffer = make_buffer()
    buffer.add(mixed_episodes())
    pid = buffer.get_shard_info()[0]["pid"]
    os.kill(pid, 9)
    for number in range(10, 40):
        buffer.add([make_episode(number, 2, "terminated")])
        buffer.sample(num_items=4)
        buffer.update_priorities(np.ones(4))
    (info,) = buffer.get_shard_info()
    assert info["pid"] != pid
    assert info["lost_steps"] >= 36
    assert info["restarts"] == 1
    assert buffer.get_num_timesteps() <= 60


@pytest.mark.timeout(120)
def test_a_dead_actor_is_an_error_where_that_is_asked_for() -> None:
    buffer = make_buffer(restart_failed_shards=False)
    buffer.add(mixed_episodes())
    os.kill(buffer.get_shard_info()[0]["pid"], 9)
    episodes = [make_episode(n, 1, "terminated") for n in range(10, 12 + MAX_CALLS_IN_FLIGHT)]
    with pytest.raises(RuntimeError, match="lost"):
        consume(buffer.add([episode]) for episode in episodes)
    with pytest.raises(RuntimeError, match="lost"):
        buffer.sample(num_items=4)


def test_a_gpu_that_is_not_there_is_an_error() -> None:
    with pytest.raises(BackendUnavailableError, match=r"(?i)gpu"):
        make_buffer(device="gpu").get_num_timesteps()
