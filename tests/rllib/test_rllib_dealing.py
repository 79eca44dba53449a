"""TD errors find their rows however RLlib deals a sample to its learners.

Here the learners are played: a sample is dealt by RLlib's own code, pickled for each learner as
Ray does, and the TD errors, which name the row, come back learner by learner.
"""

import copy
import pickle

import numpy as np
import pytest
from ray.rllib.core.learner.training_data import TrainingData
from rllib_buffers import masses_of
from rllib_episodes import mixed_episodes, reward_of
from rllib_oracle import read_rows

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

FORMATS = pytest.mark.parametrize("sample_format", ["rows", "episodes"])


def make_buffer(sample_format: str) -> AccPrioritizedEpisodeReplayBuffer:
    buffer = AccPrioritizedEpisodeReplayBuffer(
        100, alpha=1.0, beta=0.4, num_shards=0, seed=1, sample_format=sample_format
    )
    buffer.add(mixed_episodes())
    return buffer


def error_of(number: int, t: int) -> float:
    """A TD error that names its row."""
    return abs(reward_of(number, t)) + 2.0


def td_errors(sample: list, num_learners: int) -> np.ndarray:
    """The learners' TD errors, one learner after the other."""
    data = TrainingData(episodes=sample)
    data.validate()
    if num_learners == 0:
        shards = [sample]
    else:
        dealt = data.shard(num_shards=num_learners, len_lookback_buffer=1)
        shards = [pickle.loads(pickle.dumps(part)).episodes for part, _ in dealt]
    rows = [read_rows(shard) for shard in shards]
    return np.array([error_of(*row.step) for part in rows for row in part])


def check(buffer: AccPrioritizedEpisodeReplayBuffer, steps: set) -> None:
    masses = masses_of(buffer)
    for step in steps:
        assert masses[step] == error_of(*step)
    assert {step for step, mass in masses.items() if mass != 1.0} == steps


@FORMATS
@pytest.mark.parametrize("num_items", [8, 13, 50, 64])
@pytest.mark.parametrize("num_learners", [0, 1, 2, 3, 4])
def test_every_row_gets_its_own(sample_format: str, num_items: int, num_learners: int) -> None:
    buffer = make_buffer(sample_format)
    seen = set()
    for _ in range(5):
        sample = buffer.sample(num_items=num_items, n_step=1)
        seen |= {row.step for row in read_rows(sample)}
        buffer.update_priorities(td_errors(sample, num_learners))
        check(buffer, seen)


@FORMATS
def test_as_many_rows_as_learners(sample_format: str) -> None:
    buffer = make_buffer(sample_format)
    sample = buffer.sample(num_items=4)
    steps = {row.step for row in read_rows(sample)}
    buffer.update_priorities(td_errors(sample, 4))
    check(buffer, steps)


@FORMATS
def test_a_lost_learner_changes_nothing(sample_format: str) -> None:
    """Of three learners' TD errors only two come back."""
    buffer = make_buffer(sample_format)
    errors = td_errors(buffer.sample(num_items=30), 3)
    before = masses_of(buffer)
    with pytest.raises(ValueError, match="30"):
        buffer.update_priorities(errors[:20])
    assert masses_of(buffer) == before


@FORMATS
def test_dealing_one_sample_says_nothing_about_the_next(sample_format: str) -> None:
    buffer = make_buffer(sample_format)
    td_errors(buffer.sample(num_items=20), 3)  # never updated
    sample = buffer.sample(num_items=21)
    steps = {row.step for row in read_rows(sample)}
    buffer.update_priorities(td_errors(sample, 2))
    check(buffer, steps)


@FORMATS
def test_looking_at_a_sample_is_not_dealing_it(sample_format: str) -> None:
    buffer = make_buffer(sample_format)
    sample = buffer.sample(num_items=24)
    for episode in sample:
        repr(episode)
        copy.deepcopy(episode)
        if len(episode) > 1:
            episode[: len(episode) // 2]
    rows = read_rows(sample)
    buffer.update_priorities(np.array([error_of(*row.step) for row in rows]))
    check(buffer, {row.step for row in rows})


@FORMATS
@pytest.mark.parametrize("first", [0.5, 1.0])
def test_rows_sent_twice_are_refused(sample_format: str, first: float) -> None:
    """Which of the two learners' TD errors would be a row's?"""
    buffer = make_buffer(sample_format)
    sample = buffer.sample(num_items=24)
    pickle.dumps(sample[: max(1, int(first * len(sample)))])
    errors = td_errors(sample, 2)
    before = masses_of(buffer)
    with pytest.raises((ValueError, RuntimeError), match="24 rows"):
        buffer.update_priorities(errors)
    assert masses_of(buffer) == before


@FORMATS
def test_rows_sent_to_nobody_are_refused(sample_format: str) -> None:
    buffer = make_buffer(sample_format)
    sample = buffer.sample(num_items=24)
    while len(sample) < 2:
        sample = buffer.sample(num_items=24)
    pickle.dumps(sample[1:])
    before = masses_of(buffer)
    with pytest.raises((ValueError, RuntimeError), match="24 rows"):
        buffer.update_priorities(np.ones(24))
    assert masses_of(buffer) == before
