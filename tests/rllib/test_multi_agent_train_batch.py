"""The train batches that learners build of multi-agent samples, and which rows they get."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from multi_agent_buffers import make_buffer, uneven
from multi_agent_episodes import IN_TURNS, SHARED, make_multi
from multi_agent_oracle import masses_of, read_modules
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from rllib_episodes import ACTIONS, OBSERVATIONS

from rllib_per_acc import enable

COLUMNS = {
    "obs", "new_obs", "actions", "rewards", "terminateds", "truncateds", "weights", "n_step",
}  # fmt: skip
MODULES = ("m1", "m2")


def config_of() -> DQNConfig:
    config = DQNConfig().environment(observation_space=OBSERVATIONS, action_space=ACTIONS)
    config.multi_agent(policies=set(MODULES), policy_mapping_fn=lambda agent_id, _, **__: "m1")
    return config.rl_module(model_config={"fcnet_hiddens": [8]})


SPACES = dict.fromkeys(MODULES, (OBSERVATIONS, ACTIONS))


@pytest.fixture(scope="module")
def learner() -> DQNTorchLearner:
    """A real DQN learner of two modules with RLlib's default connectors."""
    return config_of().build_learner(spaces=SPACES)


def train_batch(learner: DQNTorchLearner, sample: list) -> dict[str, dict[str, torch.Tensor]]:
    """What the learner would train on."""
    return learner._learner_connector(
        rl_module=learner.module, batch={}, episodes=sample, shared_data={}, metrics=learner.metrics
    )


def check_same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> None:
    assert set(one) == set(two) == COLUMNS
    for name, tensor in one.items():
        assert (tensor.dtype, tensor.shape) == (two[name].dtype, two[name].shape), name
        assert torch.equal(tensor, two[name]), name


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
@pytest.mark.parametrize("agents", [SHARED, IN_TURNS], ids=["shared", "turns"])
def test_equal_to_rllibs_own_episodes_of_the_same_steps(
    learner: DQNTorchLearner, sample_format: str, agents: dict
) -> None:
    episodes = [
        make_multi(n, 4 + n, ("terminated", "", "truncated")[n % 3], agents) for n in range(6)
    ]
    ours, theirs = uneven(sample_format, [episodes], alpha=1.0)
    sample = ours.sample(num_items=50, n_step=2, gamma=0.9, beta=0.5)
    batch = train_batch(learner, sample)
    assert set(batch) == set(MODULES)
    for module_id, rows in read_modules(sample).items():
        rllib = theirs.sample_steps(
            module_id, [row.step for row in rows], [2] * 50, gamma=0.9, beta=0.5
        )
        rllib = train_batch(learner, rllib)[module_id]
        if sample_format == "episodes":
            check_same(batch[module_id], rllib)
        else:  # RLlib's connectors group one-step episodes by agent
            check_same(ordered(batch[module_id]), ordered(rllib))


def ordered(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    order = np.lexsort(batch["obs"].numpy().T)
    return {name: tensor[order] for name, tensor in batch.items()}


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_connector_of_enabled_configs_changes_no_bit(
    learner: DQNTorchLearner, sample_format: str
) -> None:
    enabled = enable(config_of()).build_learner(spaces=SPACES)
    ours = make_buffer(sample_format=sample_format)
    ours.add(
        [make_multi(n, 4 + n, ("terminated", "", "truncated")[n % 3], SHARED) for n in range(6)]
    )
    for _ in range(3):
        sample = ours.sample(num_items=40, n_step=2, gamma=0.9, beta=0.5)
        one, two = train_batch(learner, sample), train_batch(enabled, sample)
        assert list(one) == list(two)
        for module_id in one:
            assert list(one[module_id]) == list(two[module_id])
            check_same(one[module_id], two[module_id])


def deal(sample: list, num_learners: int) -> list[list]:
    """What every learner receives, after its way through pickle."""
    shards = TrainingData(episodes=sample).shard(num_learners, len_lookback_buffer=1)
    return [pickle.loads(pickle.dumps(data)).episodes for data, _ in shards]


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
@pytest.mark.parametrize(
    ("num_learners", "num_items"), [(1, 8), (2, 7), (2, 8), (3, 33), (4, 33), (7, 7), (7, 33)]
)
def test_every_learner_gets_its_share_of_every_module(
    learner: DQNTorchLearner, sample_format: str, num_learners: int, num_items: int
) -> None:
    """And the TD errors, in the order of its rows, go back to where they belong."""
    ours = make_buffer(alpha=1.0, sample_format=sample_format)
    ours.add([make_multi(n, 4 + n, ("terminated", "truncated")[n % 2], SHARED) for n in range(6)])
    sample = ours.sample(num_items=num_items)
    wanted: dict[str, dict] = {
        m: {r.step: 100.0 * r.step[0] + r.step[1] + 1 for r in rows}
        for m, rows in read_modules(sample).items()
    }
    errors: dict[str, list[Any]] = {module_id: [] for module_id in MODULES}
    for received in deal(sample, num_learners):
        batch = train_batch(learner, received)
        for module_id in MODULES:
            obs = batch[module_id]["obs"].numpy()
            share = num_items // num_learners
            if sample_format == "rows":
                assert share <= len(obs) <= share + 1
            assert len(obs) >= share  # one-step episodes RLlib deals out itself, less evenly
            errors[module_id].append(100.0 * obs[:, 0] + obs[:, 1] + 1)
    for module_id in MODULES:
        ours.update_priorities(np.concatenate(errors[module_id]), module_id)
        masses = masses_of(ours, module_id)
        for step, error in wanted[module_id].items():
            assert masses[step] == error


def test_rows_that_did_not_arrive_are_an_error(learner: DQNTorchLearner) -> None:
    ours = make_buffer()
    ours.add([make_multi(n, 9) for n in range(3)])
    sample = ours.sample(num_items=8)
    pickle.dumps(sample[0][:7])
    before = ours.get_priorities()["mass"]
    with pytest.raises(RuntimeError, match="4 were sent to no learner"):
        ours.update_priorities(np.ones(8), "m1")
    np.testing.assert_array_equal(ours.get_priorities()["mass"], before)
