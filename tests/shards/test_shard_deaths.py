"""All shards die at once, in each phase of what a replay does; shards that hang."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from shard_cases import chunk, comes_true, make_replay, steps_of

from rllib_per_acc.local_folder import LocalFolder
from rllib_per_acc.replay_checkpoint import SavedReplays, save_replays
from rllib_per_acc.shards import ShardLostError, connection

pytestmark = pytest.mark.usefixtures("ray_session")


def pids_of(replay):
    return [c.where["pid"] for c in replay._group.connections]


def kill_all(replay):
    for pid in pids_of(replay):
        os.kill(pid, signal.SIGKILL)


def all_up(replay):
    return comes_true(lambda: all(info["is_up"] for info in replay.shard_info()), 120)


def filled(num_shards, **options):
    replay = make_replay(num_shards, 4000, **options)
    for first in range(0, 40, 4):
        replay.add([chunk(number, 10) for number in range(first, first + 4)])
    replay.sample(16).update(np.ones(16))
    replay.info()
    return replay


def check_counts(replay, given):
    info = replay.info()
    assert info["steps_added"] == given
    assert info["steps_added"] == info["steps"] + info["steps_evicted"] + info["lost_steps"]


MANY = [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 5, 8))]
PHASES = {
    "add": lambda replay, folder: replay.add([chunk(900, 10)]),
    "sample": lambda replay, folder: replay.sample(16),
    "info": lambda replay, folder: replay.info(),
    "priorities": lambda replay, folder: replay.get_priorities(),
    "save": lambda replay, folder: save_replays(folder, {"replay": replay}, {}),
}
EACH = [
    ("add", 4),
    *(
        pytest.param(phase, n, marks=pytest.mark.slow)
        for phase in PHASES
        for n in (1, 4, 5, 8)
        if (phase, n) != ("add", 4)
    ),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("phase", "num_shards"), EACH)
def test_all_die_before_a_call_twice_in_a_row(phase, num_shards, tmp_path):
    replay = filled(num_shards)
    given = 400
    for _ in range(2):
        kill_all(replay)
        PHASES[phase](replay, LocalFolder(tmp_path))
        given += 10 if phase == "add" else 0
        for number in (901, 902):
            replay.add([chunk(number + given, 10)])
            given += 10
            assert len(steps_of(replay.sample(16))) == 16
        assert all_up(replay)
        check_counts(replay, given)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("num_shards", [1, 4, 5, 8])
@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.1])
def test_all_die_while_steps_are_made(num_shards, after_s):
    """At some moment of a loop of adds, samples and updates, twice."""
    replay = filled(num_shards, prefetch=1)
    number = 1000
    for _ in range(2):
        killer = threading.Timer(after_s, kill_all, [replay])
        killer.start()
        end = time.monotonic() + 3
        while time.monotonic() < end:
            replay.add([chunk(number, 10), chunk(number + 1, 10)])
            number += 2
            batch = replay.sample(16)
            batch.update(np.ones(16))
        killer.join()
        assert all_up(replay)
    info = replay.info()
    assert info["steps_added"] == info["steps"] + info["steps_evicted"] + info["lost_steps"]
    assert info["restarts"] >= 2 * num_shards
    assert len(replay.sample(16)) == 16


@pytest.mark.timeout(300)
@pytest.mark.parametrize("num_shards", MANY)
def test_all_die_before_a_restore_that_is_made_again(num_shards, tmp_path):
    replay = filled(num_shards)
    folder = LocalFolder(tmp_path)
    save_replays(folder, {"replay": replay}, {})
    state = replay.get_state()
    for restore in (
        lambda: replay.set_state(state),
        lambda: SavedReplays(folder).restore({"replay": replay}),
    ):
        kill_all(replay)
        with pytest.raises(ShardLostError):
            restore()
        assert all_up(replay)
        restore()
        assert replay.info()["steps"] == 400
        assert replay.info()["lost_steps"] == 0
        assert len(replay.sample(16)) == 16


@pytest.mark.parametrize("num_shards", [1, 2])
def test_every_call_to_a_shard_that_hangs_ends_within_the_bound(monkeypatch, num_shards, tmp_path):
    replay = filled(num_shards)
    state = replay.get_state()
    batch = replay.sample(8)
    writer = replay.writer()
    writer.add([chunk(500)])
    writer.flush()
    monkeypatch.setattr(connection, "CALL_TIMEOUT_S", 0.5)
    pid = pids_of(replay)[0]
    os.kill(pid, signal.SIGSTOP)
    calls = {
        "sample": lambda: replay.sample(8),
        "info": replay.info,
        "shard_info": replay.shard_info,
        "get_priorities": replay.get_priorities,
        "get_chunks": lambda: replay.get_chunks(0, 100),
        "get_state": replay.get_state,
        "set_state": lambda: replay.set_state(state),
        "save": lambda: save_replays(LocalFolder(tmp_path), {"replay": replay}, {}),
        "adds": lambda: [replay.add([chunk(600 + i)]) for i in range(60)],
        "updates": lambda: [batch._client.update(batch.handle, np.ones(8)) for _ in range(60)],
        "writer": lambda: [writer.add([chunk(700 + i)]) for i in range(60)],
    }
    try:
        for name, call in calls.items():
            started = time.monotonic()
            with pytest.raises(TimeoutError, match=r"replay shard 0.*within 0.5 s"):
                call()
            assert time.monotonic() - started < 30, name
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    # Nothing was lost: all that was sent is there.
    assert len(replay.sample(8)) == 8
    info = replay.info()
    assert info["lost_steps"] == 0
    assert info["steps_added"] == info["steps"] + info["steps_evicted"]
