"""What is counted adds up: added = stored + evicted + lost, and reports sum up to the counters."""

import itertools
import os
import signal

import numpy as np
import pytest
import ray
from shard_cases import chunk, comes_true, kill, make_replay

from rllib_per_acc import PrioritizedReplay
from rllib_per_acc.activity import Counts
from rllib_per_acc.draws import NothingToSampleError
from rllib_per_acc.local_folder import LocalFolder
from rllib_per_acc.replay_checkpoint import SavedReplays, save_replays
from rllib_per_acc.replay_options import SequenceShape
from rllib_per_acc.shards import ShardLostError

pytestmark = pytest.mark.usefixtures("ray_session")


class Books:
    """What a replay reported so far, against what it counts.

    Args:
        replay: Over shards, and new.
        start: What counts as reported before.
    """

    def __init__(self, replay, start=None):
        self.replay = replay
        self.reported = start or Counts()

    def check(self):
        """Everything that must hold at any moment; the counters."""
        infos = self.replay.shard_info()
        for info in infos:
            assert info["steps_added"] == info["steps"] + info["steps_evicted"] + info["lost_steps"]
        total = self.replay.info()
        assert total["steps_added"] == total["steps"] + total["steps_evicted"] + total["lost_steps"]
        self.reported += self.replay.take_activity().counts
        # What others add between the two is in one of them only.
        for name in ("steps_added", "episodes_added", "steps_evicted", "episodes_evicted"):
            assert getattr(self.reported, name) >= total[name]
        assert self.reported.steps_sampled == total["steps_sampled"]
        return total


def settled(replay, books):
    """The counters when nothing is under way; reports are exactly these then."""
    replay.get_priorities()
    total = books.check()
    for name in ("steps_added", "episodes_added", "steps_evicted", "steps_sampled"):
        assert getattr(books.reported, name) == total[name]
    return total


@pytest.mark.parametrize("num_shards", [1, 2])
def test_draws_that_are_given_up_take_no_counts_with_them(num_shards):
    replay = make_replay(num_shards, 100, prefetch=2)
    books = Books(replay)
    for i in range(15):
        replay.add([chunk(i, 10)])
        replay.sample(8)
        if i % 4 == 0:
            replay.sample(5)  # another request
        if i % 5 == 0:
            replay.get_state()
    total = settled(replay, books)
    assert total["steps_added"] == 150
    assert total["steps_sampled"] == 15 * 8 + 4 * 5
    assert books.reported.num_samples == 19
    assert books.reported.num_adds == 15


@pytest.mark.parametrize("num_shards", [1, 3])
@pytest.mark.parametrize("sequences", [None, SequenceShape(4)])
def test_every_shard_says_how_many_of_its_steps_were_sampled(num_shards, sequences):
    replay = make_replay(num_shards, 300, prefetch=1)
    for i in range(12):
        replay.add([chunk(i, 10)])
    for _ in range(3):
        replay.sample(64, sequences=sequences)
    of_shards = [info["steps_sampled"] for info in replay.shard_info()]
    assert min(of_shards) > 0
    assert sum(of_shards) == replay.info()["steps_sampled"] >= 3 * 64


def test_the_state_of_one_shard_counts_what_was_used_only():
    replay = make_replay(1, 100, prefetch=3)
    replay.add([chunk(0, 10)])
    for _ in range(4):
        replay.sample(8)
    local = PrioritizedReplay(100)
    local.set_state(replay.get_state())
    assert local.info()["steps_sampled"] == 32
    assert replay.info()["steps_sampled"] == 32


def test_a_loss_counts_once_though_a_restore_is_refused_meanwhile(tmp_path):
    replay = make_replay(2, 2000)
    for i in range(100):
        replay.add([chunk(i, 10)])
    folder = LocalFolder(tmp_path)
    save_replays(folder, {"replay": replay}, {})
    state = replay.get_state()
    kill(replay, 1)
    with pytest.raises(ShardLostError):
        replay.set_state(state)
    kill(replay, 0)
    with pytest.raises(ShardLostError):
        SavedReplays(folder).restore({"replay": replay})
    assert comes_true(lambda: all(info["is_up"] for info in replay.shard_info()))
    assert [info["lost_steps"] for info in replay.shard_info()] == [500, 500]
    assert Books(replay, Counts(steps_added=1000)).check()["lost_steps"] == 1000
    SavedReplays(folder).restore({"replay": replay})
    assert replay.info()["steps"] == 1000
    assert replay.info()["lost_steps"] == 0  # of what was restored nothing was lost


