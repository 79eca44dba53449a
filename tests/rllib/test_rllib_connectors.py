"""Learner connectors that read and write samples: RLlib's own, in the formats they work with."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.connectors.common.frame_stacking import FrameStacking
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.learner import AddInfosFromEpisodesToTrainBatch
from ray.rllib.examples.connectors.classes.count_based_curiosity import CountBasedCuriosity
from ray.rllib.examples.connectors.classes.euclidian_distance_based_curiosity import (
    EuclidianDistanceBasedCuriosity,
)
from rllib_episodes import make_episode, mixed_episodes
from rllib_oracle import RLlibOracle, read_rows
from small_algorithms import small_dqn

import rllib_per_acc
from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

BOTH_FORMATS = pytest.mark.parametrize("sample_format", ["rows", "episodes"])


def make_buffer(episodes: list | None = None, **options) -> AccPrioritizedEpisodeReplayBuffer:
    buffer = AccPrioritizedEpisodeReplayBuffer(1000, **({"num_shards": 0, "seed": 1} | options))
    buffer.add(mixed_episodes(extras=True) if episodes is None else episodes)
    return buffer


def run(connector: ConnectorV2, episodes: list) -> dict:
    return connector(rl_module=None, batch={}, episodes=episodes, shared_data={})


@BOTH_FORMATS
@pytest.mark.parametrize("kind", [CountBasedCuriosity, EuclidianDistanceBasedCuriosity])
def test_curiosity_changes_rewards_as_in_rllibs_episodes(kind: type, sample_format: str) -> None:
    """The second one keeps an observation of each episode: one-step episodes are the oracle."""
    sample = make_buffer(sample_format=sample_format).sample(num_items=40)
    theirs = RLlibOracle(1000)
    theirs.add(mixed_episodes(extras=True))
    before = read_rows(sample)
    oracle = theirs.sample_steps([row.step for row in before], [1] * 40)
    run(kind(), sample)
    after = read_rows(sample)
    assert [row.reward for row in after] != [row.reward for row in before]
    if kind is CountBasedCuriosity or sample_format == "episodes":
        run(kind(), oracle)
        assert [row.reward for row in after] == [row.reward for row in read_rows(oracle)]


@pytest.mark.usefixtures("ray_session")
@BOTH_FORMATS
@pytest.mark.parametrize("num_shards", [0, 1])
def test_dqn_trains_with_curiosity(num_shards: int, sample_format: str) -> None:
    config = small_dqn(sample_format=sample_format, num_shards=num_shards).training(
        learner_connector=lambda *spaces: CountBasedCuriosity(intrinsic_reward_coeff=100.0)
    )
    losses = {}
    for name, made in (("plain", small_dqn(num_shards=0)), ("curious", config)):
        algo = made.build_algo()
        try:
            for _ in range(4):
                result = algo.train()
        finally:
            algo.stop()
        losses[name] = result["learners"]["default_policy"]["qf_loss"]
    assert losses["curious"] > 5 * losses["plain"]  # it trained on rewards of about 100


@BOTH_FORMATS
def test_writes_reach_those_rows_and_no_others(sample_format: str) -> None:
    sample = make_buffer(sample_format=sample_format).sample(num_items=50)
    rows = read_rows(sample)
    episode = max(sample, key=len)
    n = len(episode)
    kept = copy.deepcopy(sample)
    episode.set_rewards(new_data=np.float64(77.0), at_indices=n - 1)
    episode.set_actions(new_data=1 - np.asarray(episode.get_actions()))
    episode.set_extra_model_outputs(
        key="weights", new_data=np.full(n, 0.25), at_indices=slice(0, n)
    )
    assert read_rows(kept) == rows
    changed = read_rows(sample)
    mine = read_rows([episode])
    assert mine[-1].reward == 77.0
    assert {row.weight for row in mine} == {0.25}
    assert sum(a != b for a, b in zip(rows, changed, strict=True)) == n
    assert read_rows(pickle.loads(pickle.dumps([episode]))) == mine


def test_rows_that_cannot_be_written_in_place_are_copied() -> None:
    """As they come out of Ray's object store."""
    sample = make_buffer().sample(num_items=50)
    for leaf in ("rewards", "actions"):
        sample[0]._columns[leaf].flags.writeable = False
    group = sample[0][3:9]
    group.set_rewards(new_data=[1.5, 2.5], at_indices=[0, 1])
    assert group.get_rewards()[:2].tolist() == [1.5, 2.5]
    assert sample[0].get_rewards(slice(3, 5)).tolist() == [1.5, 2.5]


@BOTH_FORMATS
def test_infos_and_outputs_by_keys(sample_format: str) -> None:
    buffer = make_buffer(
        sample_format=sample_format, include_infos=True, include_extra_model_outputs=True
    )
    sample = buffer.sample(num_items=30)
    for episode in sample:
        n = len(episode)
        t = [info["t"] for info in episode.get_infos(slice(0, n))]
        assert [info["t"] for info in episode.get_infos(slice(1, n + 1))] == [s + 1 for s in t]
        assert [*episode.get_extra_model_outputs("logp", slice(0, n))] == [-s for s in t]
    times = [int(row.step[1]) for row in read_rows(sample)]
    (column,) = run(AddInfosFromEpisodesToTrainBatch(), sample).values()
    infos = [info for items in column.values() for info in items]
    assert [info["t"] for info in infos] == times
    for episode in buffer.sample(num_items=5, include_extra_model_outputs=False):
        assert set(episode.extra_model_outputs) == {"weights", "n_step"}


