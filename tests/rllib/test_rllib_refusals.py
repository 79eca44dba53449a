"""Bad input names the argument, what came and what was expected, and changes nothing."""

import numpy as np
import pytest
from rllib_buffers import masses_of
from rllib_episodes import make_episode, mixed_episodes
from rllib_oracle import read_rows

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer, PrioritizedReplay


def make_buffer(**options) -> AccPrioritizedEpisodeReplayBuffer:
    return AccPrioritizedEpisodeReplayBuffer(
        **({"capacity": 100, "beta": 0.4, "num_shards": 0, "seed": 1} | options)
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("capacity", 0),
        ("capacity", -1),
        ("capacity", 1.5),
        ("capacity", "10"),
        ("capacity", None),
        ("alpha", -1),
        ("alpha", float("nan")),
        ("alpha", "0.6"),
        ("alpha", None),
        ("beta", -0.5),
        ("beta", float("inf")),
        ("batch_size_B", 0),
        ("batch_size_B", 1.5),
        ("metrics_num_episodes_for_smoothing", 0),
        ("num_shards", -1),
        ("num_shards", 1.5),
        ("num_shards", "1"),
        ("sample_format", "columns"),
        ("sampling", "uniform"),
        ("weight_normalization", "row"),
        ("max_priority", "episode"),
        ("incomplete_n_step", "drop"),
        ("device", "tpu"),
        ("seed", "one"),
        ("seed", -1),
        ("num_cpus_per_shard", -1),
        ("num_gpus_per_shard", float("nan")),
    ],
)
def test_constructor(name: str, value: object) -> None:
    with pytest.raises((ValueError, TypeError), match=name) as error:
        make_buffer(**{name: value})
    assert str(value) in str(error.value)
    assert "expected" in str(error.value)


def test_beta_none_is_the_documented_default() -> None:
    assert len(read_rows(filled(beta=None).sample(num_items=8, beta=None))) == 8


def filled(**options) -> AccPrioritizedEpisodeReplayBuffer:
    buffer = make_buffer(**options)
    buffer.add(mixed_episodes())
    return buffer


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("capacities", "capacity"),
        ("alpa", "alpha"),
        ("num_shard", "num_shards"),
        ("sample_fromat", "sample_format"),
        ("weight_normalisation", "weight_normalization"),
        ("seeds", "seed"),
        ("incomplete_nstep", "incomplete_n_step"),
    ],
)
def test_a_misspelt_key_names_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        make_buffer(**{key: 1})
    assert repr(key) in str(error.value)
    assert f"mean {nearest!r}" in str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_items", 0),  # fewer rows than learners make RLlib ask for this
        ("num_items", -1),
        ("num_items", 2.5),
        ("num_items", "8"),
        ("n_step", 0),
        ("n_step", -2),
        ("n_step", 1.5),
        ("n_step", (3, 1)),
        ("n_step", (1, 2, 3)),
        ("gamma", float("nan")),
        ("gamma", "0.9"),
        ("gamma", None),
        ("beta", -1.0),
        ("beta", float("nan")),
        ("beta", "0.4"),
        ("batch_length_T", -5),
        ("lookback", -2),
        ("lookback", 2**40),
    ],
)
def test_sample(name: str, value: object) -> None:
    one, two = filled(), filled()
    with pytest.raises((ValueError, TypeError), match=name):
        one.sample(**({"num_items": 8} | {name: value}))
    assert one.get_sampled_timesteps() == 0
    assert read_rows(one.sample(num_items=8)) == read_rows(two.sample(num_items=8))


def test_an_empty_buffer() -> None:
    with pytest.raises(ValueError, match="empty"):
        make_buffer().sample(num_items=1)


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_episodes_too_short_for_n(sample_format: str) -> None:
    buffer = make_buffer(sample_format=sample_format)
    buffer.add([make_episode(n, 2, "terminated") for n in range(10)])
    with pytest.raises(ValueError, match="n_step"):
        buffer.sample(num_items=8, n_step=3)
    assert len(read_rows(buffer.sample(num_items=8, n_step=2))) == 8


@pytest.mark.parametrize("episodes", [[1], [None], ["episode"], [{"obs": 1}], [np.zeros(3)]])
def test_add_something_else(episodes: list) -> None:
    buffer = filled()
    before = masses_of(buffer)
    with pytest.raises((TypeError, ValueError), match="episodes"):
        buffer.add([make_episode(50, 4), *episodes])
    assert masses_of(buffer) == before


def test_an_episode_that_does_not_continue() -> None:
    buffer = make_buffer()
    buffer.add([make_episode(0, 5, "terminated"), make_episode(1, 5)])
    before = masses_of(buffer)
    for wrong in (make_episode(0, 5, "terminated"), make_episode(1, 5)):
        with pytest.raises(ValueError, match=wrong.id_):
            buffer.add([make_episode(60, 3), wrong])
    assert masses_of(buffer) == before
    assert buffer.get_num_episodes() == 2
    assert buffer.get_added_timesteps() == 10


def test_nothing_to_add() -> None:
    buffer = filled()
    before = masses_of(buffer)
    buffer.add([])
    assert masses_of(buffer) == before


def test_a_window_that_nothing_can_hold() -> None:
    with pytest.raises(ValueError, match=f"metrics_window: got {10**30}, expected at most"):
        PrioritizedReplay(10, metrics_window=10**30)
    with pytest.raises(ValueError, match=f"got {10**30}, expected at most"):
        make_buffer(metrics_num_episodes_for_smoothing=10**30)
