"""A call that is interrupted anywhere leaves what was before, or what the finished call leaves."""

import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from fault_injection import check_all_or_nothing, fault, same

from rllib_per_acc import EpisodeChunk, PrioritizedReplay, TransitionReplay, TransitionStore
from rllib_per_acc.local_folder import LocalFolder
from rllib_per_acc.prioritized_ring import PrioritizedRing
from rllib_per_acc.replay_options import PriorityOptions, SequenceShape
from rllib_per_acc.replay_part import GatherOptions, ReplayPart
from rllib_per_acc.row_ring import RowBatch

INTERRUPTS = (MemoryError, KeyboardInterrupt, ZeroDivisionError)
MOST = 150
"""At so many lines of a call; the slow tests take all of them, and every instruction."""


def chunk(number, start=0, length=4, *, ended=False, stack=0, **given):
    """Steps of an episode whose values say which they are, in several dtypes."""
    t = np.arange(start, start + length + 1)
    observations = {"t": t, "text": np.array([f"{number} {i}" for i in t], object)}
    if stack:
        frames = 100 * number + np.maximum(t[:, None] - np.arange(stack)[::-1], 0)
        observations["image"] = np.repeat(frames[:, None, :], 3, 1).astype(np.uint16)
    extras = {"logp": np.arange(length) + 0.5} if number % 2 else {}
    return EpisodeChunk(
        f"episode-{number}",
        observations,
        t[:-1] + 10 * number,
        t[:-1] + number / 8,
        terminated=ended,
        t_started=start,
        infos=[{"t": int(i)} for i in t],
        extra_model_outputs=extras | given,
    )


def replay_of(kind=PrioritizedReplay, stack=0, **options):
    replay = kind(20, seed=3, frame_stack=stack, **options)
    for number in range(5):
        replay.add([chunk(number, ended=number < 4, stack=stack)], weight=1.0 + number)
    replay.sample(4).update(np.linspace(0.1, 7, 4))
    return replay


def state_and_samples(replay):
    info = replay.info() | {"bytes": 0}  # room that was made in vain may stay
    chunks = [{n: getattr(c, n) for n in c.__slots__} for c in replay.get_chunks(0, 99)]
    samples = 2 if len(replay) else 0
    columns = [replay.sample(9, include_infos=True).columns for _ in range(samples)]
    return [info, replay.get_state(), replay.get_priorities(), chunks, columns]


def add_all_sorts(replay, stack=0):
    """Goes on with an episode, starts two, evicts two, brings a new column."""
    new = {"new": np.ones(4, np.float32)}
    replay.add(
        [
            *([chunk(4, 4, 2, stack=stack)] if len(replay) else []),
            chunk(7, 0, 4, stack=stack, **new),
            chunk(7, 4, 3, ended=True, stack=stack, new=np.zeros(3, np.float32)),
            chunk(8, 0, 0, stack=stack),
            chunk(9, 0, 1, stack=stack),
        ],
        weight=2.5,
    )


EPISODES = {
    "add to an empty one": (lambda: PrioritizedReplay(20, seed=1), add_all_sorts),
    "add": (replay_of, add_all_sorts),
    "add with the maximum": (
        lambda: replay_of(max_priority="buffer"),
        lambda r: r.add([chunk(8), chunk(9)]),
    ),
    "add stacks": (lambda: replay_of(stack=3), lambda r: add_all_sorts(r, stack=3)),
    "add more than there is room for": (
        replay_of,
        lambda r: r.add([chunk(n, 0, 9) for n in (10, 12, 14)]),
    ),
    "add that grows": (
        lambda: PrioritizedReplay(5000, seed=1),
        lambda r: r.add([chunk(n, 0, 700) for n in (0, 2)]),
    ),
    "prepared": (replay_of, lambda r: r.prepare_add([chunk(8), chunk(9)])()),
    "sample": (replay_of, lambda r: r.sample(8, n_step=(1, 3), include_infos=True)),
    "sample with few": (replay_of, lambda r: r.sample(30, n_step=4)),
    "sample stratified": (lambda: replay_of(sampling="stratified"), lambda r: r.sample(8)),
    "sample stacks": (lambda: replay_of(stack=3), lambda r: r.sample(8)),
    "sample sequences": (
        replay_of,
        lambda r: r.sample(5, sequences=SequenceShape(length=3, lookback=1)),
    ),
    "take_activity": (replay_of, lambda r: r.take_activity()),
    "set_state": (replay_of, lambda r: r.set_state(replay_of(alpha=0.3).get_state())),
    "get_state": (replay_of, lambda r: r.get_state()),
}


def update_some_that_are_gone(replay):
    replay.batch.update(np.linspace(0.5, 9.0, 12))


def with_a_batch(**options):
    replay = replay_of(**options)
    replay.batch = replay.sample(12)
    replay.add([chunk(8), chunk(9)])
    return replay


EPISODES["update"] = (with_a_batch, update_some_that_are_gone)
EPISODES["update with the maximum"] = (
    lambda: with_a_batch(max_priority="buffer", min_priority=0.1),
    update_some_that_are_gone,
)


