"""What cannot be written to its end leaves the save before it whole."""

import errno
import os
import resource
import signal
import subprocess
import sys

import pytest
from saved_replays import assert_equal, assert_same_state, filled

from rllib_per_acc import PrioritizedReplay


def saved_before(tmp_path):
    """A replay, saved, and what the folder held then."""
    replay = filled("wrapped")
    replay.save(tmp_path)
    return replay.get_state(), sorted(os.listdir(tmp_path))


def assert_old_save_whole(folder, before):
    state, files = before
    assert_equal(PrioritizedReplay.load(folder).get_state(), state)
    assert sorted(os.listdir(folder)) == files


@pytest.mark.parametrize("nth", [0, 1, 7, 15, 17])
def test_a_full_disk(tmp_path, monkeypatch, nth):
    before = saved_before(tmp_path)
    calls = iter(range(1000))

    def fsync(_):  # where a full disk may first be seen
        if next(calls) == nth:
            raise OSError(errno.ENOSPC, "No space left on device")

    replay = filled("half full")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match="No space left"):
            replay.save(tmp_path)
    assert_old_save_whole(tmp_path, before)
    replay.save(tmp_path)
    assert_same_state(PrioritizedReplay.load(tmp_path), replay)


def test_a_file_that_cannot_be_written_to_its_end(tmp_path):
    before = saved_before(tmp_path)
    largest = max(file.stat().st_size for file in tmp_path.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest // 2, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            filled("wrapped", seed=5).save(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_old_save_whole(tmp_path, before)


DIES = """
import os, signal, sys
from rllib_per_acc import PrioritizedReplay
replay = PrioritizedReplay.load(sys.argv[1], capacity=35)
calls, fsync = iter(range(1000)), os.fsync
def dying_fsync(descriptor):
    fsync(descriptor)
    if next(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
os.fsync = dying_fsync
replay.save(sys.argv[1])
"""


@pytest.mark.parametrize("nth", [0, 9, "manifest"])
def test_a_killed_process(tmp_path, nth):
    state, files = saved_before(tmp_path)
    nth = len(files) - 1 if nth == "manifest" else nth
    command = [sys.executable, "-c", DIES, str(tmp_path), str(nth)]
    died = subprocess.run(command, check=False, timeout=120)
    assert died.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == len(files) + nth + 1
    assert_equal(PrioritizedReplay.load(tmp_path).get_state(), state)
    filled("half full").save(tmp_path)  # what was left goes with the next save
    assert len(os.listdir(tmp_path)) == len(files)


def test_files_of_others_in_the_folder_stay(tmp_path):
    replay = filled("half full")
    replay.save(tmp_path)
    (tmp_path / "notes.npy").write_text("mine")
    replay.save(tmp_path)
    assert (tmp_path / "notes.npy").read_text() == "mine"
    assert_same_state(PrioritizedReplay.load(tmp_path), replay)
