"""What callers give to shards, and errors of calls that were not waited for."""

import gc
import re

import numpy as np
import pytest
from shard_cases import (
    MEGABYTE,
    bytes_stored,
    chunk,
    comes_true,
    kill,
    make_replay,
    masses_of,
    steps_of,
)

from rllib_per_acc import EpisodeChunk, PrioritizedReplay
from rllib_per_acc.shards.frozen import Frozen

pytestmark = pytest.mark.usefixtures("ray_session")


@pytest.mark.parametrize("num_shards", [1, 2])
def test_what_arrays_held_at_the_call_is_stored(num_shards):
    replay = make_replay(num_shards, options={"alpha": 1.0})
    length = 5
    observations = {"a": np.zeros((length + 1, 2)), "b": (np.zeros(length + 1),)}
    actions, rewards = np.zeros(length), np.zeros(length)
    infos = [{"array": np.zeros(2), "list": [0]} for _ in range(length + 1)]
    extras = {"logits": np.zeros((length, 2))}
    weight = np.zeros(length)
    large = np.zeros((length + 1, 50_000), np.uint8)  # kept beside the message
    for value in (1, 2, 3):
        for array in (observations["a"], observations["b"][0], actions, rewards, weight, large):
            array[:] = value
        extras["logits"][:] = value
        for info in infos:
            info["array"][:] = value
            info["list"][0] = value
        replay.add(
            [
                EpisodeChunk(
                    f"e{value}", observations | {"large": large}, actions, rewards,
                    infos=infos, extra_model_outputs=extras,
                )
            ],
            weight=weight,
        )  # fmt: skip
    batch = replay.sample(64, include_infos=True, include_extra_model_outputs=True)
    priorities = np.full(64, 9.0)
    batch.update(priorities)
    priorities[:] = 0.5
    for held in (observations["a"], actions, rewards, large):
        held[:] = 77
    chunks = {held.episode_id: held for held in replay.get_chunks(0, 10)}
    assert chunks.keys() == {"e1", "e2", "e3"}
    for value in (1, 2, 3):
        held = chunks[f"e{value}"]
        leaves = [*held.observations.values(), held.actions, held.rewards]
        leaves += [held.extra_model_outputs["logits"]]
        for leaf in leaves:
            assert (np.asarray(leaf) == value).all()
        assert all(
            (info["array"] == value).all() and info["list"] == [value] for info in held.infos
        )
    drawn = {(f"e{int(r)}", int(t)) for r, t in zip(batch.rewards, batch.t, strict=True)}
    for (id_, t), mass in masses_of(replay).items():
        assert mass == (9.0 if (id_, t) in drawn else float(id_[1:]))


def ragged(number, length=16):
    """An episode whose observations are arrays of various lengths; about a megabyte."""
    observations = np.empty(length + 1, object)
    for i in range(length + 1):
        observations[i] = np.full(60_000 + i, number % 251, np.uint8)
    outputs = np.empty(length, object)
    for i in range(length):
        outputs[i] = np.full(5_000 + i, number % 251, np.uint8)
    return EpisodeChunk(
        f"r{number}", (observations,), np.zeros(length), np.zeros(length),
        infos=[{"image": np.full(5_000, number % 251, np.uint8)}] * (length + 1),
        extra_model_outputs={"outputs": outputs},
    )  # fmt: skip


def test_objects_that_came_through_the_object_store_do_not_stay_there():
    baseline = bytes_stored()
    replay = make_replay(1, 1_000)
    for i in range(20):
        replay.add([ragged(i)])
    assert replay.info()["steps"] == 320
    gc.collect()
    assert comes_true(lambda: bytes_stored() <= baseline + MEGABYTE)
    observations = replay.get_chunks(3, 4)[0].observations
    assert [len(item) for item in observations[0]] == list(range(60_000, 60_017))
    assert all((item == 3).all() for item in observations[0])


def wide(number, length=3):
    """Steps whose observations have another shape than those of `chunk`."""
    return EpisodeChunk(
        f"e{number}", np.zeros((length + 1, 9)), np.zeros(length, np.int64), np.zeros(length)
    )


def short_rewards(number):
    bad = chunk(number, 3)
    bad.rewards = bad.rewards[:2]
    return bad


def no_flag(number):
    bad = chunk(number, 3)
    bad.terminated = "yes"
    return bad


BAD = {
    "shape": (lambda: wide(90), ValueError),
    "length": (lambda: short_rewards(90), ValueError),
    "flag": (lambda: no_flag(90), TypeError),
    "ended": (lambda: chunk(0, 3, 4), ValueError),
    "gap": (lambda: chunk(1, 3, 9), ValueError),
    "type": (lambda: 3, TypeError),
}


@pytest.mark.parametrize("bad", BAD)
def test_an_add_over_several_shards_is_stored_whole_or_not_at_all(bad):
    replay = make_replay(3)
    replay.add([chunk(0, 4), chunk(1, 4, done=False), chunk(2, 4, done=False)])
    make, error = BAD[bad]
    with pytest.raises(error):
        replay.add([chunk(2, 4, 4), chunk(3, 5), chunk(4, 5), make(), chunk(5, 5)])
    with pytest.raises(ValueError, match="weight"):
        replay.add([chunk(3, 5), chunk(4, 5), chunk(5, 5)], weight=[1.0])
    assert replay.info()["steps"] == 12
    replay.add([chunk(2, 4, 4), chunk(3, 5), chunk(4, 5), chunk(5, 5)])
    assert replay.info()["steps"] == 12 + 19
    assert len(steps_of(replay.sample(50))) == 50


