"""The transitions that can be sampled are RLlib's, bit by bit, in both sample formats."""

import itertools

import numpy as np
import pytest
from older_rays import own_eviction_raises
from rllib_episodes import make_episode, mixed_episodes, play
from rllib_oracle import RLlibOracle, read_rows

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

FORMATS = ["rows", "episodes"]


def filled(sample_format: str, episode_lists: list, capacity: int = 100, **options) -> tuple:
    ours = AccPrioritizedEpisodeReplayBuffer(
        capacity, alpha=0.6, num_shards=0, seed=1, sample_format=sample_format, **options
    )
    theirs = RLlibOracle(capacity, alpha=0.6)
    for episodes in episode_lists:
        ours.add(episodes)
        theirs.add(episodes)
    return ours, theirs


def check_reachable(ours, theirs: RLlibOracle, n: int, gamma: float) -> None:
    """Samples until every step that can be drawn has been."""
    expected = {row.transition for row in theirs.every_row(n, gamma=gamma, beta=0.4)}
    assert expected
    seen = set()
    for _ in range(20):
        sample = ours.sample(num_items=len(expected) * 4, n_step=n, gamma=gamma, beta=0.4)
        seen |= {row.transition for row in read_rows(sample)}
        if seen >= expected:
            break
    assert seen == expected


@pytest.mark.parametrize("sample_format", FORMATS)
@pytest.mark.parametrize(("n", "gamma"), [(1, 0.99), (2, 0.5), (3, 1.0), (3, 0.0), (5, 0.97)])
def test_whole_episodes(sample_format: str, n: int, gamma: float) -> None:
    check_reachable(*filled(sample_format, [mixed_episodes()]), n, gamma)


@pytest.mark.parametrize("sample_format", FORMATS)
@pytest.mark.parametrize(("fragment", "lookback"), [(1, 0), (1, 1), (3, 1), (3, 3)])
@own_eviction_raises
def test_interleaved_pieces_with_eviction(sample_format: str, fragment: int, lookback: int) -> None:
    calls = list(itertools.islice(play(8, fragment, seed=3, lookback=lookback), 40 // fragment))
    ours, theirs = filled(sample_format, calls)
    assert theirs.get_num_episodes_evicted() > 0
    for n in (1, 3):
        check_reachable(ours, theirs, n, 0.95)


@pytest.mark.parametrize("sample_format", FORMATS)
@own_eviction_raises
def test_the_rest_of_an_episode_whose_start_was_evicted(sample_format: str) -> None:
    """The rest comes back as an episode of its own that starts late."""
    calls = list(itertools.islice(play(6, 5, seed=8, longest=60), 14))
    ours, theirs = filled(sample_format, calls, capacity=60)
    starts = [episode.t_started for episode in theirs.episodes]
    assert max(starts) > 0, "no such episode: choose another seed"
    check_reachable(ours, theirs, 2, 0.9)


@pytest.mark.parametrize("sample_format", FORMATS)
def test_rewards_1_2_4_8(sample_format: str) -> None:
    episode = make_episode(0, 4, "truncated")
    episode.set_rewards(new_data=np.array([1.0, 2.0, 4.0, 8.0]))
    ours, _ = filled(sample_format, [[episode]])
    rows = {row.step: row for row in read_rows(ours.sample(num_items=40, n_step=3, gamma=0.5))}
    assert set(rows) == {(0, 0), (0, 1)}
    assert (rows[0, 0].reward, rows[0, 1].reward) == (3.0, 6.0)
    assert (rows[0, 0].truncated, rows[0, 1].truncated) == (False, True)
    assert not rows[0, 0].terminated
    assert not rows[0, 1].terminated


@pytest.mark.parametrize("sample_format", FORMATS)
def test_the_closed_interval_of_n(sample_format: str) -> None:
    ours, theirs = filled(sample_format, [mixed_episodes()])
    expected = {row.transition for n in (1, 2, 3) for row in theirs.every_row(n, gamma=0.9)}
    seen = set()
    for _ in range(20):
        sample = ours.sample(num_items=300, n_step=(1, 3), gamma=0.9, beta=0.4)
        seen |= {row.transition for row in read_rows(sample)}
        if seen >= expected:
            break
    assert seen == expected
    rows = read_rows(ours.sample(num_items=50, n_step=(3, 3), beta=0.4))
    assert {row.n_step for row in rows} == {3}


@pytest.mark.parametrize("sample_format", FORMATS)
def test_the_number_of_items(sample_format: str) -> None:
    ours, _ = filled(sample_format, [mixed_episodes()], batch_size_B=7)
    assert len(read_rows(ours.sample(beta=0.4))) == 7
    assert len(read_rows(ours.sample(num_items=5, beta=0.4))) == 5
    assert len(read_rows(ours.sample(batch_size_B=6, beta=0.4))) == 6
    assert ours.get_sampled_timesteps() == 18
    with pytest.raises(ValueError, match="batch_size_B"):
        ours.sample(num_items=5, batch_size_B=5, beta=0.4)


@pytest.mark.parametrize("sample_format", FORMATS)
def test_what_dqn_passes_is_taken(sample_format: str) -> None:
    ours, _ = filled(sample_format, [mixed_episodes()])
    sample = ours.sample(
        num_items=32,
        n_step=1,
        batch_length_T=0,
        lookback=0,
        min_batch_length_T=0,
        gamma=0.99,
        beta=0.5,
        sample_episodes=True,
    )
    assert len(read_rows(sample)) == 32


@pytest.mark.parametrize("sample_format", FORMATS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8])
def test_rewards_of_any_type_add_up_as_rllib_adds_them(sample_format: str, dtype: type) -> None:
    episodes = [make_episode(n, 9, "terminated") for n in range(4)]
    for episode in episodes:
        episode.set_rewards(new_data=episode.get_rewards().astype(dtype))
    check_reachable(*filled(sample_format, [episodes]), 4, 0.99)


@pytest.mark.parametrize("sample_format", FORMATS)
def test_plain_python_rewards(sample_format: str) -> None:
    episodes = [make_episode(n, 9, "truncated", to_numpy=False) for n in range(4)]
    for n, episode in enumerate(episodes):
        episode.set_rewards(new_data=[n - 2, True, 0.1, -3, 1e300, 5, 1e-300, np.float32(0.1), 7])
    check_reachable(*filled(sample_format, [episodes]), 3, 0.9)
