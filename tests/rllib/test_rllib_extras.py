"""Infos and extra model outputs travel along when asked for; RLlib's buffer is the oracle."""

import itertools

import numpy as np
import pytest
from rllib_episodes import ENDS, Player, make_episode, mixed_episodes
from rllib_oracle import RLlibOracle, key_of, read_rows, unbatch

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

FORMATS = pytest.mark.parametrize("sample_format", ["rows", "episodes"])
BOTH = {"include_infos": True, "include_extra_model_outputs": True}


def make_buffer(sample_format: str, episodes: list, **options) -> AccPrioritizedEpisodeReplayBuffer:
    buffer = AccPrioritizedEpisodeReplayBuffer(
        1000, num_shards=0, seed=1, sample_format=sample_format, **options
    )
    buffer.add(episodes)
    return buffer


def pieces() -> list:
    """One episode in three pieces among whole ones."""
    player = Player(20, extras=True)
    made = []
    for steps in (3, 1, 4):
        player.play(steps)
        made.append(player.cut())
    return [*mixed_episodes(extras=True), *made]


def read_extras(sample: list) -> dict[tuple[int, int], tuple]:
    """By step: both infos and each extra model output."""
    extras = {}
    for episode in sample:
        n = len(episode)
        here, ahead = slice(0, n), slice(1, n + 1)
        names = sorted(set(episode.extra_model_outputs) - {"weights", "n_step"})
        outputs = [unbatch(episode.get_extra_model_outputs(k, here), n) for k in names]
        infos = list(episode.get_infos(here)), list(episode.get_infos(ahead))
        for i, row in enumerate(read_rows([episode])):
            values = tuple((k, key_of(o[i])) for k, o in zip(names, outputs, strict=True))
            extras[row.step] = (infos[0][i], infos[1][i], values)
    return extras


@FORMATS
@pytest.mark.parametrize("n", [1, 3])
def test_infos_and_outputs_are_rllibs(sample_format: str, n: int) -> None:
    ours = make_buffer(sample_format, pieces())
    theirs = RLlibOracle(1000)
    theirs.add(pieces())
    steps = theirs.able_steps(n)
    expected = read_extras(theirs.sample_steps(steps, [n] * len(steps), **BOTH))
    assert read_extras(ours.sample(num_items=1500, n_step=n, **BOTH)) == expected
    assert expected[20, 2][0] == {"t": 2}
    assert [name for name, _ in expected[20, 2][2]] == ["logp", "probs"]


@FORMATS
def test_not_asked_for_not_there(sample_format: str) -> None:
    for episode in make_buffer(sample_format, pieces()).sample(num_items=40):
        assert set(episode.extra_model_outputs) == {"weights", "n_step"}


@FORMATS
def test_infos_alone_and_outputs_alone(sample_format: str) -> None:
    buffer = make_buffer(sample_format, pieces())
    for episode in buffer.sample(num_items=40, include_extra_model_outputs=True):
        assert set(episode.extra_model_outputs) == {"weights", "n_step", "logp", "probs"}
    for episode in buffer.sample(num_items=40, include_infos=True):
        n = len(episode)
        times = [info["t"] for info in episode.get_infos(slice(0, n))]
        assert [info["t"] for info in episode.get_infos(slice(1, n + 1))] == [t + 1 for t in times]


def test_infos_that_were_not_asked_for_are_refused_by_name() -> None:
    group = make_buffer("rows", pieces()).sample(num_items=10)[0]
    with pytest.raises(ValueError, match="include_infos"):
        group.get_infos(slice(0, len(group)))


@FORMATS
def test_infos_of_every_form(sample_format: str) -> None:
    episode = make_episode(0, 3, "terminated")
    for i, info in enumerate([{}, {"a": 1}, {"b": [1, {"c": None}]}, {"array": np.arange(3)}]):
        episode.infos.data[i] = info
    buffer = make_buffer(sample_format, [episode])
    seen = {}
    for group in buffer.sample(num_items=40, include_infos=True):
        n = len(group)
        for row, info in zip(read_rows([group]), group.get_infos(slice(1, n + 1)), strict=True):
            seen[row.step] = info
    assert seen[0, 0] == {"a": 1}
    assert seen[0, 1] == {"b": [1, {"c": None}]}
    np.testing.assert_array_equal(seen[0, 2]["array"], np.arange(3))


@pytest.mark.parametrize("weights", [0.25, None, "per step"])
def test_a_first_weight(weights: object) -> None:
    episodes = [make_episode(n, 4, ENDS[n % 2]) for n in range(3)]
    given = np.linspace(0.5, 3.0, 12) if weights == "per step" else weights
    buffer = AccPrioritizedEpisodeReplayBuffer(100, alpha=0.7, num_shards=0, seed=1)
    buffer.add(episodes, weight=given)
    held = buffer.get_priorities()
    keys = list(itertools.product([f"episode-{n}" for n in range(3)], range(4)))
    assert list(zip(held["episode_id"].tolist(), held["t"].tolist(), strict=True)) == keys
    expected = np.broadcast_to(1.0 if given is None else given, 12)
    assert held["mass"].tolist() == [w**0.7 for w in expected.tolist()]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), "1", np.ones(3), np.ones(5)])
def test_a_bad_weight_is_refused(weight: object) -> None:
    buffer = make_buffer("rows", [make_episode(0, 4)])
    with pytest.raises((ValueError, TypeError), match="weight"):
        buffer.add([make_episode(1, 4)], weight=weight)
    assert buffer.get_num_timesteps() == 4
