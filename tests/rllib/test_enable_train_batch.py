"""The learner connector of enabled configs changes no bit of the train batch."""

import pickle
from inspect import signature
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import tree
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.training_data import TrainingData
from rllib_episodes import ACTIONS, OBSERVATIONS, make_episode, mixed_episodes
from tqc_here import TQCConfig, needs_tqc

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer, enable
from rllib_per_acc.rllib.learner_connector import AddRowGroupsToTrainBatch

CONTINUOUS = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
NESTED = gym.spaces.Dict(
    {
        "image": gym.spaces.Box(0, 255, (4, 4), np.uint8),
        "pair": gym.spaces.Tuple([OBSERVATIONS] * 2),
    }
)


def torque(number: int, t: int) -> np.ndarray:
    return np.array([np.sin(number + t), np.cos(t)], np.float32)


def nested(number: int, t: int) -> dict:
    row = np.array([number, t, 0, 1], np.float32)
    return {"image": np.full((4, 4), t, np.uint8), "pair": (row, -row)}


def set_learner(config: AlgorithmConfig, **settings: Any) -> AlgorithmConfig:
    """Sets what Ray 2.48 and older have among the settings of `training`."""
    in_learners = signature(config.learners).parameters
    for name, value in settings.items():
        (config.learners if name in in_learners else config.training)(**{name: value})
    return config


def learners(plain: type, **learner_settings: Any) -> tuple[Learner, Learner]:
    """A learner of RLlib's config, and one of the same config enabled."""
    action_space = ACTIONS if plain is DQNConfig else CONTINUOUS
    config = plain().environment(observation_space=OBSERVATIONS, action_space=action_space)
    config.rl_module(model_config={"fcnet_hiddens": [8]})
    set_learner(config, **learner_settings)
    spaces = {"default_policy": (OBSERVATIONS, action_space)}
    return config.build_learner(spaces=spaces), enable(config).build_learner(spaces=spaces)


@pytest.fixture(scope="module")
def dqn() -> tuple[Learner, Learner]:
    return learners(DQNConfig)


def train_batch(learner: Learner, sample: list) -> dict[str, Any]:
    """What the learner would train on."""
    batch = learner._learner_connector(
        rl_module=learner.module, batch={}, episodes=sample, shared_data={}, metrics=learner.metrics
    )
    assert list(batch) == ["default_policy"]
    return batch["default_policy"]


