"""Sequences for stateful modules: RLlib's own slices and train batches are the oracle.

The numbers of an episode and its time steps are in what the module is said to have returned, so
that states, steps and TD errors can be told apart.
"""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from rllib_buffers import masses_of
from rllib_episodes import ACTIONS, OBSERVATIONS, Player, reward_of
from small_algorithms import small_dqn
from train_batches import train_batch

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer, enable

T = 5
LENGTHS = (7, 2, 13, 1, 9, 5)
ENDS = ("terminated", "truncated", "")


class StatefulPlayer(Player):
    """Its module has the state (number, t) after step t."""

    def outputs(self, t: int) -> dict[str, Any]:
        state = np.array([[self.number, t]], np.float32)  # of one layer
        return {"state_out": {"h": state, "c": -state}}


def stateful_episode(number: int, length: int, end: str = "") -> SingleAgentEpisode:
    player = StatefulPlayer(number)
    player.play(length, end)
    return player.cut()


def episodes() -> list[SingleAgentEpisode]:
    return [stateful_episode(n, length, ENDS[n % 3]) for n, length in enumerate(LENGTHS)]


def make_buffer(**options: Any) -> AccPrioritizedEpisodeReplayBuffer:
    buffer = AccPrioritizedEpisodeReplayBuffer(
        **({"capacity": 100, "alpha": 1.0, "num_shards": 0, "seed": 3} | options)
    )
    buffer.add(episodes())
    return buffer


def sample_of(buffer: AccPrioritizedEpisodeReplayBuffer, **arguments: Any) -> list:
    """As DQN calls it."""
    options = {"num_items": 40, "n_step": 1, "batch_length_T": T, "lookback": 1, "beta": 0.4}
    return buffer.sample(**options | {"sample_episodes": True} | arguments)


def step_of(episode: SingleAgentEpisode) -> tuple[int, int]:
    """Which step a sequence begins with."""
    return int(episode.get_observations(0)[0]), episode.t_started


@pytest.fixture(scope="module")
def learner():
    """A DQN learner with an LSTM and RLlib's default connectors."""
    config = DQNConfig().environment(observation_space=OBSERVATIONS, action_space=ACTIONS)
    config.rl_module(
        model_config={
            "fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 2, "max_seq_len": T,
        }
    )  # fmt: skip
    return config.build_learner(spaces={"default_policy": (OBSERVATIONS, ACTIONS)})


def flat(batch: dict, path: str = "") -> dict[str, torch.Tensor]:
    tensors = {}
    for name, value in batch.items():
        nested = isinstance(value, dict)
        tensors |= flat(value, f"{path}{name}.") if nested else {f"{path}{name}": value}
    return tensors


@pytest.mark.parametrize(
    ("num_shards", "sample_format"), [(0, "rows"), (0, "episodes"), (1, "rows"), (3, "rows")]
)
def test_train_batch_is_that_of_rllibs_slices(learner, request, num_shards, sample_format):
    """RLlib's `EpisodeReplayBuffer._sample_episodes` slices whole episodes like this."""
    if num_shards:
        request.getfixturevalue("ray_session")
    buffer = make_buffer(num_shards=num_shards, sample_format=sample_format, capacity=300)
    whole = episodes()
    for _ in range(3):
        sample = sample_of(buffer)
        assert len(sample) == 8
        slices = []
        for i, sequence in enumerate(sample):
            number, t = step_of(sequence)
            stop = min(t + T, LENGTHS[number])
            piece = whole[number].slice(slice(t, stop), len_lookback_buffer=1)
            assert len(sequence) == stop - t
            assert sequence.observations.lookback == piece.observations.lookback == min(t, 1)
            n = len(piece) + piece.observations.lookback
            weights = sequence.get_extra_model_outputs("weights")
            assert len(set(weights.tolist())) == 1
            for key, value in (("n_step", 1), ("weights", weights[0])):
                piece.extra_model_outputs[key] = InfiniteLookbackBuffer(
                    np.full(n, value), piece.observations.lookback
                )
            piece.id_ = f"{i:x}"
            slices.append(piece)
        for key in ("observations", "actions", "rewards"):
            for ours, theirs in zip(sample, slices, strict=True):
                np.testing.assert_array_equal(getattr(ours, key).data, getattr(theirs, key).data)
        ours, theirs = (flat(train_batch(learner, copy.deepcopy(s))) for s in (sample, slices))
        assert {"state_in.h", "next_state_in.c", "loss_mask", "seq_lens", "obs"} <= set(ours)
        assert set(ours) == set(theirs)
        for name, tensor in ours.items():
            assert tensor.dtype == theirs[name].dtype, name
            assert torch.equal(tensor, theirs[name]), name


