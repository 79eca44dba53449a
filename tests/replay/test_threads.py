"""Several threads: calls wait for each other, and no row is torn."""

import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
from replay_checks import check_invariants

from rllib_per_acc import EpisodeChunk, PrioritizedReplay, TransitionReplay, TransitionStore


def chunk(number, observations=None, length=4):
    """A finished episode whose every value is its number."""
    if observations is None:
        observations = np.full((length + 1, 50), number, np.float64)
    rewards = np.full(length, float(number))
    return EpisodeChunk(f"episode-{number}", observations, rewards, rewards, terminated=True)


class Meanwhile:
    """An array that runs something in another thread when it is read, and does not wait long."""

    def __init__(self, array):
        self.array = array
        self.finished = threading.Event()
        self.finished_within = None
        self.thread = None

    def start(self, action):
        self.thread = threading.Thread(target=lambda: (action(), self.finished.set()))
        self.action = action
        return self

    def __len__(self):
        return len(self.array)

    def __array__(self, dtype=None, copy=None):
        if self.finished_within is None:
            self.thread.start()
            self.finished_within = self.finished.wait(0.2)
        return self.array


def replay_of_episodes():
    replay = PrioritizedReplay(100, seed=0)
    replay.add([chunk(1), chunk(2)])
    batch = replay.sample(4)
    others = {
        "add": lambda: replay.add([chunk(3)]),
        "sample": lambda: replay.sample(3),
        "update": lambda: batch.update(np.ones(4)),
        "info": replay.info,
        "priorities": replay.get_priorities,
        "chunks": lambda: replay.get_chunks(0, 1),
        "get_state": replay.get_state,
        "set_state": lambda: replay.set_state(PrioritizedReplay(5).get_state()),
    }
    return lambda observations: replay.add([chunk(9, observations)]), others


def replay_of_transitions():
    replay = TransitionReplay(100, seed=0)
    replay.add_batch(np.zeros((5, 50)), np.zeros(5), np.zeros(5), np.zeros((5, 50)), np.zeros(5))
    others = {
        "add": lambda: replay.add(np.zeros(50), 0, 0, np.zeros(50), False),
        "sample": lambda: replay.sample(3),
        "update": lambda: replay.update([0], [1.0]),
        "get_state": replay.get_state,
        "clear": replay.clear,
    }
    zeros = np.zeros(5)
    return lambda states: replay.add_batch(states, zeros, zeros, np.zeros((5, 50)), zeros), others


def store():
    filled = TransitionStore(100)
    rows = filled.add([chunk(1)]).rows.astype(np.int64)
    some = filled.serve(rows, np.ones(4), np.ones(4, np.int64))
    others = {
        "add": lambda: filled.add([chunk(3)]),
        "gather": lambda: filled.gather(some, 0.9),
        "rows": filled.live_rows,
        "chunks": lambda: filled.chunks(0, 1),
    }
    return lambda observations: filled.add([chunk(9, observations)]), others


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (make, name)
        for make in (replay_of_episodes, replay_of_transitions, store)
        for name in make()[1]
    ],
)
def test_a_call_waits_for_one_in_another_thread(make, name):
    add, others = make()
    observations = Meanwhile(np.zeros((5, 50))).start(others[name])
    add(observations)
    observations.thread.join(10)
    assert observations.finished_within is False
    assert observations.finished.is_set()


@pytest.fixture
def eager_switches():
    """Threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_together(*actions, rounds):
    """Runs every action `rounds` times in a thread of its own, and raises what one raised."""
    errors = []

    def repeat(action):
        try:
            for i in range(rounds):
                action(i)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]


def test_threads_that_add_sample_and_update_episodes(eager_switches):
    replay = PrioritizedReplay(60, seed=0)
    replay.add([chunk(-1)])

    def sample(_):
        batch = replay.sample(8)
        for values in (batch.observations, batch.next_observations):
            np.testing.assert_array_equal(values, np.repeat(batch.rewards[:, None], 50, axis=1))
        np.testing.assert_array_equal(batch.actions, batch.rewards)
        batch.update(np.abs(batch.rewards) + 0.5)

    run_together(
        sample, sample,
        lambda i: replay.add([chunk(i)]),
        lambda i: replay.add([chunk(1000 + i)]),
        lambda _: replay.get_state(),
        rounds=60,
    )  # fmt: skip
    check_invariants(replay)
    assert replay.info()["steps_added"] == 4 * 121


def test_threads_that_add_sample_and_update_transitions(eager_switches):
    replay = TransitionReplay(50, seed=0)

    def add(number):
        values = np.full((10, 50), number, np.float64)
        rewards = np.full(10, float(number))
        replay.add_batch(values, rewards, rewards, values, np.zeros(10), rewards)

    def sample(_):
        batch = replay.sample(8)
        for values in (batch.observations, batch.next_observations):
            np.testing.assert_array_equal(values, np.repeat(batch.rewards[:, None], 50, axis=1))
        batch.update(batch.rewards)

    add(0)
    run_together(sample, sample, add, lambda i: add(1000 + i), rounds=60)
    assert len(replay) == 50
    assert replay.num_added == 10 * 121
    masses = replay.tree[np.arange(50)]
    assert replay.total_priority() == pytest.approx(masses.sum())


def test_a_fork_while_another_thread_is_in_a_call():
    """The child has nothing torn, and no lock of a thread that is not there.

    In an interpreter of its own: a fork copies whatever other tests have left running, too.
    """
    script = pathlib.Path(__file__).with_name("forks_in_calls.py")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
