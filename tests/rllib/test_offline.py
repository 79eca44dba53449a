"""RLlib's offline pre-learner with the buffer: as with RLlib's own, rows in the data worker."""

import json
import os
import pathlib

import msgpack
import numpy as np
import pyarrow.parquet
import pytest
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.algorithms.marwil import MARWILConfig
from ray.rllib.offline.offline_prelearner import OfflinePreLearner
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer
from rllib_episodes import ACTIONS, OBSERVATIONS, make_episode

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

msgpack_numpy = pytest.importorskip("msgpack_numpy", reason="RLlib reads episodes with it")
pytestmark = pytest.mark.usefixtures("ray_session")


def recorded(first: int = 0) -> list:
    lengths = (5, 1, 12, 3, 9, 20)
    return [make_episode(first + i, n, ("terminated", "truncated")[i % 2])
            for i, n in enumerate(lengths)]  # fmt: skip


def packed(episodes: list) -> dict:
    states = [msgpack.packb(e.get_state(), default=msgpack_numpy.encode) for e in episodes]
    return {"item": np.array(states, object)}


class WhereRowsAre(AccPrioritizedEpisodeReplayBuffer):
    """Writes down in which process its rows are."""

    def __init__(self, *args, folder: str, **options) -> None:
        super().__init__(*args, **options)
        (info,) = self.get_shard_info()
        said = {"rows": info["pid"], "buffer": os.getpid()}
        pathlib.Path(folder, f"{os.getpid()}.json").write_text(json.dumps(said))


def config_of(kind: type = BCConfig, **data: object) -> BCConfig:
    return (
        kind()
        .environment(observation_space=OBSERVATIONS, action_space=ACTIONS)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .training(train_batch_size_per_learner=20)
        .offline_data(
            input_read_episodes=True,
            **{
                "input_": ["unused"],
                "prelearner_buffer_class": AccPrioritizedEpisodeReplayBuffer,
                "prelearner_buffer_kwargs": {"capacity": 1000},
                **data,
            },
        )
    )


def batches(config: BCConfig) -> list[dict]:
    """What a pre-learner makes of two blocks of recorded episodes, in this process."""
    spaces = {"default_policy": (OBSERVATIONS, ACTIONS)}
    config.rl_module(rl_module_spec=config.get_multi_rl_module_spec(spaces=spaces))
    prelearner = OfflinePreLearner(config=config, spaces=(OBSERVATIONS, ACTIONS))
    made = [prelearner(packed(recorded(first))) for first in (0, 0, 10)]
    assert prelearner.episode_buffer.get_num_episodes() == 12  # those that come again are left out
    assert len(prelearner.episode_buffer.episode_id_to_index) == 12
    return made


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
@pytest.mark.parametrize("kind", [BCConfig, MARWILConfig])
def test_a_prelearner_makes_batches_like_rllibs(kind: type, sample_format: str) -> None:
    if kind is MARWILConfig and sample_format == "rows":
        pytest.skip("MARWIL appends to episodes: see test_marwil_is_told_the_format")
    keys = {"capacity": 1000, "num_shards": 0, "sample_format": sample_format}
    ours = batches(config_of(kind, prelearner_buffer_kwargs=keys))
    theirs = batches(config_of(kind, prelearner_buffer_class=None))
    kept = {
        tuple(obs) for first in (0, 10) for e in recorded(first) for obs in e.get_observations()
    }
    for mine, rllibs in zip(ours, theirs, strict=True):
        extra = {"default_policy/weights", "default_policy/n_step"}
        assert set(rllibs) <= set(mine) <= set(rllibs) | extra
        for name in rllibs:
            assert mine[name].dtype == rllibs[name].dtype, name
            assert mine[name].shape[1:] == rllibs[name].shape[1:], name
        observations = mine["default_policy/obs"]
        assert {tuple(np.asarray(o)) for o in observations if np.any(np.asarray(o))} <= kept


def test_marwil_is_told_the_format() -> None:
    keys = {"capacity": 1000, "num_shards": 0}
    with pytest.raises(ValueError, match='"sample_format": "episodes"'):
        batches(config_of(MARWILConfig, prelearner_buffer_kwargs=keys))


@pytest.mark.slow
def test_bc_trains_with_rows_in_the_data_worker(tmp_path: pathlib.Path) -> None:
    data, said = tmp_path / "data", tmp_path / "said"
    said.mkdir()
    data.mkdir()
    items = packed(recorded() + recorded(10))["item"].tolist()
    pyarrow.parquet.write_table(pyarrow.table({"item": items}), data / "episodes.parquet")
    config = config_of(
        input_=[str(data)],
        prelearner_buffer_class=WhereRowsAre,
        prelearner_buffer_kwargs={"capacity": 10_000, "num_shards": 1, "folder": str(said)},
        input_read_batch_size=4,
        dataset_num_iters_per_learner=1,
    ).evaluation(evaluation_interval=None)
    algo = config.build_algo()
    try:
        for _ in range(2):
            result = algo.train()
    finally:
        algo.stop()
    assert np.isfinite(result["learners"]["default_policy"]["policy_loss"])
    places = [json.loads(path.read_text()) for path in said.iterdir()]
    assert places
    assert all(place["rows"] == place["buffer"] for place in places)
    assert os.getpid() not in {place["buffer"] for place in places}


def test_ids_of_stored_episodes_are_rllibs() -> None:
    ours = AccPrioritizedEpisodeReplayBuffer(60, num_shards=0)
    theirs = PrioritizedEpisodeReplayBuffer(60)
    for first in (0, 10, 20):
        ours.add(recorded(first))
        theirs.add(recorded(first))
        assert dict(ours.episode_id_to_index) == theirs.episode_id_to_index
    with pytest.raises(TypeError):
        ours.episode_id_to_index["new"] = 1


@pytest.mark.parametrize("num_shards", [0, 2])
def test_a_set_of_episodes_is_added(num_shards: int) -> None:
    buffer = AccPrioritizedEpisodeReplayBuffer(1000, num_shards=num_shards)
    buffer.add(set(recorded()))
    assert buffer.get_num_timesteps() == 50
    assert set(buffer.episode_id_to_index) == {e.id_ for e in recorded()}
    assert {e.id_ for e in buffer.episodes} == {e.id_ for e in recorded()}