def error_of(number: int, t: int) -> float:
    """A TD error that names its step."""
    return abs(reward_of(number, t)) + 2.0


def learn(sample: list, num_learners: int, burn_in: int) -> tuple[np.ndarray, list[list[float]]]:
    """What learners return for a sample that RLlib deals them.

    Returns:
        Rows of T TD errors, padding included, one learner after the other; and for each sequence
        the TD errors that its learners train on.
    """
    positions = {}
    for position, sequence in enumerate(sample):
        for _ in range(len(sequence)):
            positions[len(positions)] = position
    shards = [sample]
    if num_learners:
        dealt = TrainingData(episodes=sample).shard(num_shards=num_learners, len_lookback_buffer=1)
        shards = [pickle.loads(pickle.dumps(part)).episodes for part, _ in dealt]
    rows, trained = [], [[] for _ in sample]
    for episode in [e for shard in shards for e in shard]:
        number, first = step_of(episode)
        tds = np.array([error_of(number, first + i) for i in range(len(episode))], np.float32)
        trained[positions[int(episode.id_[24:], 16)]] += tds[burn_in:].tolist()
        padding = np.full(T - len(tds), 1e6, np.float32)
        rows.append(np.concatenate([np.full(len(tds[:burn_in]), 1e5), tds[burn_in:], padding]))
        if episode.t_started:
            state = episode.get_extra_model_outputs("state_out", -1, neg_index_as_lookback=True)
            assert state["h"].tolist() == [[number, first - 1]], (
                "not the state before its first step"
            )
    return np.stack(rows), trained


@pytest.mark.parametrize(("burn_in", "eta"), [(0, 0.0), (0, 0.9), (0, 1.0), (2, 0.9)])
@pytest.mark.parametrize("num_learners", [0, 1, 2, 3])
def test_each_sequence_gets_the_mix_of_its_own_td_errors(num_learners, burn_in, eta):
    """Burn-in and padding left out: their TD errors here are far above all others."""
    buffer = make_buffer(eta=eta)
    for num_items in (20, 31, 60):
        sample = sample_of(buffer, num_items=num_items, min_batch_length_T=burn_in)
        assert all(len(sequence) > burn_in for sequence in sample)
        rows, trained = learn(sample, num_learners, burn_in)
        buffer.update_priorities(rows)
        expected = masses_of(buffer)
        for sequence, tds in zip(sample, trained, strict=True):
            counted = tds or [1e5]  # cut into parts that are no longer than the burn-in
            mix = eta * max(counted) + (1 - eta) * sum(counted) / len(counted)
            expected[step_of(sequence)] = mix
        found = masses_of(buffer)
        assert len({mass for mass in found.values() if mass != 1.0}) > 2
        assert found == pytest.approx(expected, rel=1e-9)


def test_a_sequence_of_which_no_learner_trains_a_step_counts_as_a_whole():
    """Two learners get a part each that is no longer than the burn-in."""
    buffer = make_buffer()
    sample = sample_of(buffer, num_items=1, batch_length_T=4, min_batch_length_T=3)
    rows, trained = learn(sample, 2, 3)
    assert trained == [[]]
    buffer.update_priorities(np.array([[1.0, 2.0, 7.0, 7.0], [3.0, 6.0, 7.0, 7.0]]))
    assert len(rows) == 2
    assert masses_of(buffer)[step_of(sample[0])] == pytest.approx(0.9 * 6 + 0.1 * 3)