def test_an_episode_that_was_evicted_may_begin_anew():
    replay = make_replay(2, 20)
    replay.add([chunk(0, 10), chunk(1, 10)])
    replay.add([chunk(2, 10), chunk(3, 10)])
    replay.add([chunk(0, 10), chunk(1, 10)])
    assert {id_ for id_, _ in masses_of(replay)} == {"e0", "e1"}


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("num_shards", [1, 2])
def test_what_was_refused_is_not_added_again_after_a_loss(num_shards, late):
    """Neither what the client refuses, nor what a shard refuses later."""
    replay = make_replay(num_shards)
    for i in range(20):
        replay.add([chunk(i, 4)])
    refused = chunk(0, 4, 9) if late else wide(50)
    with pytest.raises(ValueError, match=r"chunks|observations"):
        replay.add([refused]) or replay.sample(8)
    for shard in range(num_shards):
        kill(replay, shard)
    drawn = steps_of(replay.sample(64))
    assert {number for number, _, _ in drawn} == {19}
    replay.add([chunk(30, 4)])
    assert replay.sample(4).observations.shape == (4, 2)


def test_an_error_of_an_earlier_add_takes_nothing_of_the_one_that_raises_it():
    replay = make_replay(1)
    writer = replay.writer()
    writer.add([chunk(0, 4)])
    writer.add([chunk(0, 4, 9)])
    raised = []

    def add(number):
        try:
            writer.add([chunk(number, 4)])
        except ValueError as error:
            raised.append(str(error))

    for i in range(1, 30):
        add(i)
    writer.flush()
    (message,) = raised
    assert "number 2 of what its client sent" in message
    assert "'e0'" in message
    assert replay.info()["steps"] == 4 * 30


@pytest.fixture(scope="module")
def replays():
    return {n: make_replay(n, 1 << 20) for n in (1, 2, 3, 4)}


class Program:
    """Good and bad calls, to a replay over shards and to one in this process."""

    def __init__(self, replay, seed):
        self.rng = np.random.default_rng(seed)
        self.replay, self.oracle = replay, PrioritizedReplay(1 << 20, alpha=1.0)
        self.first = int(1e6) * (1 + seed)
        self.open: dict[int, int] = {}
        self.known = 0
        self.expected, self.raised = [], []

    def guarded(self, call):
        try:
            return call()
        except (TypeError, ValueError) as error:
            self.raised.append(str(error))
        return None

    def new(self):
        self.known += 1
        number, n = self.first + self.known, int(self.rng.integers(1, 6))
        done = bool(self.rng.integers(2))
        if not done:
            self.open[number] = n
        return chunk(number, n, 0, done)

    def more(self):
        if not self.open:
            return self.new()
        number = int(self.rng.choice(list(self.open)))
        t, n = self.open[number], int(self.rng.integers(1, 6))
        done = bool(self.rng.integers(2))
        self.open[number] = t + n
        if done:
            del self.open[number]
        return chunk(number, n, t, done)

    def add(self, chunks):
        """Adds to both; what the oracle refuses is an error of the other one, now or later."""
        before = len(self.raised)
        try:
            self.oracle.add(chunks)
        except (TypeError, ValueError) as error:
            self.expected.append(str(error))
        self.guarded(lambda: self.replay.add(chunks))
        assert len(self.raised) <= before + 1

    def step(self):
        kind = self.rng.integers(8)
        if kind < 3:
            self.add([self.more() for _ in range(self.rng.integers(1, 4))])
        elif kind == 3:  # an episode that has not come so far
            number = next(iter(self.open), self.first + max(self.known, 1))
            self.add([chunk(number, 2, 1000)])
        elif kind == 4:
            self.add([chunk(self.first + 7_000, 3), wide(self.first + 7_001)])
        elif kind == 5:
            self.add([short_rewards(self.first + 7_002)])
        elif kind == 6:
            batch = self.guarded(lambda: self.replay.sample(8))
            if batch is not None:
                self.guarded(lambda: batch.update(np.ones(8)))
        else:
            self.guarded(self.replay.info)


def reason(message):
    """What is wrong, without where."""
    return re.findall(r"(\w+: got .*)", message)[-1][:60]


@pytest.mark.parametrize("num_shards", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_each_error_comes_once_and_all_else_is_stored(replays, num_shards, seed):
    replay = replays[num_shards]
    program = Program(replay, 10 * seed + num_shards)
    program.add([program.new()])
    for _ in range(60 if seed == 0 else 600):
        program.step()
    while True:
        before = len(program.raised)
        program.guarded(replay.info)
        if len(program.raised) == before:
            break
    assert sorted(map(reason, program.raised)) == sorted(map(reason, program.expected))
    own = program.first // int(1e6)
    mine = {(id_, t) for id_, t in masses_of(replay) if int(id_[1:]) // int(1e6) == own}
    assert mine == masses_of(program.oracle).keys()


class Unknown:
    """A class of a module that shards cannot import."""

    __module__ = "__main__"

    def __init__(self, value):
        self.value = value


def test_what_only_this_process_knows_is_sent_by_value():
    seen = Frozen({"unknown": Unknown(3), "call": lambda: 4, "array": np.arange(3)})
    replay = make_replay(1)
    known = chunk(0, 2)
    known.infos = [{"call": lambda i=i: i} for i in range(3)]
    replay.add([known])
    (held,) = replay.get_chunks(0, 1)
    assert [info["call"]() for info in held.infos] == [0, 1, 2]
    thawed = seen.thaw()
    assert (thawed["unknown"].value, thawed["call"]()) == (3, 4)
    assert thawed["array"].tolist() == [0, 1, 2]