def test_what_a_writer_added_before_the_next_call_of_the_owner_is_lost_with_the_shard():
    replay = make_replay(1, 10_000)
    writer = replay.writer()
    for i in range(100):
        writer.add([chunk(i, 10)])
    writer.flush()
    os.kill(replay._group.connections[0].where["pid"], signal.SIGKILL)
    for i in (200, 201):  # it notices
        writer.add([chunk(i, 10)])
        writer.flush()
    info = replay.info()
    assert info["steps_added"] == 1020
    assert info["lost_steps"] == 1020 - info["steps"]
    assert info["lost_steps"] >= 1000


def test_steps_of_a_writer_that_were_under_way_are_lost_for_all():
    replay = make_replay(1, 10_000)
    writer = replay.writer()
    replay.add([chunk(0, 10)])
    writer.add([chunk(1, 10)])
    writer.flush()
    replay.info()
    pid = replay.shard_info()[0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    for i in (2, 3):
        writer.add([chunk(i, 10)])
    os.kill(pid, signal.SIGKILL)
    writer.flush()
    info = replay.info()
    assert info["steps_added"] == 40
    assert info["steps"] + info["lost_steps"] == 40


def test_steps_that_are_added_again_are_not_added_twice():
    replay = make_replay(2, 10_000)
    books = Books(replay)
    for i in range(10):
        replay.add([chunk(10 * i + j, 4) for j in range(4)])
    for shard in (0, 1):
        kill(replay, shard)
    replay.sample(4)
    total = settled(replay, books)
    assert (total["steps_added"], total["steps"], total["lost_steps"]) == (160, 16, 144)


def writing(writer, first, num):
    """Adds episodes of seven steps; how many steps."""
    for number in range(first, first + num):
        writer.add([chunk(number, 7)])
    writer.flush()
    return 7 * num


class Running:
    """A random program: adds, samples, dropped draws, deaths, writers, checkpoints."""

    def __init__(self, num_shards, seed, prefetch):
        self.rng = np.random.default_rng(seed)
        self.replay = make_replay(num_shards, 600, prefetch=prefetch)
        self.books = Books(self.replay)
        self.numbers = itertools.count()
        self.given = 0

    def add(self):
        chunks = [chunk(next(self.numbers), int(self.rng.integers(1, 12))) for _ in range(3)]
        self.replay.add(chunks)
        self.given += sum(map(len, chunks))

    def sample(self):
        try:
            batch = self.replay.sample(int(self.rng.choice([8, 8, 8, 5])))
        except NothingToSampleError:
            return
        if self.rng.integers(2):
            batch.update(np.ones(len(batch)))

    def die(self):
        n = len(self.replay._group)
        self.replay.get_priorities()  # nothing is under way
        for shard in self.rng.permutation(n)[: self.rng.integers(1, n + 1)]:
            kill(self.replay, int(shard))

    def write(self):
        task = ray.remote(num_cpus=0)(writing)
        first = 1_000_000 + 1_000 * next(self.numbers)
        self.given += ray.get(task.remote(self.replay.writer(), first, 5), timeout=120)

    def save(self):
        self.replay.get_state()

    def step(self):
        kinds = [self.add] * 8 + [self.sample] * 8 + [self.write, self.save]
        kinds[self.rng.integers(len(kinds))]()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("num_shards", "prefetch"),
    [
        (1, 2),
        (3, 1),
        *(pytest.param(n, p, marks=pytest.mark.slow) for n in (1, 2, 4) for p in (0, 3)),
    ],
)
def test_counts_add_up_at_any_moment(num_shards, prefetch, request):
    running = Running(num_shards, num_shards + 10 * prefetch, prefetch)
    deaths = 6 if "slow" in request.keywords else 2
    for _ in range(deaths):
        for _ in range(25):
            running.step()
            running.books.check()
        running.die()
        running.books.check()
        assert comes_true(lambda: all(info["is_up"] for info in running.replay.shard_info()))
    total = settled(running.replay, running.books)
    assert total["steps_added"] == running.given
    assert total["lost_steps"] > 0