def test_a_start_without_a_stored_state_before_it_gets_zeros(learner):
    """The steps before were evicted while the episode went on."""
    buffer = make_buffer(capacity=10, num_shards=0)
    player = StatefulPlayer(50)
    player.play(12)
    player.cut()
    player.play(4)
    buffer.add(player.cut())
    sample = sample_of(buffer, num_items=200, include_infos=True)
    first = [s for s in sample if step_of(s) == (50, 12)]
    later = [s for s in sample if step_of(s) == (50, 13)]
    assert first
    assert later
    assert first[0].observations.lookback == 0
    state = first[0].get_extra_model_outputs("state_out", -1, neg_index_as_lookback=True)
    assert not state["h"].any()
    batch = train_batch(learner, [first[0], later[0]])
    assert batch["state_in"]["h"].squeeze(1).tolist() == [[0.0, 0.0], [50.0, 12.0]]
    assert batch["next_state_in"]["h"].squeeze(1).tolist() == [[50.0, 12.0], [50.0, 13.0]]
    assert [info["t"] for info in first[0].get_infos()] == [12, 13, 14, 15, 16]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_step": 3}, r"n_step: got 3, expected 1 in sequences"),
        ({"min_batch_length_T": T}, r"sequences.least: got 6, expected at most length=5"),
        ({"batch_length_T": 30, "min_batch_length_T": 20}, r"got 21 steps as the least"),
    ],
)
def test_refused_samples(arguments, message):
    with pytest.raises(ValueError, match=message):
        sample_of(make_buffer(), **arguments)


@pytest.mark.parametrize("shape", [(8,), (40,), (7, T), (9, T), (8, 2), (8, 0), (8, T, 1), ()])
def test_td_errors_of_another_shape_change_nothing(shape):
    buffer = make_buffer()
    sample = sample_of(buffer)
    with pytest.raises(ValueError, match=r"priorities: got shape \("):
        buffer.update_priorities(np.full(shape, 2.0))
    assert set(masses_of(buffer).values()) == {1.0}
    rows, _ = learn(sample, 0, 0)
    rows[0, 0] = np.nan
    with pytest.raises(ValueError, match="priorities: got nan"):
        buffer.update_priorities(rows)
    assert set(masses_of(buffer).values()) == {1.0}
    rows[0, 0] = 1.0
    buffer.update_priorities(rows)
    assert set(masses_of(buffer).values()) != {1.0}


@pytest.mark.parametrize("eta", [-0.1, 1.1, "high", None])
def test_refused_eta(eta):
    with pytest.raises((ValueError, TypeError), match="eta: got"):
        make_buffer(eta=eta)


def test_the_length_is_the_buffers_where_sample_is_not_told():
    buffer = make_buffer(batch_length_T=3)
    assert {len(e) for e in buffer.sample(num_items=60)} == {1, 2, 3}
    assert {len(e) for e in buffer.sample(num_items=60, batch_length_T=2)} == {1, 2}
    assert type(buffer.sample(num_items=60, batch_length_T=0)[0]).__name__ == "RowGroup"


def stateful_dqn(**keys: Any) -> DQNConfig:
    """RLlib's DQN explores with stateful modules in one environment per env runner only."""
    return (
        small_dqn(**keys)
        .env_runners(num_envs_per_env_runner=1, rollout_fragment_length=8)
        .rl_module(model_config={
            "fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 6,
        })
        .training(burn_in_len=2, train_batch_size_per_learner=24)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "enabled"), [({}, False), ({"num_shards": 2}, True)], ids=["type only", "enabled"]
)
@pytest.mark.slow
def test_dqn_with_an_lstm_trains(ray_session, keys, enabled):
    config = stateful_dqn(**keys)
    algo = (enable(config, **keys) if enabled else config).build_algo()
    try:
        for _ in range(6):
            result = algo.train()
        loss = result["learners"]["default_policy"]["qf_loss"]
        assert np.isfinite(loss)
        buffer = algo.local_replay_buffer
        assert isinstance(buffer, AccPrioritizedEpisodeReplayBuffer)
        sample = sample_of(buffer, batch_length_T=6, min_batch_length_T=2)
        assert sample[0].get_extra_model_outputs("state_out")["h"].shape[-1] == 4
        assert len(np.unique(buffer.get_priorities()["mass"])) > 5, "no priority was ever updated"
    finally:
        algo.stop()


@pytest.mark.slow
def test_two_learners_train_an_lstm(ray_session):
    config = stateful_dqn(num_shards=0).learners(num_learners=2)
    algo = config.build_algo()
    try:
        for _ in range(4):
            algo.train()
        masses = algo.local_replay_buffer.get_priorities()["mass"]
        assert len(np.unique(masses)) > 5, "no priority was ever updated"
    finally:
        algo.stop()