@pytest.mark.parametrize("key", ["include_infos", "include_extra_model_outputs"])
def test_wrong_values_of_the_keys(key: str) -> None:
    with pytest.raises(TypeError, match=f"{key}: got 1, expected True or False"):
        make_buffer(**{key: 1})


def test_what_was_not_sampled_is_refused_by_the_key_that_gives_it() -> None:
    group = make_buffer().sample(num_items=10)[0]
    with pytest.raises(ValueError, match='"include_infos": True'):
        group.get_infos(slice(0, len(group)))
    with pytest.raises(KeyError, match='"include_extra_model_outputs": True'):
        group.get_extra_model_outputs("logp")
    with pytest.raises(ValueError, match='"sample_format": "episodes"'):
        group.set_observations(new_data=np.zeros(4), at_indices=0)


class SeesInfos(ConnectorV2):
    """Keeps the infos and model outputs that it is shown."""

    seen: list = []  # noqa: RUF012 - of the learner in this process

    def __call__(self, *, batch: dict, episodes: list, **_: object) -> dict:
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            SeesInfos.seen += episode.get_infos(slice(0, len(episode)))
        return batch


class TellsTime(gym.Env):
    """Infos say which step of the episode it is."""

    observation_space = gym.spaces.Box(0, 100, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config: object = None) -> None:
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        self.t = 0
        return np.zeros(2, np.float32), {"t": 0}

    def step(self, action: int) -> tuple:
        self.t += 1
        return np.full(2, self.t, np.float32), 1.0, self.t == 9, False, {"t": self.t}


@pytest.mark.usefixtures("ray_session")
@BOTH_FORMATS
@pytest.mark.parametrize("enabled", [False, True])
def test_infos_in_training(sample_format: str, enabled: bool) -> None:
    config = small_dqn(
        TellsTime, num_shards=0, sample_format=sample_format, include_infos=True
    ).training(learner_connector=lambda *spaces: SeesInfos())
    SeesInfos.seen.clear()
    algo = (rllib_per_acc.enable(config) if enabled else config).build_algo()
    try:
        for _ in range(3):
            algo.train()
    finally:
        algo.stop()
    assert {info["t"] for info in SeesInfos.seen} == set(range(9))


def image(number: int, t: int) -> np.ndarray:
    return np.full((4, 3, 1), 100 * number + t, np.float32)


def test_rllibs_frame_stacking_gets_the_true_frames() -> None:
    space = gym.spaces.Box(0, 1e4, (4, 3, 1), np.float32)
    options = {"observation": image, "observation_space": space}
    episodes = [make_episode(n, 6, "terminated", **options) for n in range(3)]
    stacking = FrameStacking(num_frames=4, as_learner_connector=True)
    buffer = make_buffer(episodes, sample_format="episodes", lookback=3)
    sample = buffer.sample(num_items=60)
    (column,) = run(stacking, sample).values()
    stacks = [stack for items in column.values() for batched in items for stack in batched]
    assert len(stacks) == 60
    for episode, stack in zip(sample, stacks, strict=True):
        number, t = divmod(int(episode.get_observations(0).max()), 100)
        expected = [100 * number + s if s >= 0 else 0 for s in range(t - 3, t + 1)]
        assert stack.max(axis=(0, 1)).tolist() == expected
        assert stack.min(axis=(0, 1)).tolist() == expected


class StacksTwo(ConnectorV2):
    """Observations, and next ones, with the one before; and the action before."""

    def __call__(self, *, batch: dict, episodes: list, **_: object) -> dict:
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            frames = episode.get_observations(
                slice(-1, len(episode) + 1), neg_index_as_lookback=True, fill=0.0
            )
            action = episode.get_actions(slice(-1, 0), neg_index_as_lookback=True, fill=0)
            previous = np.array([np.asarray(action).item() + 0.5], np.float32)
            for name, at in (("obs", 0), ("new_obs", 1)):
                stacked = np.concatenate([frames[at], frames[at + 1], previous])
                self.add_n_batch_items(batch, name, [stacked], 1, episode)
        return batch


class StacksTwoToAct(StacksTwo):
    """The same for the module that acts, whose space it says."""

    def recompute_output_observation_space(self, observations: object, actions: object) -> object:
        return gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)

    def __call__(self, *, batch: dict, episodes: list, **_: object) -> dict:
        for episode in self.single_agent_episode_iterator(episodes):
            two = episode.get_observations(slice(-2, None), fill=0.0)
            action = episode.get_actions(-1, fill=0)
            previous = np.array([np.asarray(action).item() + 0.5], np.float32)
            self.add_batch_item(batch, "obs", np.concatenate([*two, previous]), episode)
        return batch


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("num_shards", [0, 1])
def test_dqn_trains_with_stacked_frames_once_the_error_is_followed(num_shards: int) -> None:
    """In the default format it is refused; what the message names is what works."""

    def train(**keys: object) -> None:
        config = (
            small_dqn(TellsTime, num_shards=num_shards, **keys)
            .env_runners(env_to_module_connector=lambda *env_and_spaces, **_: StacksTwoToAct())
            .training(learner_connector=lambda *spaces: StacksTwo())
        )
        algo = config.build_algo()
        try:
            for _ in range(3):
                result = algo.train()
        finally:
            algo.stop()
        assert np.isfinite(result["learners"]["default_policy"]["qf_loss"])

    with pytest.raises(ValueError, match=r'"sample_format": "episodes".*"lookback"'):
        train()
    train(sample_format="episodes", lookback=1)
