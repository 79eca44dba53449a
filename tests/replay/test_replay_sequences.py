"""Sequences of steps against whole episodes, and their priorities against plain loops."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_checks import masses_of
from replay_reference import action_of, make_chunk, observation_of, reward_of
from scipy.stats import chisquare

from rllib_per_acc import EpisodeChunk, PrioritizedReplay
from rllib_per_acc.draws import NothingToSampleError
from rllib_per_acc.replay_options import SequenceShape
from rllib_per_acc.sequences import sequence_priorities

LENGTHS = {0: 7, 1: 2, 2: 13, 3: 1, 4: 9}
ENDS = {0: "terminated", 1: "truncated", 2: "", 3: "terminated", 4: "truncated"}


def chunk(number: int, start: int, length: int, end: str = "") -> EpisodeChunk:
    """As `make_chunk`, with infos and a model output at each step that name it."""
    made = make_chunk(number, start, length, end)
    made.infos = [{"at": (number, t)} for t in range(start, start + length + 1)]
    made.extra_model_outputs = {
        "state": {"h": np.array([(number, t) for t in range(start, start + length)])}
    }
    return made


def filled(**options) -> PrioritizedReplay:
    replay = PrioritizedReplay(100, **({"alpha": 1.0, "seed": 4} | options))
    replay.add([chunk(number, 0, n, ENDS[number]) for number, n in LENGTHS.items()])
    return replay


def uneven(**options) -> PrioritizedReplay:
    """Masses over two orders of magnitude."""
    replay = filled(**options)
    batch = replay.sample(1000)
    batch.update(10.0 ** np.random.default_rng(2).uniform(-1, 1, 1000))
    return replay


def starts(batch) -> list[tuple[str, int]]:
    return list(zip(batch.episode_id, batch.t.tolist(), strict=True))


def check_sequences(batch, shape: SequenceShape, lengths: dict, first: dict) -> None:
    """Every item of every sequence, read off whole episodes.

    Args:
        batch: With infos, extra model outputs and episode ids.
        shape: Of the sequences.
        lengths: How many steps of each episode were played, by its number.
        first: The time step of the first stored one.
    """
    for i, (id_, t) in enumerate(starts(batch)):
        number = int(id_.removeprefix("episode-"))
        length, before = int(batch.length[i]), int(batch.lookback[i])
        assert length == min(shape.length, lengths[number] - t)
        assert length >= shape.least
        assert before == min(shape.lookback, t - first[number])
        ends = t + length == lengths[number]
        assert batch.terminateds[i] == (ends and ENDS.get(number) == "terminated")
        assert batch.truncateds[i] == (ends and ENDS.get(number) == "truncated")
        start = shape.lookback - before
        times = range(t - before, t + length)
        for at, time in enumerate(times, start):
            assert (batch.observations[i, at] == observation_of(number, time)).all()
            assert batch.actions[i, at] == action_of(number, time)
            assert batch.rewards[i, at] == reward_of(number, time)
            assert batch.infos[i, at] == {"at": (number, time)}
            assert batch.extra_model_outputs["state"]["h"][i, at].tolist() == [number, time]
        last = shape.lookback + length
        np.testing.assert_array_equal(
            batch.observations[i, last], observation_of(number, t + length)
        )
        assert batch.infos[i, last] == {"at": (number, t + length)}


@pytest.mark.parametrize(
    "shape",
    [SequenceShape(1), SequenceShape(4, 1), SequenceShape(5, 3, 2), SequenceShape(40, 1, 7)],
)
def test_sequences_are_those_of_whole_episodes(shape):
    """Chunks of several envs in turn, evictions in between, in the middle of episodes too."""
    replay = PrioritizedReplay(60, seed=1)
    rng = np.random.default_rng(7)
    played: dict[int, int] = {}
    running = list(range(100, 104))
    for step in range(60):
        env = step % 4
        number, n = running[env], int(rng.integers(1, 8))
        start = played.get(number, 0)
        replay.add([chunk(number, start, n, "")])
        played[number] = start + n
        if rng.random() < 0.25:
            running[env] = 200 + step
        chunks = replay.get_chunks(0, 100)
        first = {int(c.episode_id.removeprefix("episode-")): c.t_started for c in chunks}
        if max(len(c) for c in chunks) >= shape.least:
            batch = replay.sample(
                8, sequences=shape, include_infos=True, include_extra_model_outputs=True,
                include_episode_ids=True,
            )  # fmt: skip
            check_sequences(batch, shape, played, first)
    assert any(first.values()), "no episode was cut at its front"


@pytest.mark.parametrize("num_items", [1, 30])
def test_ends_of_episodes(num_items):
    shape = SequenceShape(6, 2)
    for _ in range(10):
        batch = filled().sample(
            num_items, sequences=shape, include_infos=True, include_extra_model_outputs=True,
            include_episode_ids=True,
        )  # fmt: skip
        assert batch.observations.shape == (num_items, 9, 3)
        assert batch.rewards.shape == (num_items, 8)
        check_sequences(batch, shape, LENGTHS, dict.fromkeys(LENGTHS, 0))


@pytest.mark.parametrize("sampling", ["proportional", "stratified"])
@pytest.mark.parametrize("least", [1, 3, 13])
def test_sequences_begin_as_often_as_the_mass_of_their_first_step_says(sampling, least):
    """least = 13: one step of 32 can begin one."""
    replay = uneven(sampling=sampling)
    expected = {
        (id_, t): mass
        for (id_, t), mass in masses_of(replay).items()
        if LENGTHS[int(id_.removeprefix("episode-"))] - t >= least
    }
    counts = Counter()
    for _ in range(60):
        batch = replay.sample(250, sequences=SequenceShape(20, 1, least), include_episode_ids=True)
        counts.update(starts(batch))
    assert counts.keys() <= expected.keys()
    if len(expected) > 1:
        total = sum(expected.values())
        observed = [counts[step] for step in expected]
        wanted = [counts.total() * mass / total for mass in expected.values()]
        assert chisquare(observed, wanted).pvalue > 1e-3


def test_weights_and_counts():
    replay = uneven()
    masses = masses_of(replay)
    before = replay.lifetimes
    batch = replay.sample(50, sequences=SequenceShape(4, 1), include_episode_ids=True, beta=0.7)
    least = min(masses.values())
    expected = [(masses[start] / least) ** -0.7 for start in starts(batch)]
    np.testing.assert_allclose(batch.weights, expected, rtol=1e-12)
    activity = replay.take_activity()
    assert activity.counts.steps_sampled - before.steps_sampled == batch.length.sum()
    assert activity.n_step[-1] == 1.0


def test_a_priority_goes_to_the_first_step_only_and_not_to_its_successor():
    replay = filled()
    batch = replay.sample(3, sequences=SequenceShape(4), include_episode_ids=True)
    batch.update(np.array([2.0, 3.0, 4.0]))
    expected = dict.fromkeys(masses_of(replay), 1.0)
    expected |= dict(zip(starts(batch), [2.0, 3.0, 4.0], strict=True))
    assert masses_of(replay) == expected
    small = PrioritizedReplay(7, alpha=1.0, seed=1)
    small.add([chunk(0, 0, 7)])
    batch = small.sample(5, sequences=SequenceShape(3))
    small.add([chunk(1, 0, 7)])
    batch.update(np.full(5, 9.0))
    assert set(masses_of(small).values()) == {1.0}
    assert small.info()["stale_priorities_dropped"] == 5


@pytest.mark.parametrize(
    ("shape", "n_step", "message"),
    [
        ((0,), 1, r"sequences.length: got 0"),
        ((2.5,), 1, r"sequences.length: got 2.5"),
        ((3, -1), 1, r"sequences.lookback: got -1"),
        ((3, 0, 4), 1, r"sequences.least: got 4, expected at most length=3"),
        ((3, 0, 0), 1, r"sequences.least: got 0"),
        ((3,), 2, r"n_step: got 2, expected 1 in sequences"),
        ((3,), (1, 3), r"n_step: got \(1, 3\), expected 1 in sequences"),
        ((20, 0, 14), 1, r"sequences: got 14 steps as the least, .* has 13"),
    ],
)
def test_refusals_change_nothing(shape, n_step, message):
    replay = filled()
    with pytest.raises((ValueError, TypeError), match=message):
        replay.sample(4, sequences=SequenceShape(*shape), n_step=n_step)
    again = filled()
    if "least, " not in message:  # random numbers were drawn there before it was known
        np.testing.assert_array_equal(replay.sample(9).t, again.sample(9).t)
    with pytest.raises(NothingToSampleError, match="empty"):
        PrioritizedReplay(10).sample(4, sequences=SequenceShape(3))


@given(st.data())
def test_priorities_against_loops(data):
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    eta = data.draw(st.floats(0, 1))
    floats = st.floats(-1e6, 1e6)
    td_errors = data.draw(st.lists(floats, min_size=sum(lengths), max_size=sum(lengths)))
    counted = data.draw(st.lists(st.booleans(), min_size=sum(lengths), max_size=sum(lengths)))
    expected, at = [], 0
    for n in lengths:
        every = [abs(td) for td in td_errors[at : at + n]]
        some = [td for td, counts in zip(every, counted[at : at + n], strict=True) if counts]
        some = some or every
        expected.append(eta * max(some) + (1 - eta) * sum(some) / len(some))
        at += n
    found = sequence_priorities(np.array(td_errors), np.array(counted), np.array(lengths), eta)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