@pytest.mark.parametrize("case", EPISODES)
def test_episodes(case):
    check_all_or_nothing(*EPISODES[case], state_and_samples, errors=INTERRUPTS, most=MOST)


@pytest.mark.slow
@pytest.mark.parametrize("opcodes", [False, True])
@pytest.mark.parametrize("case", EPISODES)
def test_episodes_everywhere(case, opcodes):
    most = 2000 if opcodes else None
    make, call = EPISODES[case]
    check_all_or_nothing(
        make, call, state_and_samples, errors=INTERRUPTS, most=most, opcodes=opcodes
    )


def test_an_interrupt_is_seen_before_and_after_the_change_counts():
    """The tests above would see neither in a call that cannot be interrupted."""
    undone, finished = check_all_or_nothing(replay_of, add_all_sorts, state_and_samples, most=400)
    assert undone > 100
    assert finished > 10


@pytest.mark.parametrize("way", ["save", "load"])
def test_saves(way, tmp_path):
    other = replay_of(alpha=0.3)
    add_all_sorts(other)
    other.save(tmp_path / "given")

    def restore(replay):
        folder = LocalFolder(tmp_path / "parts")
        replay.prepare_restore(folder, saved).commit()

    saved = other.save_in(LocalFolder(tmp_path / "parts"))
    number = iter(range(10**6))
    call = {"save": lambda r: r.save(tmp_path / f"save-{next(number)}"), "load": restore}[way]
    # What a file raises when it is read is an error of the save.
    errors = (KeyboardInterrupt,)
    check_all_or_nothing(replay_of, call, state_and_samples, errors=errors, most=MOST)


# Stores, transitions, rings, parts


def store_state(store):
    description, arrays = store.state()
    chunks = [{name: getattr(c, name) for name in c.__slots__} for c in store.chunks(0, 99)]
    return [description, {name: a.copy() for name, a in arrays.items()}, chunks]


def test_a_store():
    def make():
        store = TransitionStore(20)
        for number in range(5):
            store.add([chunk(number, ended=number < 4)])
        return store

    call = lambda s: s.add([chunk(4, 4, 2), chunk(7), chunk(8)])  # noqa: E731
    check_all_or_nothing(make, call, store_state, errors=INTERRUPTS, most=MOST)


def transitions(n, first=0):
    numbers = np.arange(first, first + n)
    observations = {"x": numbers, "text": np.array([str(i) for i in numbers], object)}
    return observations, numbers, numbers / 4, observations, numbers % 2 == 0


def transition_replay(**options):
    replay = TransitionReplay(12, seed=5, **options)
    replay.add_batch(*transitions(9), td_errors=np.arange(1.0, 10))
    return replay


TRANSITIONS = {
    "add": lambda r: r.add_batch(*transitions(8, 9)),
    "add one": lambda r: r.add({"x": 1, "text": "a"}, 1, 0.5, {"x": 2, "text": "b"}, True, 3.0),
    "add too many": lambda r: r.add_batch(*transitions(30, 9), td_errors=np.ones(30)),
    "sample": lambda r: r.sample(6),
    "update": lambda r: r.update([0, 3, 3], [9.0, 1.0, 2.0]),
    "clear": lambda r: r.clear(),
    "set_state": lambda r: r.set_state(TransitionReplay(7, seed=1).get_state()),
}


def transitions_seen(replay):
    seen = [replay.get_state(), len(replay), replay.num_added, replay.num_stale_dropped]
    return seen + [replay.sample(4).columns for _ in range(2 if len(replay) else 0)]


@pytest.mark.parametrize("max_priority", ["lifetime", "buffer"])
@pytest.mark.parametrize("case", TRANSITIONS)
def test_transitions(case, max_priority):
    check_all_or_nothing(
        lambda: transition_replay(max_priority=max_priority),
        TRANSITIONS[case],
        transitions_seen,
        errors=INTERRUPTS,
        most=MOST,
    )


def row_batch(n, first=0):
    numbers = np.arange(first, first + n)
    columns = {"x": numbers, "o": np.array([str(i) for i in numbers], object)}
    return RowBatch(columns, np.ones(n, np.int64), 8 * np.ones(n, np.int64))


def ring(filled=14):
    ring = PrioritizedRing(10, PriorityOptions(alpha=0.6, seed=2), "p")
    ring.add(row_batch(6))
    ring.add(row_batch(filled - 6, 6), 2.0)
    ring.count_hits(ring.sample(5).slots)
    return ring


RINGS = {
    "add": lambda r: r.add(row_batch(8, 20), 3.0),
    "add too many": lambda r: r.add(row_batch(35, 20)),
    "sample": lambda r: r.sample(6),
    "count_hits": lambda r: r.count_hits(np.array([1, 1, 2])),
    "update": lambda r: r.update([1, 4, 4], [9.0, 1.0, 2.0]),
    "set_states": lambda r: r.set_states(ring(7).get_states()),
}


