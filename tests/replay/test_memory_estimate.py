"""How much a full replay takes is said before it is full."""

import logging
import subprocess
import sys

import numpy as np
import pytest

from rllib_per_acc import EpisodeChunk, PrioritizedReplay, memory_estimate


def images(number, steps=50, infos=None):
    frames = np.random.default_rng(number).integers(0, 256, (steps + 1, 20, 20, 4), np.uint8)
    return EpisodeChunk(
        f"episode-{number}", frames, np.zeros(steps, int), np.zeros(steps), True, infos=infos
    )


@pytest.mark.parametrize("frame_stack", [0, 4])
def test_the_estimate_is_about_what_a_full_replay_takes(frame_stack, caplog, monkeypatch):
    if frame_stack:  # true stacks
        frames = np.random.default_rng(0).integers(0, 256, (20_000, 20, 20), np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0)
    replay = PrioritizedReplay(6000, frame_stack=frame_stack)
    with caplog.at_level(logging.INFO, "rllib_per_acc"):
        for number in range(120):
            chunk = images(number)
            if frame_stack:
                chunk.observations = windows[number * 51 : (number + 1) * 51]
            replay.add([chunk])
    (record,) = [r for r in caplog.records if "A full replay of 6000 steps" in r.getMessage()]
    bytes_per_step = record.args[2]
    assert replay.info()["steps"] == 6000
    assert replay.info()["bytes"] / 6000 == pytest.approx(bytes_per_step, rel=0.25)


def test_an_impossible_capacity_is_an_error_before_anything_is_stored():
    replay = PrioritizedReplay(10**12)
    with pytest.raises(ValueError, match="capacity: got 1000000000000 steps of about 1"):
        replay.add([images(0)])
    assert len(replay) == 0
    assert replay.info()["bytes"] < 1e6
    most = memory_estimate.machine_memory() // 10_000
    PrioritizedReplay(most).add([images(0)])  # such steps take less than 10,000 bytes


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    machine = memory_estimate.machine_memory()
    for limit, expected in (("max\n", machine), ("5000000\n", 5_000_000)):
        (tmp_path / "limit").write_text(limit)
        monkeypatch.setattr(memory_estimate, "_LIMITS", (str(tmp_path / "limit"),))
        assert memory_estimate.machine_memory() == pytest.approx(expected, rel=1e-3) or (
            limit == "max\n" and memory_estimate.machine_memory() >= machine
        )
    with pytest.raises(ValueError, match="capacity: got 10000"):
        PrioritizedReplay(10_000).add([images(0)])


TURN_OVER = """
import gc, resource, sys
import numpy as np
from rllib_per_acc import EpisodeChunk, PrioritizedReplay

def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()

capacity, frame_stack = 2000, int(sys.argv[1])
rng = np.random.default_rng(0)
replay = PrioritizedReplay(capacity, seed=0, frame_stack=frame_stack)
empty, full, number = resident(), None, 0
while replay.info()["steps_evicted"] < 2 * capacity:
    steps = int(rng.integers(20, 60))
    frames = rng.integers(0, 256, (steps + 4, 84, 84), np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0)
    actions, rewards = rng.integers(0, 4, steps), np.ones(steps)
    replay.add([EpisodeChunk(str(number), windows, actions, rewards, True)])
    replay.sample(32)
    number += 1
    if full is None and replay.info()["steps_evicted"] > 100:
        full = resident() - empty
print(full, resident() - empty)
"""


@pytest.mark.parametrize("frame_stack", [0, 4])
def test_a_full_replay_that_is_turned_over_twice_takes_no_more(frame_stack):
    done = subprocess.run(
        [sys.executable, "-c", TURN_OVER, str(frame_stack)],
        capture_output=True, text=True, check=True, timeout=200,
    )  # fmt: skip
    full, after = map(int, done.stdout.split())
    assert full > 2000 * 84 * 84 * (1 if frame_stack else 4)
    assert after < 1.05 * full
