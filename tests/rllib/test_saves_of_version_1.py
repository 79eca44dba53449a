"""Saves that the first version of the format was written in are still read.

`saved_version_1.zip` holds one of each kind, and in `expected.json` what was in them.
"""

import pathlib
import zipfile

import numpy as np
import pytest
from multi_agent_buffers import make_buffer

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer, PrioritizedReplay, TransitionReplay
from rllib_per_acc.json_values import from_json


@pytest.fixture
def saved(tmp_path):
    with zipfile.ZipFile(pathlib.Path(__file__).parents[1] / "saved_version_1.zip") as file:
        file.extractall(tmp_path)
    return tmp_path


@pytest.fixture
def expected(saved):
    return from_json((saved / "expected.json").read_text())


@pytest.mark.parametrize(("name", "chunks"), [("replay", 2), ("frames", 2)])
def test_a_replay_of_episodes(saved, expected, name, chunks):
    replay = PrioritizedReplay.load(saved / name)
    np.testing.assert_equal(replay.get_priorities(), expected[name]["priorities"])
    found = replay.get_chunks(0, 100)
    assert len(found) == len(expected[name]["chunks"]) == chunks
    for chunk, as_saved in zip(found, expected[name]["chunks"], strict=True):
        np.testing.assert_equal(vars_of(chunk), as_saved)


def vars_of(chunk):
    names = ["observations", "actions", "rewards", "terminated", "truncated", "t_started", "infos"]
    return {"id": chunk.episode_id} | {name: getattr(chunk, name) for name in names}


def test_a_replay_of_transitions(saved, expected):
    batch = TransitionReplay.load(saved / "transitions").sample(6)
    np.testing.assert_equal(batch.columns, expected["transitions"]["next_sample"])


def test_a_buffer(saved, expected):
    buffer = AccPrioritizedEpisodeReplayBuffer(20, alpha=0.6, num_shards=0)
    buffer.restore_from_path(saved / "buffer")
    np.testing.assert_equal(buffer.get_priorities(), expected["buffer"])


def test_a_buffer_for_several_agents(saved, expected):
    buffer = make_buffer(20, num_shards=0)
    buffer.restore_from_path(saved / "multi_agent")
    np.testing.assert_equal(buffer.get_priorities(), expected["multi_agent"])
    buffer.sample(num_items=8)
    buffer.save_to_path(saved / "multi_agent")
    buffer.restore_from_path(saved / "multi_agent")
