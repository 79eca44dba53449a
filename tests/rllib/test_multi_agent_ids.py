"""Ids of episodes, agents and modules are anything hashable, and stay what they are."""

import pickle
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_per_acc import AccMultiAgentPrioritizedEpisodeReplayBuffer
from rllib_per_acc.rllib.ids import metric_key, text_of

IDS: dict[str, list[Hashable]] = {
    "ints": [3, 7, -1],
    "tuples": [("team", 1), ("team", 2), (("a", 1), 2.5)],
    "numpy": [np.int64(3), np.int32(7), np.str_("x")],
    "text": ["a/b", "a--b", "../a.b "],
    "long": ["a" * 1_000_000, "a" * 1_000_000 + "b", "--" * 1000],
    "alike": [1, "1", (1,)],
}
EVERY_KIND = pytest.mark.parametrize("ids", IDS.values(), ids=IDS.keys())


def episode(id_: Hashable, modules: dict[Hashable, Hashable], length: int = 5) -> MultiAgentEpisode:
    """An episode of agents with these modules, whose observations say their places."""
    made = MultiAgentEpisode(id_=id_, agent_to_module_mapping_fn=lambda agent, _: modules[agent])
    places = {agent: i for i, agent in enumerate(modules)}
    for t in range(length + 1):
        observations = {a: np.array([i, t], np.float32) for a, i in places.items()}
        if t == 0:
            made.add_env_reset(observations=observations)
            continue
        made.add_env_step(
            observations,
            dict.fromkeys(modules, 0),
            dict.fromkeys(modules, float(t)),
            terminateds={"__all__": t == length},
        )
    return made.to_numpy()


def filled(ids: list[Hashable], **options: Any) -> AccMultiAgentPrioritizedEpisodeReplayBuffer:
    """Agents, modules and episodes are called the same."""
    options = {"num_shards": 0, "seed": 1} | options
    buffer = AccMultiAgentPrioritizedEpisodeReplayBuffer(1000, **options)
    buffer.add([episode(id_, dict(zip(ids, ids, strict=True))) for id_ in ids])
    return buffer


def same(mine: Any, expected: list[Hashable]) -> bool:
    return [(type(id_), id_) for id_ in mine] == [(type(id_), id_) for id_ in expected]


def check(buffer: AccMultiAgentPrioritizedEpisodeReplayBuffer, ids: list[Hashable]) -> None:
    assert same(buffer.get_module_ids(), ids)
    held = buffer.get_priorities()
    for name in ("module_id", "agent_id"):
        assert same(held[name], [id_ for id_ in ids for _ in range(15)])
    for id_ in ids:
        assert buffer.get_num_timesteps(id_) == 15
        episodes = list(buffer.module_episodes(id_))
        assert same([e.module_id for e in episodes], [id_] * 3)
        assert same([e.agent_id for e in episodes], [id_] * 3)
        assert same([e.multi_agent_episode_id for e in episodes], ids)


@EVERY_KIND
@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_samples_updates_and_states(ids: list[Hashable], sample_format: str) -> None:
    buffer = filled(ids, sample_format=sample_format)
    check(buffer, ids)
    sample = buffer.sample(num_items=8)
    if sample_format == "episodes":
        assert same([e.module_id for e in sample], [id_ for id_ in ids for _ in range(8)])
        assert same([e.agent_id for e in sample], [id_ for id_ in ids for _ in range(8)])
        assert {e.multi_agent_episode_id for e in sample} <= set(ids)
    else:
        (rows,) = sample
        groups = rows.agent_episodes.values()
        assert same(dict.fromkeys(group.module_id for group in groups), ids)
    for id_ in ids:
        buffer.update_priorities(np.full(8, 2.0), id_)
    assert set(buffer.sample(num_items=8, replay_mode="synchronized")) == set(ids)
    other = AccMultiAgentPrioritizedEpisodeReplayBuffer(1000, num_shards=0)
    other.set_state(pickle.loads(pickle.dumps(buffer.get_state())))
    check(other, ids)


@EVERY_KIND
def test_metrics_fit_into_rllibs_checkpoints(ids: list[Hashable]) -> None:
    buffer = filled(ids)
    buffer.sample(num_items=8)
    metrics = MetricsLogger(root=True)
    metrics.aggregate([buffer.get_metrics()], key="replay_buffer")
    restored = MetricsLogger(root=True)
    restored.set_state(metrics.get_state())
    mine, theirs = metrics.peek("replay_buffer"), restored.peek("replay_buffer")
    assert theirs.keys() == mine.keys()
    of_modules = mine["num_module_steps_added"]
    assert sum(of_modules.values()) == 45
    assert theirs["num_module_steps_added"] == of_modules
    assert theirs["num_agent_steps_sampled"] == mine["num_agent_steps_sampled"]
    assert all(isinstance(key, str) and len(key) <= 100 for key in of_modules)
    assert set(mine["shards"]) == set(of_modules)


def test_keys_of_metrics_are_rllibs() -> None:
    assert [metric_key(id_) for id_ in ("a", 3, (1, "b"), "a/b.c")] == [
        "a", "3", "(1, 'b')", "a/b.c",
    ]  # fmt: skip
    keys = [metric_key(id_) for id_ in ("x--y", "x__y", "x" * 101, "x" * 102, "\ud800" * 101)]
    assert len(set(keys)) == len(keys)
    assert not any("--" in key or len(key) > 100 for key in keys)


def test_texts_differ() -> None:
    ids = [id_ for some in IDS.values() for id_ in some]
    assert len({text_of(id_) for id_ in ids}) == len(ids)
    assert text_of("m1") == "m1"


@EVERY_KIND
def test_in_a_folder(ids: list[Hashable], tmp_path: Path) -> None:
    buffer = filled(ids)
    buffer.save_to_path(tmp_path)
    other = AccMultiAgentPrioritizedEpisodeReplayBuffer(1000, num_shards=0)
    other.restore_from_path(tmp_path)
    check(other, ids)


@pytest.mark.slow
@EVERY_KIND
def test_in_actors(ids: list[Hashable], tmp_path: Path, ray_session: None) -> None:
    buffer = filled(ids, num_shards=1)
    check(buffer, ids)
    buffer.sample(num_items=8)
    buffer.get_metrics()
    buffer.save_to_path(tmp_path)
    other = AccMultiAgentPrioritizedEpisodeReplayBuffer(1000, num_shards=1)
    other.restore_from_path(tmp_path)
    check(other, ids)
