"""A replay whose shards were ended: what is still asked of it is an error, at once."""

import time

import numpy as np
import pytest
from shard_cases import chunk, comes_true, make_replay, runs

pytest.importorskip("ray.rllib", reason="Ray is installed here without RLlib")

from rllib_per_acc import AccPrioritizedReplayBuffer
from rllib_per_acc.replay_options import PriorityOptions
from rllib_per_acc.rllib.client import close_client
from rllib_per_acc.rllib.old_stack.rings import ring_maker
from rllib_per_acc.row_ring import RowBatch
from rllib_per_acc.shards import ReplayClosedError, ShardLostError, ShardOptions

pytestmark = pytest.mark.usefixtures("ray_session")


@pytest.mark.parametrize("num_shards", [1, 2])
def test_after_close_every_call_is_an_error_and_no_actor_is_left(num_shards, tmp_path):
    replay = make_replay(num_shards, prefetch=1)
    replay.add([chunk(0), chunk(1)])
    batch = replay.sample(4)
    pids = [info["pid"] for info in replay.shard_info()]
    state = replay.get_state()
    replay.close()
    replay.close()
    close_client(replay)
    assert comes_true(lambda: not any(map(runs, pids)))
    calls = {
        "add": lambda: replay.add([chunk(2)]),
        "prepare_add": lambda: replay.prepare_add([chunk(2)])(),
        "sample": lambda: replay.sample(4),
        "update": lambda: batch.update(np.ones(4)),
        "writer": replay.writer,
        "take_activity": replay.take_activity,
        "info": replay.info,
        "shard_info": replay.shard_info,
        "shard_metrics": replay.shard_metrics,
        "get_priorities": replay.get_priorities,
        "read": lambda: replay.read(["e0"], np.zeros(1, int), np.ones(1, int)),
        "get_chunks": lambda: replay.get_chunks(0, 1),
        "get_chunks_of": lambda: replay.get_chunks_of(["a"]),
        "episode_ids": replay.episode_ids,
        "get_state": replay.get_state,
        "set_state": lambda: replay.set_state(state),
        "drop_draws": replay.drop_draws,
        "save_in": lambda: replay.save_in(tmp_path),
        "prepare_restore": lambda: replay.prepare_restore(tmp_path, {}),
    }
    public = {name for name in dir(type(replay)) if not name.startswith("_")}
    assert public == calls.keys() | {"close"}
    for call in calls.values():
        with pytest.raises(ReplayClosedError, match=r"after close\(\)"):
            call()


def test_a_context_manager_closes_it_also_after_an_error():
    def fail():
        with make_replay(1) as replay:
            replay.add([chunk(0)])
            pids.extend(info["pid"] for info in replay.shard_info())
            raise KeyError("own")

    pids = []
    with pytest.raises(KeyError, match="own"):
        fail()
    assert comes_true(lambda: not any(map(runs, pids)))


def test_a_writer_is_told_at_once_that_the_shards_have_ended():
    replay = make_replay(2)
    writer = replay.writer()
    writer.add([chunk(0), chunk(1)])
    writer.flush()
    replay.close()

    def go_on():
        for i in range(2, 200):
            writer.add([chunk(i)])
            time.sleep(0.05)

    with pytest.raises(ShardLostError, match="all 2 replay shards have ended"):
        go_on()


def rows(n):
    return RowBatch({"x": np.arange(n)}, np.ones(n, int), np.ones(n, int))


def test_rings_end_one_by_one_and_the_actors_with_the_last():
    make = ring_maker(
        AccPrioritizedReplayBuffer, 100, PriorityOptions(device="cpu"), ShardOptions(num_shards=2)
    )
    one, other = make("a"), make("b")
    for ring in (one, other):
        ring.add(rows(10))
    (connection, _) = other._group.connections
    pids = [info["pid"] for info in other.shard_info()]
    one.close()
    one.close()
    with pytest.raises(ReplayClosedError, match=r"close\(\) of the ring 'a'"):
        one.sample(3)
    assert other.num_rows() == 10
    assert "a" not in connection.answer(connection.ask("status")).result.counters
    assert all(map(runs, pids))
    other.close()
    assert comes_true(lambda: not any(map(runs, pids)))
    again = make("a")  # starts new ones
    again.add(rows(5))
    assert again.num_rows() == 5
    again.close()
