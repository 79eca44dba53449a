"""Steps before sampled transitions: their true neighbours, and never those of another episode."""

import pickle

import numpy as np
import pytest
from multi_agent_buffers import make_buffer as make_multi_agent_buffer
from multi_agent_episodes import UNEQUAL, make_multi
from rllib_episodes import Player, action_of, mixed_episodes, observation_of, reward_of
from rllib_oracle import read_rows

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer


def pieces() -> list:
    """One episode in three pieces among whole ones."""
    player = Player(20, extras=True)
    made = []
    for steps in (3, 1, 4):
        player.play(steps)
        made.append(player.cut())
    return [*mixed_episodes(extras=True), *made]


def make_buffer(num_shards: int = 0, **options) -> AccPrioritizedEpisodeReplayBuffer:
    buffer = AccPrioritizedEpisodeReplayBuffer(
        1000, num_shards=num_shards, seed=1, sample_format="episodes", **options
    )
    buffer.add(pieces())
    return buffer


def check(episode, most: int, n_step: int = 1) -> int:
    """Compares what comes before a transition with the episode as it was played."""
    number, t = (int(x) for x in episode.get_observations(0)[:2])
    assert episode.t_started == t
    assert len(episode) == 1
    before = min(t, most)
    times = [*range(t - before, t + 1)]
    assert episode.observations.lookback == before
    assert np.array_equal(
        episode.observations.data, [observation_of(number, s) for s in [*times, t + n_step]]
    )
    assert [*episode.actions.data] == [action_of(number, s) for s in times]
    assert [*episode.rewards.data[:-1]] == [reward_of(number, s) for s in times[:-1]]
    assert len(episode.rewards.data) == len(times)
    weights = [*episode.extra_model_outputs["weights"].data]
    assert weights == [weights[0]] * len(times)
    episode.validate()
    return before


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("num_shards", [0, 1, 2])
@pytest.mark.parametrize("n_step", [1, 2])
def test_neighbours_are_the_true_ones(num_shards: int, n_step: int) -> None:
    buffer = make_buffer(num_shards, lookback=3, beta=0.4)
    sample = buffer.sample(num_items=300, n_step=n_step, beta=None)
    assert {check(episode, 3, n_step) for episode in sample} == {0, 1, 2, 3}
    buffer.update_priorities(np.ones(300))


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("num_shards", [0, 2])
def test_infos_and_outputs_look_back_too(num_shards: int) -> None:
    buffer = make_buffer(
        num_shards, lookback=2, include_infos=True, include_extra_model_outputs=True
    )
    for episode in buffer.sample(num_items=200):
        before = check(episode, 2)
        t = episode.t_started
        assert episode.infos.data == [{"t": s} for s in range(t - before, t + 2)]
        logp = episode.extra_model_outputs["logp"].data
        assert [*logp] == [-s for s in range(t - before, t + 1)]


def test_only_what_is_stored_comes_along() -> None:
    """The steps before were evicted while the episode went on."""
    buffer = AccPrioritizedEpisodeReplayBuffer(
        10, num_shards=0, sample_format="episodes", lookback=3
    )
    player = Player(50)
    player.play(12)
    buffer.add(player.cut())
    buffer.add(mixed_episodes()[0])  # evicts them
    player.play(4)
    buffer.add(player.cut())
    lookbacks = {
        e.t_started: e.observations.lookback
        for e in buffer.sample(num_items=200)
        if e.get_observations(0)[0] == 50
    }
    assert lookbacks == {12: 0, 13: 1, 14: 2, 15: 3}


def test_draws_and_transitions_are_those_without_lookback() -> None:
    plain, looking = make_buffer(), make_buffer(lookback=3)
    for n_step in (1, 3, (1, 4)):
        expected = read_rows(plain.sample(num_items=50, n_step=n_step))
        assert read_rows(looking.sample(num_items=50, n_step=n_step)) == expected


def test_sample_can_be_asked_for_more() -> None:
    buffer = make_buffer(lookback=1)
    assert max(check(e, 2) for e in buffer.sample(num_items=100, lookback=2)) == 2
    assert max(check(e, 1) for e in buffer.sample(num_items=100, lookback=0)) == 1


def test_arrays_and_pickles_keep_it() -> None:
    buffer = make_buffer(lookback=2)
    for episode in buffer.sample(num_items=40, to_numpy=True):
        assert episode.is_numpy
        check(episode, 2)
        check(pickle.loads(pickle.dumps(episode)), 2)


@pytest.mark.parametrize("value", [-1, 1.5, "2", True])
def test_refused_values(value: object) -> None:
    with pytest.raises((TypeError, ValueError), match="lookback: got") as error:
        make_buffer(lookback=value)
    assert repr(value) in str(error.value)


def test_rows_have_none_and_say_what_does() -> None:
    with pytest.raises(ValueError, match="sample_format='episodes'"):
        AccPrioritizedEpisodeReplayBuffer(100, num_shards=0, lookback=1)
    rows = AccPrioritizedEpisodeReplayBuffer(100, num_shards=0, seed=1)
    rows.add(mixed_episodes())
    other = AccPrioritizedEpisodeReplayBuffer(100, num_shards=0, seed=1)
    other.add(mixed_episodes())
    # RLlib's data workers ask for a lookback that its own buffers do not give either.
    asked = rows.sample(num_items=30, lookback=1)
    assert read_rows(asked) == read_rows(other.sample(num_items=30))


def test_agents_look_back_along_their_own_episodes() -> None:
    buffer = make_multi_agent_buffer(sample_format="episodes", lookback=2)
    buffer.add([make_multi(n, 9, agents=UNEQUAL) for n in range(3)])
    for episode in buffer.sample(num_items=50):
        number, t = (int(x) for x in episode.get_observations(0)[:2])
        before = min(t, 2)
        assert episode.observations.lookback == before
        times = range(t - before, t + 2)
        assert np.array_equal(episode.observations.data, [observation_of(number, s) for s in times])
