"""Observations and actions of any space keep their structure, types, shapes and values."""

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import tree
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from rllib_episodes import ENDS, Player, make_episode
from rllib_oracle import key_of, unbatch

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

spaces = gym.spaces

NESTED = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (4, 4, 3), np.uint8),
        "pair": spaces.Tuple((spaces.Discrete(5), spaces.Box(-1, 1, (2, 2), np.float64))),
        "deep": spaces.Dict({"bits": spaces.MultiBinary(3), "many": spaces.MultiDiscrete([2, 9])}),
        "half": spaces.Box(-1, 1, (1,), np.float16),
    }
)
OBSERVATIONS = {
    "nested": NESTED,
    "image": spaces.Box(0, 255, (8, 8, 4), np.uint8),
    "discrete": spaces.Discrete(7),
    "scalar box": spaces.Box(-1, 1, (), np.float32),
    "doubles": spaces.Box(-1, 1, (3,), np.float64),
    "multi discrete": spaces.MultiDiscrete([3, 4, 5]),
    "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Discrete(3))),
}
ACTIONS = {
    "discrete": spaces.Discrete(4),
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "multi discrete": spaces.MultiDiscrete([3, 4]),
    "multi binary": spaces.MultiBinary(4),
    "dict": spaces.Dict({"move": spaces.Box(-1, 1, (2,), np.float32), "jump": spaces.Discrete(2)}),
    "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 1, (1,), np.float64))),
}


def sampler(space: gym.Space, shift: int) -> Any:
    """A value of `space` for each episode and time, the same whenever asked."""

    def value(number: int, t: int) -> Any:
        space.seed(1000 * number + 2 * t + shift)
        return space.sample()

    return value


def episodes_of(
    observation_space: gym.Space, action_space: gym.Space, to_numpy: bool = True
) -> list[SingleAgentEpisode]:
    options = {
        "observation_space": observation_space,
        "action_space": action_space,
        "observation": sampler(observation_space, 0),
        "action": sampler(action_space, 1),
        "to_numpy": to_numpy,
    }
    made = [make_episode(n, 3 + n, ("", *ENDS)[n % 3], **options) for n in range(4)]
    pieces = Player(9, **options)
    for steps in (2, 1, 3):  # one episode in three pieces
        pieces.play(steps)
        made.append(pieces.cut())
    return made


def same_kind(value: Any, space: gym.Space) -> bool:
    """Whether dtypes and shapes are those of the space, leaf by leaf."""
    leaves, expected = tree.flatten(value), tree.flatten(space.sample())
    return all(
        np.asarray(a).dtype == np.asarray(b).dtype and np.shape(a) == np.shape(b)
        for a, b in zip(leaves, expected, strict=True)
    )


def check(observation_space: gym.Space, action_space: gym.Space, fmt: str, to_numpy: bool) -> None:
    buffer = AccPrioritizedEpisodeReplayBuffer(
        1000, beta=0.4, num_shards=0, seed=1, sample_format=fmt
    )
    observe, act = sampler(observation_space, 0), sampler(action_space, 1)
    buffer.add(episodes_of(observation_space, action_space, to_numpy))
    steps = [(n, t) for n in range(4) for t in range(3 + n)] + [(9, t) for t in range(6)]
    expected = {
        (key_of(observe(*s)), key_of(act(*s)), key_of(observe(s[0], s[1] + 1))) for s in steps
    }
    seen = set()
    for episode in buffer.sample(num_items=600):
        n = len(episode)
        columns = (
            unbatch(episode.get_observations(slice(0, n)), n),
            unbatch(episode.get_actions(slice(0, n)), n),
            unbatch(episode.get_observations(slice(1, n + 1)), n),
        )
        for obs, action, ahead in zip(*columns, strict=True):
            assert same_kind(obs, observation_space)
            assert same_kind(ahead, observation_space)
            assert same_kind(action, action_space)
            tree.assert_same_structure(obs, observation_space.sample())
            seen.add((key_of(obs), key_of(action), key_of(ahead)))
    assert seen == expected


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations(name: str, sample_format: str) -> None:
    check(OBSERVATIONS[name], ACTIONS["discrete"], sample_format, to_numpy=True)


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
@pytest.mark.parametrize("name", ACTIONS)
def test_actions(name: str, sample_format: str) -> None:
    check(OBSERVATIONS["doubles"], ACTIONS[name], sample_format, to_numpy=True)


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_everything_at_once_from_lists(sample_format: str) -> None:
    check(NESTED, ACTIONS["dict"], sample_format, to_numpy=False)


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_text_is_kept_as_objects(sample_format: str) -> None:
    words = ["", "one", "two words", "déjà vu"]
    buffer = AccPrioritizedEpisodeReplayBuffer(
        100, beta=0.4, num_shards=0, seed=1, sample_format=sample_format
    )
    buffer.add(
        make_episode(
            0,
            3,
            "terminated",
            observation=lambda number, t: words[t],
            observation_space=spaces.Text(
                20, min_length=0, charset="abcdefghijklmnopqrstuvwxyz éàj"
            ),
            to_numpy=False,
        )
    )
    seen = set()
    for episode in buffer.sample(num_items=60):
        n = len(episode)
        here = list(episode.get_observations(slice(0, n)))
        ahead = list(episode.get_observations(slice(1, n + 1)))
        seen |= set(zip(map(str, here), map(str, ahead), strict=True))
    assert seen == set(itertools.pairwise(words))


def test_an_episode_of_another_space_is_refused_and_nothing_stored() -> None:
    buffer = AccPrioritizedEpisodeReplayBuffer(100, beta=0.4, num_shards=0, seed=1)
    buffer.add(episodes_of(OBSERVATIONS["doubles"], ACTIONS["discrete"]))
    before = buffer.get_num_timesteps()
    with pytest.raises(ValueError, match="observations"):
        buffer.add(episodes_of(OBSERVATIONS["image"], ACTIONS["discrete"]))
    with pytest.raises(ValueError, match="actions"):
        buffer.add([make_episode(77, 3, action=lambda n, t: np.zeros(2), action_space=None,
                                 observation_space=OBSERVATIONS["doubles"],
                                 observation=sampler(OBSERVATIONS["doubles"], 0))])  # fmt: skip
    assert buffer.get_num_timesteps() == before