def check_same(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert list(one) == list(two)
    tree.assert_same_structure(one, two)
    for a, b in zip(tree.flatten(one), tree.flatten(two), strict=True):
        assert type(a) is type(b) is torch.Tensor
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert torch.equal(a, b)


def sample_with_ends(percent: int, num_items: int = 100, **options: Any) -> list:
    """A sample of one-step transitions of which so many end their episodes."""
    buffer = AccPrioritizedEpisodeReplayBuffer(10_000, alpha=0.6, num_shards=0, seed=1)
    ends = num_items * percent // 100
    length, ways = (100 // percent, ("terminated", "truncated")) if percent else (50, ("", ""))
    buffer.add([make_episode(n, length, ways[n % 2], **options) for n in range(40)])
    for _ in range(1000):
        sample = buffer.sample(num_items=num_items, beta=0.5, gamma=0.9)
        if abs(sum(group.is_done for group in sample) - ends) <= 1:
            return sample
    raise AssertionError("no such sample")


@pytest.mark.parametrize("percent", [0, 2, 10, 30, 100])
def test_same_bits_for_any_share_of_rows_that_end(
    dqn: tuple[Learner, Learner], percent: int
) -> None:
    sample = sample_with_ends(percent)
    plain, enabled = (train_batch(learner, sample) for learner in dqn)
    check_same(enabled, plain)
    assert len(enabled["obs"]) == 100
    ends = int((enabled["terminateds"] | enabled["truncateds"]).sum())
    assert abs(ends - percent) <= 1


def test_the_piece_does_the_work(dqn: tuple[Learner, Learner]) -> None:
    plain, enabled = dqn
    names = [type(piece).__name__ for piece in plain._learner_connector.connectors]
    with_ours = [type(piece).__name__ for piece in enabled._learner_connector.connectors]
    assert with_ours == ["AddRowGroupsToTrainBatch", *names]
    batch = AddRowGroupsToTrainBatch()(batch={}, episodes=sample_with_ends(10))
    assert list(batch) == list(train_batch(enabled, sample_with_ends(10)))


@pytest.mark.parametrize("plain", [SACConfig, pytest.param(TQCConfig, marks=needs_tqc)])
def test_same_bits_for_other_algorithms(plain: type) -> None:
    sample = sample_with_ends(10, action=torque, action_space=CONTINUOUS)
    check_same(*(train_batch(learner, sample) for learner in learners(plain)))


def test_same_bits_for_nested_observations(dqn: tuple[Learner, Learner]) -> None:
    sample = sample_with_ends(10, observation=nested, observation_space=NESTED)
    plain, enabled = (train_batch(learner, sample) for learner in dqn)
    check_same(enabled, plain)
    assert enabled["obs"]["image"].dtype == torch.uint8


def test_same_bits_with_extra_model_outputs_and_n_steps(dqn: tuple[Learner, Learner]) -> None:
    buffer = AccPrioritizedEpisodeReplayBuffer(1000, num_shards=0, seed=4)
    buffer.add(mixed_episodes(extras=True))
    for _ in range(5):
        sample = buffer.sample(
            num_items=33, n_step=(1, 3), beta=0.4, include_extra_model_outputs=True
        )
        plain, enabled = (train_batch(learner, sample) for learner in dqn)
        check_same(enabled, plain)
        assert enabled["probs"].shape == (33, 2)


@pytest.mark.parametrize("num_learners", [1, 2, 3])
@pytest.mark.parametrize("percent", [0, 10, 100])
def test_same_bits_for_what_each_remote_learner_gets(
    dqn: tuple[Learner, Learner], num_learners: int, percent: int
) -> None:
    data = TrainingData(episodes=sample_with_ends(percent))
    rows = 0
    for part, _ in data.shard(num_shards=num_learners, len_lookback_buffer=1):
        sent = pickle.loads(pickle.dumps(part.episodes))
        plain, enabled = (train_batch(learner, sent) for learner in dqn)
        check_same(enabled, plain)
        rows += len(enabled["obs"])
    assert rows == 100


def test_same_bits_for_groups_in_another_order(dqn: tuple[Learner, Learner]) -> None:
    sample = sample_with_ends(30)
    mixed = [*sample[1::2], *sample[:8:2], *reversed(sample[8::2])]
    plain, enabled = (train_batch(learner, mixed) for learner in dqn)
    check_same(enabled, plain)
    assert len(enabled["obs"]) == 100
    assert not torch.equal(enabled["obs"], train_batch(dqn[1], sample)["obs"])


def test_one_step_episodes_are_left_to_rllib(dqn: tuple[Learner, Learner]) -> None:
    buffer = AccPrioritizedEpisodeReplayBuffer(1000, num_shards=0, seed=4, sample_format="episodes")
    buffer.add(mixed_episodes())
    sample = buffer.sample(num_items=20, beta=0.4)
    check_same(*(train_batch(learner, sample) for learner in dqn))
    assert AddRowGroupsToTrainBatch()(batch={}, episodes=sample) == {}


def test_nothing_sampled_is_left_to_rllib() -> None:
    assert AddRowGroupsToTrainBatch()(batch={}, episodes=[]) == {}


class ClipRewards(ConnectorV2):
    """A user's piece that fills a column itself."""

    def __call__(self, *, batch: dict, episodes: list, **_: Any) -> dict:
        for episode in episodes:
            self.add_n_batch_items(
                batch, Columns.REWARDS, np.clip(episode.get_rewards(), -1, 1), len(episode), episode
            )
        return batch


class Note(ConnectorV2):
    """A user's piece that notes what it found, and changes what the groups hold."""

    seen: list = []  # noqa: RUF012 - shared by the test and the copies of the piece

    def __call__(self, *, batch: dict, episodes: list, **_: Any) -> dict:
        self.seen.append((list(batch), [len(episode) for episode in episodes]))
        for episode in episodes:
            episode.extra_model_outputs["weights"] = episode.extra_model_outputs["weights"] * 2
        episodes[0].is_truncated = True
        return batch


def test_the_users_pieces_run_before_in_their_order() -> None:
    both = learners(
        DQNConfig, learner_connector=lambda obs_space, act_space: [ClipRewards(), Note()]
    )
    Note.seen.clear()
    batches = [train_batch(learner, sample_with_ends(30)) for learner in both]
    check_same(*batches)
    assert batches[1]["rewards"].abs().max() == 1.0
    assert batches[1]["truncateds"][Note.seen[1][1][0] - 1]
    assert Note.seen[0] == Note.seen[1]
    assert Note.seen[1][0] == ["rewards"]


class WalkEpisodes(ConnectorV2):
    """A user's piece that walks through episodes step by step."""

    def __call__(self, *, batch: dict, episodes: list, **_: Any) -> dict:
        for episode in episodes:
            for t in range(len(episode)):
                step = np.float32(
                    episode.get_observations(t + 1)[1] - episode.get_observations(t)[1]
                )
                self.add_batch_item(batch, "moved", step, episode)
        return batch


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_pieces_that_walk_episodes_need_that_format(sample_format: str) -> None:
    both = learners(DQNConfig, learner_connector=lambda obs_space, act_space: WalkEpisodes())
    buffer = AccPrioritizedEpisodeReplayBuffer(
        1000, num_shards=0, seed=4, sample_format=sample_format
    )
    buffer.add(mixed_episodes())
    sample = buffer.sample(num_items=20, n_step=2, beta=0.4)
    if sample_format == "rows":
        with pytest.raises(ValueError, match='sample_format": "episodes"'):
            train_batch(both[1], sample)
        return
    batches = [train_batch(learner, sample) for learner in both]
    check_same(*batches)
    assert (batches[1]["moved"] == 2).all()


def test_without_rllibs_default_pieces_ours_is_not_there_either() -> None:
    config = enable(set_learner(DQNConfig(), add_default_connectors_to_learner_pipeline=False))
    pipeline = config.build_learner_connector(OBSERVATIONS, ACTIONS)
    assert pipeline.connectors == []
