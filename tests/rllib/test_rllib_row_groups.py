"""Row groups: many transitions that are one episode to RLlib's learner, and refuse all else."""

import copy
import itertools
import pickle
from collections import Counter

import numpy as np
import pytest
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.minibatch_utils import ShardEpisodesIterator
from rllib_episodes import mixed_episodes
from rllib_oracle import read_rows

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer


def make_buffer(**options) -> AccPrioritizedEpisodeReplayBuffer:
    buffer = AccPrioritizedEpisodeReplayBuffer(
        100, **({"num_shards": 0, "seed": 1, "beta": 0.4} | options)
    )
    buffer.add(mixed_episodes())
    return buffer


def test_groups_are_cut_after_every_row_that_ends_its_episode() -> None:
    buffer = make_buffer()
    for _ in range(20):
        sample = buffer.sample(num_items=64)
        rows = read_rows(sample)
        ends = sum(row.terminated or row.truncated for row in rows)
        assert len(rows) == 64
        assert len(sample) <= ends + 1
        assert sum(group.is_terminated or group.is_truncated for group in sample) == ends


def test_few_groups_when_few_rows_end() -> None:
    sample = make_buffer().sample(num_items=200)
    ends = sum(row.terminated or row.truncated for row in read_rows(sample))
    assert ends < 100
    assert max(len(group) for group in sample) >= 200 - ends


def test_lengths_are_those_that_rllib_counts() -> None:
    sample = make_buffer().sample(num_items=33)
    assert sum(len(group) for group in sample) == 33
    assert sum(group.env_steps() for group in sample) == 33
    assert sum(group.agent_steps() for group in sample) == 33
    assert all(isinstance(group, SingleAgentEpisode) for group in sample)


@pytest.mark.parametrize("num_shards", [1, 2, 3, 4, 7])
def test_what_rllib_deals_to_its_learners_covers_every_row_once(num_shards: int) -> None:
    sample = make_buffer().sample(num_items=50)
    expected = Counter(read_rows(sample))
    shards = list(ShardEpisodesIterator(sample, num_shards=num_shards, len_lookback_buffer=None))
    dealt = [row for shard in shards for row in read_rows(shard)]
    assert Counter(dealt) == expected


def test_ids_do_not_count_within_this_process() -> None:
    """Two processes that count would use the same ones; connectors tell episodes apart by them."""
    buffer = make_buffer()
    first, second = (buffer.sample(num_items=3)[0].id_ for _ in range(2))
    assert sum(a != b for a, b in zip(first[:24], second[:24], strict=True)) > 8


def test_slices_of_slices() -> None:
    group = max(make_buffer().sample(num_items=60), key=len)
    n = len(group)
    assert n >= 20
    rows = read_rows([group])
    first, rest = group[:7], group.slice(slice(7, None), len_lookback_buffer=0)
    assert (len(first), len(rest)) == (7, n - 7)
    assert read_rows([first, rest]) == rows
    assert read_rows([rest[:4], rest.slice(slice(4, None))]) == rows[7:]


def test_groups_travel_to_other_processes() -> None:
    sample = make_buffer().sample(num_items=30)
    assert read_rows(pickle.loads(pickle.dumps(sample))) == read_rows(sample)


def test_a_pickled_piece_does_not_carry_the_whole_batch() -> None:
    buffer = make_buffer()
    group = max(buffer.sample(num_items=5000), key=len)
    assert len(pickle.dumps(group[:10])) < len(pickle.dumps(group)) / 10


READS = {
    "all observations": lambda group: group.get_observations(),
    "a lookback": lambda group: group.get_observations(slice(-3, None)),
    "neighbours": lambda group: group.get_observations([3, 4]),
    "a cut": lambda group: group.cut(),
    "another step": lambda group: group.add_env_step(np.zeros(4, np.float32), 0, 0.0),
}


@pytest.mark.parametrize("read", READS)
def test_what_a_group_cannot_answer_names_the_other_format(read: str) -> None:
    """Rows are no consecutive steps: whatever would take them for such must not get an answer."""
    sample = make_buffer().sample(num_items=60)
    group = max(sample, key=len)[:30]
    assert not group.is_done
    with pytest.raises((RuntimeError, ValueError, TypeError, NotImplementedError)) as error:
        READS[read](group)
    assert "sample_format" in str(error.value)
    assert "episodes" in str(error.value)


def test_one_step_episodes_answer_everything() -> None:
    sample = make_buffer(sample_format="episodes").sample(num_items=12, n_step=2, gamma=0.9)
    assert [len(episode) for episode in sample] == [1] * 12
    for episode in sample:
        assert isinstance(episode, SingleAgentEpisode)
        episode.validate()
        obs = episode.get_observations()
        assert len(obs) == 2
        assert int(obs[0][1]) == episode.t_started
        assert int(obs[1][1]) == episode.t_started + 2
        assert episode.get_observations(-1)[1] == obs[1][1]
        assert episode.get_extra_model_outputs("n_step", 0) == 2


def test_one_step_episodes_as_arrays() -> None:
    buffer = make_buffer(sample_format="episodes")
    sample = buffer.sample(num_items=6, to_numpy=True)
    assert all(episode.is_numpy for episode in sample)
    assert all(episode.get_observations().shape == (2, 4) for episode in sample)
    plain = buffer.sample(num_items=6)
    assert not any(episode.is_numpy for episode in plain)
    assert len(read_rows(list(itertools.chain(sample, plain)))) == 12


@pytest.mark.parametrize("name", ["observation_space", "action_space", "_start_time", "actions"])
def test_attributes_that_rows_of_many_episodes_do_not_have(name: str) -> None:
    group = make_buffer().sample(num_items=20)[0]
    with pytest.raises(ValueError, match='"sample_format": "episodes"'):
        getattr(group, name)


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_a_shallow_copy_is_not_sent_to_a_learner(sample_format: str) -> None:
    buffer = make_buffer(sample_format=sample_format)
    sample = buffer.sample(num_items=20)
    copies = [copy.copy(episode) for episode in sample]
    assert read_rows(copies) == read_rows(sample)
    copy.copy(sample[0])
    buffer.update_priorities(np.ones(20))
