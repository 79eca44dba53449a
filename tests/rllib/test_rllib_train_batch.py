"""The train batch that DQN's learner builds is the same tensor by tensor, whichever buffer sampled.

Priorities are whole multiples of 1/8 and alpha is 1, so that totals and weights are exact in
whatever order the trees add them.
"""

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from rllib_episodes import ACTIONS, OBSERVATIONS, make_episode, mixed_episodes
from rllib_oracle import RLlibOracle, read_rows
from train_batches import train_batch

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

COLUMNS = {
    "obs", "new_obs", "actions", "rewards", "terminateds", "truncateds", "weights", "n_step",
}  # fmt: skip


@pytest.fixture(scope="module")
def learner() -> DQNTorchLearner:
    """A real DQN learner with RLlib's default connectors."""
    config = DQNConfig().environment(observation_space=OBSERVATIONS, action_space=ACTIONS)
    config.rl_module(model_config={"fcnet_hiddens": [8]})
    return config.build_learner(spaces={"default_policy": (OBSERVATIONS, ACTIONS)})


def check_same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> None:
    assert set(one) == set(two)
    for name, tensor in one.items():
        assert tensor.dtype == two[name].dtype, name
        assert tensor.shape == two[name].shape, name
        assert torch.equal(tensor, two[name]), name


def uneven(sample_format: str, episodes: list[SingleAgentEpisode]) -> tuple:
    """Ours and RLlib's buffer with the same steps and the same priorities."""
    ours = AccPrioritizedEpisodeReplayBuffer(
        1000, alpha=1.0, num_shards=0, seed=2, sample_format=sample_format
    )
    theirs = RLlibOracle(1000, alpha=1.0)
    ours.add(episodes)
    theirs.add(episodes)
    wanted = {s: (1 + i % 13) / 8 for i, s in enumerate(theirs.able_steps(1))}
    steps = [row.step for row in read_rows(ours.sample(num_items=2000, beta=0.4))]
    ours.update_priorities(np.array([wanted[step] for step in steps]))
    theirs.set_priorities({step: wanted[step] for step in set(steps)})
    return ours, theirs


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
@pytest.mark.parametrize("n_step", [1, 3, (1, 4)])
@pytest.mark.parametrize("num_items", [1, 7, 64])
def test_equal_to_rllibs_own_episodes_of_the_same_steps(
    learner: DQNTorchLearner, sample_format: str, n_step: object, num_items: int
) -> None:
    ours, theirs = uneven(sample_format, mixed_episodes())
    for _ in range(5):
        sample = ours.sample(
            num_items=num_items, n_step=n_step, gamma=0.97, beta=0.5, sample_episodes=True
        )
        rows = read_rows(sample)
        assert len(rows) == num_items
        rllib = theirs.sample_steps(
            [row.step for row in rows], [row.n_step for row in rows], gamma=0.97, beta=0.5
        )
        batch = train_batch(learner, sample)
        assert set(batch) == COLUMNS
        check_same(batch, train_batch(learner, rllib))


@pytest.mark.parametrize("ends", ["all", "none"])
def test_every_row_and_no_row_ends_its_episode(learner: DQNTorchLearner, ends: str) -> None:
    if ends == "all":
        episodes = [make_episode(n, 1, ("terminated", "truncated")[n % 2]) for n in range(12)]
    else:
        episodes = [make_episode(n, 9) for n in range(3)]
    ours, theirs = uneven("rows", episodes)
    sample = ours.sample(num_items=40, gamma=0.9, beta=0.5)
    rows = read_rows(sample)
    assert {row.terminated or row.truncated for row in rows} == {ends == "all"}
    rllib = theirs.sample_steps([r.step for r in rows], [1] * 40, gamma=0.9, beta=0.5)
    check_same(train_batch(learner, sample), train_batch(learner, rllib))


def test_both_formats_give_the_same_from_the_same_seed(learner: DQNTorchLearner) -> None:
    batches = []
    for sample_format in ("rows", "episodes"):
        ours = AccPrioritizedEpisodeReplayBuffer(
            1000, num_shards=0, seed=4, sample_format=sample_format
        )
        ours.add(mixed_episodes())
        sample = ours.sample(num_items=64, n_step=2, gamma=0.9, beta=0.5)
        batches.append(train_batch(learner, sample))
    check_same(*batches)


def test_the_loss_is_the_same(learner: DQNTorchLearner) -> None:
    """One whole update of the learner: same TD errors, in the order of the rows."""
    ours, theirs = uneven("rows", mixed_episodes())
    sample = ours.sample(num_items=32, gamma=0.9, beta=0.5)
    rows = read_rows(sample)
    rllib = theirs.sample_steps([r.step for r in rows], [1] * 32, gamma=0.9, beta=0.5)
    state = learner.get_state()
    errors = []
    for episodes in (sample, rllib):
        learner.set_state(state)
        results = learner.update_from_episodes(episodes=episodes)
        errors.append(np.concatenate(results["default_policy"]["td_error"].peek()))
    np.testing.assert_array_equal(errors[0], errors[1])


def test_atari_like_observations_stay_bytes() -> None:
    space = gym.spaces.Box(0, 255, (6, 6, 2), np.uint8)

    def picture(number: int, t: int) -> np.ndarray:
        image = np.full((6, 6, 2), t, np.uint8)
        image[0, 0] = number, t
        return image

    ours = AccPrioritizedEpisodeReplayBuffer(100, num_shards=0, seed=0)
    ours.add([make_episode(5, 9, "terminated", observation=picture, observation_space=space)])
    for group in ours.sample(num_items=20, beta=0.4):
        n = len(group)
        obs, ahead = group.get_observations(slice(0, n)), group.get_observations(slice(1, n + 1))
        assert obs.dtype == ahead.dtype == np.uint8
        assert obs.shape == (n, 6, 6, 2)
        np.testing.assert_array_equal(ahead[:, 1], obs[:, 1] + 1)


@pytest.mark.filterwarnings("error:The given NumPy array is not writable")
def test_from_an_actor_it_is_the_same_and_the_learners_own(
    learner: DQNTorchLearner, ray_session: None
) -> None:
    """What comes from another process is read-only; the train batch must not be."""
    episodes = [make_episode(n, 9) for n in range(3)]  # one group of all rows
    batches = []
    for num_shards in (0, 1):
        ours = AccPrioritizedEpisodeReplayBuffer(100, num_shards=num_shards, seed=4)
        ours.add(episodes)
        sample = ours.sample(num_items=9000, gamma=0.9, beta=0.5)  # too big to be sent inline
        batches.append(train_batch(learner, sample))
    check_same(*batches)
    obs = sample[0].get_observations(slice(0, 9000))
    assert not np.shares_memory(batches[1]["obs"].numpy(), obs)
