"""States with anything wrong in them are refused whole, or what they say is what counts then."""

import contextlib
import copy
import itertools
import random

import numpy as np
import pytest
from multi_agent_buffers import make_buffer as make_multi
from multi_agent_episodes import TWO, play_multi
from ray.rllib.policy.sample_batch import SampleBatch
from rllib_buffers import filled, make_buffer

from rllib_per_acc import (
    AccPrioritizedReplayBuffer,
    EpisodeChunk,
    PrioritizedReplay,
    TransitionReplay,
)
from rllib_per_acc.draws import NothingToSampleError


def replay_of_episodes(number=4, **options):
    replay = PrioritizedReplay(30, **{"seed": 1, "max_priority": "buffer"} | options)
    for n in range(number):
        chunk = EpisodeChunk(f"e{n}", {"x": np.arange(8.0)}, np.arange(7), np.arange(7.0))
        replay.add([chunk], weight=0.5 + n)
    return replay


def replay_of_transitions(number=20):
    replay = TransitionReplay(8, seed=1)
    for n in range(number):
        replay.add(np.full(2, n), n, n, np.full(2, n + 1), False, n + 1.0)
    return replay


def buffer_of_one(fill="half full"):
    return filled(fill)


def buffer_of_several(number=20):
    buffer = make_multi(60)
    for episodes in itertools.islice(play_multi(2, 5, TWO, seed=3), number):
        buffer.add(episodes)
    return buffer


def old_stack(number=25):
    buffer = AccPrioritizedReplayBuffer(20, alpha=0.6, num_shards=0, seed=1)
    for n in range(number):
        buffer.add(SampleBatch(obs=np.full((1, 2), n), rewards=np.array([float(n)])), weight=n + 1)
    return buffer


def use(buffer):
    """Everything that a state must allow, whatever it says; there may be nothing to sample."""
    buffer.get_state()
    with contextlib.suppress(NothingToSampleError):
        if isinstance(buffer, AccPrioritizedReplayBuffer):
            buffer.stats()
            buffer.sample(4, beta=0.4)
        elif isinstance(buffer, PrioritizedReplay | TransitionReplay):
            buffer.sample(4).update(np.ones(4))
        else:
            buffer.get_metrics()
            buffer.sample(num_items=4)


MAKERS = {
    "episodes": (replay_of_episodes, (2,)),
    "transitions": (replay_of_transitions, (5,)),
    "one agent": (buffer_of_one, ("wrapped",)),
    "several agents": (buffer_of_several, (7,)),
    "old stack": (old_stack, (9,)),
}
BAD = [None, "x", -1, 10**30, 1.5, float("nan"), [], {}, (), True, object(), np.zeros(3)]


def paths_of(value, path=()):
    """Of everything in nested dicts and lists."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths_of(item, (*path, key))
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value[:2]):
            yield from paths_of(item, (*path, i))


def changed(state, path, value):
    """A copy with something else at a path, or without it."""
    if not path:
        return value
    key, *rest = path
    copied = copy.copy(state)
    if isinstance(copied, tuple):
        copied = list(copied)
    if value is KeyError and not rest:
        del copied[key]
    else:
        copied[key] = changed(copied[key], rest, value)
    return tuple(copied) if isinstance(state, tuple) else copied


def spoilt(array, rng):
    """Arrays that are another one at one place, or of another kind."""
    yield array[:-1] if array.ndim and len(array) else np.zeros((2, 2))
    yield array.reshape(-1, 1) if array.size else np.zeros(1)
    yield array.astype(object) if array.dtype != object else np.arange(len(array))
    for value in (-1, 2**31 - 1, np.nan, 0):
        if array.size and array.dtype != object:
            other = array.copy()
            with np.errstate(invalid="ignore"):
                other.flat[rng.randrange(array.size)] = np.asarray(value).astype(array.dtype)
            yield other


def is_refused(buffer, state):
    try:
        buffer.set_state(state)
    except ValueError:
        return True
    return False


def same(one, two):
    try:
        np.testing.assert_equal(one, two)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if "agent" in kind else ()) for kind in MAKERS],
)
def test_a_state_with_anything_wrong_changes_nothing(kind):
    make, others = MAKERS[kind]
    state = make().get_state()
    other = make(*others)
    before = other.get_state()
    rng = random.Random(4)
    refused = accepted = 0
    for path in paths_of(state):
        value = state
        for key in path:
            value = value[key]
        bad = [*BAD, KeyError]
        if isinstance(value, np.ndarray):
            bad += spoilt(value, rng)
        for wrong in bad:
            if is_refused(other, changed(state, path, wrong)):
                refused += 1
                assert same(other.get_state(), before), (path, wrong)
            else:
                accepted += 1
                use(other)
                other = make(*others)
                before = other.get_state()
    assert refused > 10 * len(BAD)
    other.set_state(state)
    assert same(other.get_state(), state)
    assert accepted < refused


@pytest.mark.parametrize("bad", [None, {}, {"shards": []}, {"shards": None}, 3])
@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_no_state_changes_nothing(kind, bad):
    make, others = MAKERS[kind]
    other = make(*others)
    before = other.get_state()
    with pytest.raises(ValueError, match="state"):
        other.set_state(bad)
    assert same(other.get_state(), before)


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3])
def test_one_bad_shard_changes_none(ray_session, number):
    """As many shards as saved, or another number."""
    buffer = filled("half full", num_shards=2)
    state = buffer.get_state()
    other = filled("wrapped", num_shards=number)
    before = other.get_state()
    shard = state["replay"]["shards"][1]
    bad_shards = [None, {}, shard | {"description": None}]
    bad_shards += [shard | {"arrays": shard["arrays"] | {"masses": -shard["arrays"]["masses"]}}]
    good = state["replay"]
    bad_states = [good | {"shards": [good["shards"][0], bad]} for bad in bad_shards]
    bad_states += [good | {"draws": {}}, good | {"draws": {"rng": None, "acceptance": 1.0}}]
    bad_states += [good | {"steps_sampled": "x"}, good | {"shards": {}}]
    for bad in bad_states:
        with pytest.raises(ValueError, match=r"got|cannot be restored"):
            other.set_state(state | {"replay": bad})
        assert same(other.get_state(), before)
    with pytest.raises(ValueError, match="spaces"):
        other.set_state(state | {"spaces": None})
    assert same(other.get_state(), before)
    other.set_state(state)
    assert other.get_num_timesteps() == buffer.get_num_timesteps()


def test_a_buffer_keeps_its_spaces_if_those_of_a_state_are_none():
    buffer, other = filled("half full"), make_buffer()
    state = buffer.get_state()
    for spaces in (None, (1, 2), (None,), "ab"):
        with pytest.raises(ValueError, match=r"state\.spaces"):
            buffer.set_state(state | {"spaces": spaces})
    other.set_state(state | {"spaces": (None, None)})
