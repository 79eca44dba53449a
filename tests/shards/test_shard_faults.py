"""What happens when shards die, stop answering or vanish with their node."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import ray
from shard_cases import chunk, comes_true, kill, make_replay, masses_of, runs, steps_of

from rllib_per_acc.shards import ShardLostError, connection

pytestmark = pytest.mark.usefixtures("ray_session")


def test_one_shard_dies_and_is_filled_again():
    replay = make_replay(1, 1000)
    for i in range(20):
        replay.add([chunk(i, 10)])
    batch = replay.sample(32, n_step=3)
    batch.update(np.full(32, 7.0))
    late = replay.sample(32, n_step=3)
    kill(replay)
    after = replay.sample(32, n_step=3)  # nothing but what was added last is there
    assert {number for number, _, _ in steps_of(after)} == {19}
    late.update(np.full(32, 1e6))
    (info,) = replay.shard_info()
    assert (info["lost_steps"], info["restarts"]) == (190, 1)  # those added again are there
    assert info["stale_priorities_dropped"] == 32
    assert info["steps"] == 10
    assert info["steps_added"] == 200
    # The highest priority ever seen is not forgotten with the rows.
    assert set(masses_of(replay).values()) == {7.0}
    replay.add([chunk(30, 10)])
    assert {n for _, _, n in steps_of(replay.sample(64, n_step=3))} == {3}


def test_transitions_are_cut_short_until_an_episode_is_long_enough():
    replay = make_replay(1)
    replay.add([chunk(0, 50)])
    replay.sample(8, n_step=3)
    kill(replay)
    replay.add([chunk(1, 2, done=False)])
    batch = replay.sample(8, n_step=3)
    assert {n for _, _, n in steps_of(batch)} <= {1, 2}
    replay.add([chunk(1, 4, 2)])
    assert {n for _, _, n in steps_of(replay.sample(8, n_step=3))} == {3}
    with pytest.raises(ValueError, match="n_step"):
        replay.sample(8, n_step=30)


def test_that_transitions_are_cut_short_is_said_once_for_each_loss(caplog):
    replay = make_replay(1)
    replay.add([chunk(0, 50)])
    for number in (1, 2):
        replay.sample(8, n_step=3)
        kill(replay)
        caplog.clear()
        replay.add([chunk(number, 2)])
        for _ in range(5):
            assert {n for _, _, n in steps_of(replay.sample(8, n_step=3))} <= {1, 2}
        assert sum("cut short" in message for message in caplog.messages) == 1
        replay.add([chunk(number + 10, 50)])


@pytest.mark.timeout(240)
def test_others_go_on_when_one_of_three_dies():
    replay = make_replay(3, 3000, prefetch=1)
    for i in range(30):
        replay.add([chunk(i, 10)])
    batch = replay.sample(60)
    kill(replay, 1)
    time.sleep(0.3)
    batch.update(np.ones(60))
    for i in range(100, 160):
        replay.add([chunk(i, 5, done=False)])
        batch = replay.sample(40)
        batch.update(np.ones(40))
        replay.add([chunk(i, 5, 5)])
    assert comes_true(lambda: all(info["is_up"] for info in replay.shard_info()))
    infos = replay.shard_info()
    assert [info["restarts"] for info in infos] == [0, 1, 0]
    # What was stored, and at most what was on its way when it died.
    assert 100 <= infos[1]["lost_steps"] <= 160
    total = sum(info["steps"] for info in infos)
    assert total + infos[1]["lost_steps"] == 300 + 600
    for i in range(200, 240):
        replay.add([chunk(i, 10)])
    assert replay.shard_info()[1]["steps"] > 0
    numbers = {number for number, _, _ in steps_of(replay.sample(500))}
    assert len(numbers) > 50


def test_all_die_at_once():
    replay = make_replay(2)
    for i in range(10):
        replay.add([chunk(i, 10)])
    replay.sample(8)
    for pid in [info["pid"] for info in replay.shard_info()]:
        os.kill(pid, signal.SIGKILL)
    for i in range(20, 40):
        replay.add([chunk(i, 10)])
        assert len(replay.sample(8)) == 8
    assert comes_true(lambda: all(info["is_up"] for info in replay.shard_info()))
    assert [info["restarts"] for info in replay.shard_info()] == [1, 1]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_several_die_again_and_again_while_others_add():
    """Any one, two or three of four at once, with batches drawn ahead and two writers (R4)."""
    replay = make_replay(4, 4000, prefetch=2)
    stop = ray.remote(num_cpus=0)(Flag).remote()
    writing = [
        ray.remote(num_cpus=0)(write_until).remote(replay.writer(), first, stop)
        for first in (100_000, 200_000)
    ]
    numbers = itertools.count()

    def train(steps):
        for number in itertools.islice(numbers, steps):
            replay.add([chunk(number, 10)])
            batch = replay.sample(64, n_step=3)
            assert len(steps_of(batch)) == 64
            batch.update(np.full(64, 2.0))

    train(20)
    for victims in ((0,), (1, 2), (3, 0, 1), (2,), (0, 3)):
        for pid in [replay.shard_info()[i]["pid"] for i in victims]:
            os.kill(pid, signal.SIGKILL)
        train(10)
        assert comes_true(lambda: all(info["is_up"] for info in replay.shard_info()), 120)
        train(10)
    ray.get(stop.set.remote())
    added = ray.get(writing, timeout=120)
    assert all(n > 0 for n in added)
    infos = replay.shard_info()
    assert [info["restarts"] for info in infos] == [3, 2, 2, 2]
    assert all(info["lost_steps"] > 0 for info in infos)
    assert all(info["steps"] > 0 for info in infos)
    assert sum(info["steps"] for info in infos) <= 4000


class Flag:
    """Is set once."""

    def __init__(self):
        self._is_set = False

    def set(self):
        self._is_set = True

    def is_set(self):
        return self._is_set


def write_until(writer, first, flag):
    """Adds episodes until the flag is set; how many."""
    for number in itertools.count(first):
        if ray.get(flag.is_set.remote()):
            writer.flush()
            return number - first
        writer.add([chunk(number, 10)])
    return None


def test_a_loss_is_an_error_where_shards_may_not_be_started_again():
    replay = make_replay(2, restart_failed_shards=False)
    for i in range(10):
        replay.add([chunk(i, 10)])
    replay.sample(8)
    kill(replay, 1)

    def go_on():
        for i in range(10, 60):
            replay.add([chunk(i, 10)])
            replay.sample(8)

    for _ in range(2):
        with pytest.raises(ShardLostError, match=r"replay shard 1.*restart_failed_shards"):
            go_on()


def test_a_shard_that_does_not_answer_is_an_error(monkeypatch):
    monkeypatch.setattr(connection, "CALL_TIMEOUT_S", 2.0)
    replay = make_replay(2)
    for i in range(10):
        replay.add([chunk(i, 10)])
    pid = replay.shard_info()[0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError, match=r"replay shard 0.*not answered.*within 2 s"):
            replay.sample(8)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert len(replay.sample(8)) == 8


def test_a_writer_outlives_the_loss_of_a_shard():
    replay = make_replay(2)
    writer = replay.writer()
    writer.add([chunk(0, 10), chunk(1, 10)])
    writer.flush()
    kill(replay, 0)
    for i in range(2, 80):
        writer.add([chunk(i, 10)])
        time.sleep(0.02)
    writer.flush()
    assert comes_true(lambda: all(info["is_up"] for info in replay.shard_info()))
    assert replay.info()["steps"] >= 500
    assert replay.shard_info()[0]["restarts"] == 1


def test_a_shard_of_a_killed_driver_ends(tmp_path):
    """R10: the driver is a process of its own here, connected to this Ray."""
    script = textwrap.dedent(
        """
        import sys, time, ray
        ray.init(address=sys.argv[1], log_to_driver=False)
        from shard_cases import chunk, make_replay
        replay = make_replay(2)
        replay.add([chunk(i) for i in range(4)])
        print(*[info["pid"] for info in replay.shard_info()], flush=True)
        time.sleep(300)
        """
    )
    environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    driver = subprocess.Popen(
        [sys.executable, "-c", script, ray.get_runtime_context().gcs_address],
        stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    try:
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(runs, pids))
    finally:
        driver.kill()
        driver.communicate()
    assert comes_true(lambda: not any(map(runs, pids)))
