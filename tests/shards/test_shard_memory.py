"""What lies in Ray's object store and what is under way stays bounded (R6, R9)."""

import gc
import time

import numpy as np
import pytest
import ray
from shard_cases import MEGABYTE, SlowShard, bytes_stored, comes_true, make_replay

from rllib_per_acc import EpisodeChunk
from rllib_per_acc.shards import MAX_WRITES_IN_FLIGHT

pytestmark = pytest.mark.usefixtures("ray_session")


def images(number, length=16, side=256):
    """An episode of images that tell its number; one megabyte."""
    frames = np.full((length + 1, side, side), number % 251, np.uint8)
    return EpisodeChunk(f"i{number}", frames, np.zeros(length, np.int64), np.zeros(length))


def test_episodes_that_came_through_the_object_store_do_not_stay_there():
    baseline = bytes_stored()
    replay = make_replay(1, 100)
    references = [ray.put(images(i)) for i in range(20)]
    assert comes_true(lambda: bytes_stored() > baseline + 20 * MEGABYTE)
    for reference in references:
        replay.add([ray.get(reference)])
    assert replay.info()["steps"] == 96
    del references, reference
    gc.collect()
    assert comes_true(lambda: bytes_stored() <= baseline + MEGABYTE)
    assert set(replay.sample(8).observations[:, 0, 0].tolist()) <= set(range(14, 20))


def test_samples_do_not_stay_in_the_object_store():
    replay = make_replay(1, 100, prefetch=1)
    replay.add([images(i) for i in range(6)])
    baseline = bytes_stored()
    stored = []
    for _ in range(20):
        batch = replay.sample(64)  # 8 MB
        batch.update(np.ones(64))
        stored.append(bytes_stored())
    assert max(stored) < baseline + 6 * 9 * MEGABYTE
    del batch
    replay._draws.clear()
    replay.info()  # whose reply comes after all others
    gc.collect()
    assert comes_true(lambda: bytes_stored() <= baseline + MEGABYTE)


class FastWriter:
    """Adds images as fast as it is let."""

    def __init__(self, writer, first):
        self._writer, self._number, self._most = writer, first, 0

    def run(self, adds):
        """Adds so many episodes; the most calls that were under way."""
        for _ in range(adds):
            self._number += 1
            self._writer.add([images(self._number)])
            (connection,) = self._writer._connected().connections
            self._most = max(self._most, connection.num_in_flight)
        return self._most


def test_writers_wait_for_a_shard_that_is_slow():
    """Each has a bounded number of calls under way, so the object store is bounded too."""
    baseline = bytes_stored()
    replay = make_replay(1, 400, shard_class=SlowShard)
    writers = [
        ray.remote(num_cpus=0)(FastWriter).remote(replay.writer(), first) for first in (0, 10_000)
    ]
    running = [writer.run.remote(15) for writer in writers]
    stored = []
    while ray.wait(running, num_returns=2, timeout=0.05)[1]:
        stored.append(bytes_stored() - baseline)
    assert ray.get(running) == [MAX_WRITES_IN_FLIGHT] * 2
    size = images(0).observations.nbytes
    # Besides those under way one that is being written, and one that the shard is reading.
    assert max(stored) <= len(writers) * (MAX_WRITES_IN_FLIGHT + 2) * (size + 1000)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_learner_that_sleeps_does_not_fill_the_object_store():
    """Writers at full speed, a second between updates, batches drawn ahead (R6)."""
    baseline = bytes_stored()
    replay = make_replay(1, 800, prefetch=2)
    replay.add([images(i) for i in range(8)])
    writers = [
        ray.remote(num_cpus=0)(FastWriter).remote(replay.writer(), first)
        for first in (1_000, 10_000)
    ]
    running = {writer.run.remote(20): writer for writer in writers}
    stored, rounds = [], 0
    for _ in range(40):
        batch = replay.sample(64)
        time.sleep(1.0)
        batch.update(np.ones(64))
        for reference in ray.wait(list(running), num_returns=2, timeout=0)[0]:
            assert ray.get(reference) <= MAX_WRITES_IN_FLIGHT
            writer = running.pop(reference)
            running[writer.run.remote(20)] = writer
            rounds += 1
        stored.append(bytes_stored() - baseline)
    assert rounds > 10
    size, sample = images(0).observations.nbytes, 64 * 2 * 256 * 256
    bound = len(writers) * (MAX_WRITES_IN_FLIGHT + 2) * size + 6 * sample
    assert max(stored) <= bound


@pytest.mark.slow
def test_a_nearly_full_object_store_is_no_obstacle():
    """Ray moves what others hold to disk; adds and samples go through."""
    held = [ray.put(np.full(18 * MEGABYTE, i, np.uint8)) for i in range(10)]  # of 200 MB
    assert comes_true(lambda: bytes_stored() > 150 * MEGABYTE)
    replay = make_replay(1, 1000, prefetch=1)
    for i in range(20):
        replay.add([images(i)])
        batch = replay.sample(128)  # 16 MB
        of = batch.observations[:, 0, 0].astype(int)
        assert (batch.observations == of[:, None, None]).all()
        assert set(of) <= set(range(i + 1))
        batch.update(np.ones(128))
    assert replay.info()["steps"] == 320
    assert [int(ray.get(reference)[0]) for reference in held] == list(range(10))