def ring_seen(ring):
    stats = ring.stats()
    seen = [ring.get_states(), vars(stats), ring.hits(), ring.masses(), ring.shard_info()]
    return seen + [ring.sample(4)._asdict() for _ in range(2)]


@pytest.mark.parametrize("filled", [8, 14])
@pytest.mark.parametrize("case", RINGS)
def test_rings(case, filled):
    check_all_or_nothing(lambda: ring(filled), RINGS[case], ring_seen, errors=INTERRUPTS, most=MOST)


PARTS = {
    "propose": lambda r: r.propose(
        np.array([0.1, 0.7]), np.array([1, 2]), GatherOptions(0.9, 3, infos=True, extras=False)
    ),
    "carry_on": lambda r: r.carry_on(replay_of(ReplayPart).counters()),
}


@pytest.mark.parametrize("case", PARTS)
def test_a_part(case):
    def seen(part):
        return [*state_and_samples(part), part.status()._replace(nbytes=0)]

    make = lambda: replay_of(ReplayPart)  # noqa: E731
    check_all_or_nothing(make, PARTS[case], seen, errors=INTERRUPTS, most=MOST)


def test_an_interrupt_of_an_interrupted_change_is_made_up_for():
    """Whatever happens while a change is finished, the next call finishes it."""
    expected = replay_of()
    add_all_sorts(expected)
    expected = state_and_samples(expected)
    for at in range(12):
        replay = replay_of()
        tries = iter(range(10**6))

        def failing(*arguments, update=replay.tree.update, tries=tries):
            if next(tries) < 2:
                raise MemoryError
            update(*arguments)

        replay.tree.update = failing
        with pytest.raises(MemoryError):
            add_all_sorts(replay)
        with fault(at), suppress(MemoryError):
            replay.info()
        assert same(state_and_samples(replay), expected)


# Real ones

NO_MEMORY = """
import pathlib, resource, sys
import numpy as np
sys.path[:0] = sys.argv[1:]
from replay_checks import check_invariants
from rllib_per_acc import EpisodeChunk, PrioritizedReplay

def chunk(number, length):
    images = np.full((length + 1, 25_000), number, np.uint8)
    rewards = np.full(length, float(number))
    return EpisodeChunk(f"e{number}", images, rewards, rewards, terminated=True)

replay = PrioritizedReplay(1000, seed=0)
for number in range(10):
    replay.add([chunk(number, 100)])
large = chunk(99, 2500)
before = replay.info()
taken = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 20 * 2**20, resource.RLIM_INFINITY))
try:
    replay.add([large])
except MemoryError:
    print("no memory")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert replay.info() | {"bytes": 0} == before | {"bytes": 0}
check_invariants(replay)
for number in (20, 21):
    replay.add([chunk(number, 100)])
check_invariants(replay)
batch = replay.sample(1280)
assert (batch.observations == batch.rewards[:, None]).all()
assert set(batch.rewards) == {2, 3, 4, 5, 6, 7, 8, 9, 20, 21}
"""


def test_no_memory():
    folders = [path for path in sys.path if "tests" in path]
    command = [sys.executable, "-c", NO_MEMORY, *folders]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "no memory\n"), found.stderr


class Alarm:
    """Interrupts what runs in here after a random time."""

    def __init__(self, rng):
        self._rng = rng

    def __enter__(self):
        signal.setitimer(signal.ITIMER_REAL, max(self._rng.exponential(3e-4), 1e-6))

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture
def ctrl_c():
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize("stack", [0, 3])
def test_ten_thousand_interrupts(ctrl_c, stack):
    """The replay is that of those calls that were made, which its counters tell."""
    rng = np.random.default_rng(stack)
    replay, twin = (PrioritizedReplay(60, seed=1, frame_stack=stack) for _ in range(2))
    interrupts = 0
    number = 0
    while interrupts < 10_000:
        number += 1
        chunks = [chunk(number + i, ended=True, stack=stack) for i in range(3)]
        number += 3
        before = replay.info()["steps_added"]
        try:
            with Alarm(rng):
                replay.add(chunks)
        except KeyboardInterrupt:
            interrupts += 1
        if replay.info()["steps_added"] > before:
            twin.add(chunks)
        if not len(replay):
            continue
        before = replay.info()["steps_sampled"]
        try:
            with Alarm(rng):
                replay.sample(5, n_step=2)
        except KeyboardInterrupt:
            interrupts += 1
        if replay.info()["steps_sampled"] > before:
            twin.sample(5, n_step=2)
        batch = replay.sample(5)
        theirs = twin.sample(5)
        assert same(batch.columns, theirs.columns)
        priorities = rng.random(5)
        try:
            with Alarm(rng):
                batch.update(priorities)
        except KeyboardInterrupt:
            interrupts += 1
        masses = twin.get_priorities()
        if not same(replay.get_priorities(), masses):
            theirs.update(priorities)
        elif replay.info()["stale_priorities_dropped"]:
            raise AssertionError("nothing was evicted in between")
    mine, others = state_and_samples(replay), state_and_samples(twin)
    assert same(mine[1]["arrays"], others[1]["arrays"])
    assert same(mine[2:], others[2:])
