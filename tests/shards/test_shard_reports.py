"""What shards report: in `shard_info`, in metrics, and in how few calls."""

import numpy as np
import pytest
import ray
from shard_cases import FailingShard, chunk, kill, make_replay, steps_of

from rllib_per_acc import PrioritizedReplay

pytestmark = pytest.mark.usefixtures("ray_session")

KNOWN = {
    "steps", "mass", "bytes", "stale_priorities_dropped", "lost_steps", "dropped_priorities",
    "restarts", "calls_in_flight",
}  # fmt: skip
TIMES = {"add_seconds", "sample_seconds", "update_seconds"}


def calls_made(replay, what):
    """How many calls of the first shard `what` makes."""
    connection = replay._group.connections[0]
    before = connection._number
    what()
    return connection._number - before


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_training_step_is_one_call_to_the_shard(prefetch):
    replay = make_replay(1, prefetch=prefetch)
    replay.add([chunk(i) for i in range(10)])
    replay.sample(8).update(np.ones(8))

    def step(number):
        replay.add([chunk(number)])
        replay.sample(8).update(np.full(8, float(number)))

    assert [calls_made(replay, lambda i=i: step(i)) for i in (20, 21, 22)] == [1, 1, 1]
    assert replay.info()["steps"] == 130


def test_what_is_held_back_arrives_in_order_with_whatever_is_asked():
    replay = make_replay(1)
    for i in range(4):
        replay.add([chunk(i, 5)])
    batch = replay.sample(40)
    batch.update(np.full(40, 5.0))
    replay.add([chunk(9, 5)])  # gets the highest priority, which the update before it sets
    held = replay.get_priorities()
    assert set(held["mass"][held["episode_id"] == "e9"]) == {5.0}


def test_one_error_does_not_take_what_was_sent_with_it():
    replay = make_replay(1)
    replay.add([chunk(0, 5)])
    batch = replay.sample(8)
    batch.update(np.full(8, 3.0))
    replay.add([chunk(0, 5, 7)])  # does not continue its episode
    with pytest.raises(ValueError, match=r"(?s)ReplayShard\.add.*e0"):
        replay.sample(8)
    assert len(replay.sample(8)) == 8
    assert replay.info()["steps"] == 5
    updated = {t for _, t, _ in steps_of(batch)}
    held = replay.get_priorities()
    assert {t for t, mass in zip(held["t"], held["mass"], strict=True) if mass == 3.0} == updated


def test_an_error_of_what_is_asked_comes_after_that_of_what_was_sent():
    replay = make_replay(1, shard_class=FailingShard)
    replay.add([chunk(13)])
    with pytest.raises(OSError, match="no room for e13"):
        replay.sample(8)
    with pytest.raises(ValueError, match="empty"):
        replay.sample(8)


@pytest.mark.parametrize("num_shards", [1, 2])
def test_metrics_of_shards_are_what_the_shards_say(num_shards):
    replay = make_replay(num_shards, 100)
    for i in range(12):
        replay.add([chunk(i, 10)])
        batch = replay.sample(16)
        batch.update(batch.rewards + 1.0)
    infos = replay.shard_info()
    metrics = replay.shard_metrics()
    assert len(metrics) == num_shards
    for numbers, info in zip(metrics, infos, strict=True):
        assert numbers.keys() == KNOWN | TIMES
        assert {key: numbers[key] for key in KNOWN} == {key: info[key] for key in KNOWN}
        assert all(0 < numbers[key] < 60 for key in TIMES)
    # Means since the last reading: where nothing was called there is none.
    assert all(numbers.keys() == KNOWN for numbers in replay.shard_metrics())


def test_reading_metrics_asks_nobody():
    replay = make_replay(2)
    replay.add([chunk(0), chunk(1)])
    replay.sample(4)
    assert calls_made(replay, replay.shard_metrics) == 0


def test_metrics_of_a_shard_that_is_lost():
    replay = make_replay(1)
    replay.add([chunk(0, 10)])
    batch = replay.sample(8)
    replay.shard_metrics()
    kill(replay)
    batch.update(np.ones(8))
    replay.add([chunk(1, 10)])
    replay.sample(8)
    (numbers,) = replay.shard_metrics()
    assert numbers["restarts"] == 1
    assert numbers["lost_steps"] == 10  # what was under way came later, or was added again
    assert numbers["steps"] == 10
    assert numbers["dropped_priorities"] + numbers["stale_priorities_dropped"] == 8


def test_a_replay_in_this_process_reports_the_same():
    here = PrioritizedReplay(100)
    here.add([chunk(0, 10)])
    (numbers,) = here.shard_metrics()
    info = here.info()
    assert numbers == {key: info[key] for key in numbers}
    assert numbers.keys() < KNOWN


def test_the_incarnation_is_another_one_after_a_restart():
    replay = make_replay(1)
    replay.add([chunk(0, 10)])
    (before,) = replay.shard_info()
    kill(replay)
    replay.add([chunk(1, 10)])
    replay.sample(4)
    (after,) = replay.shard_info()
    assert before["restarts"] == 0
    assert after["restarts"] == 1
    assert after["incarnation"] != before["incarnation"]
    assert ray.get_runtime_context().get_node_id() == after["node"]
