"""Values of every Gymnasium space, those of variable length too, come back as they went in."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer

from rllib_per_acc import (
    AccMultiAgentPrioritizedEpisodeReplayBuffer,
    AccPrioritizedEpisodeReplayBuffer,
)
from rllib_per_acc.json_values import from_json, to_json
from rllib_per_acc.rllib.space_values import stacked

spaces = gym.spaces

FIXED = {
    "box": spaces.Box(-1, 1, (2, 3), np.float16),
    "image": spaces.Box(0, 255, (4, 4, 1), np.uint8),
    "number": spaces.Box(-1, 1, (), np.float64),
    "discrete": spaces.Discrete(9, start=-4),
    "multi discrete": spaces.MultiDiscrete([3, 4]),
    "multi binary": spaces.MultiBinary(3),
    "text": spaces.Text(6, min_length=0),
}
PAIR = spaces.Box(0, 1, (2,))
VARYING = {
    "sequence": spaces.Sequence(PAIR),
    "stacked sequence": spaces.Sequence(PAIR, stack=True),
    "sequence of dicts": spaces.Sequence(spaces.Dict({"a": PAIR, "n": spaces.Discrete(3)})),
    "sequence of sequences": spaces.Sequence(spaces.Sequence(spaces.Discrete(5))),
    "graph": spaces.Graph(PAIR, spaces.Discrete(4)),
    "graph without values of edges": spaces.Graph(spaces.Discrete(4), None),
    "one of": spaces.OneOf((PAIR, spaces.Box(0, 1, (3,), np.float64), spaces.Text(4))),
}
EVERY = FIXED | VARYING
NESTED = {
    "bare": lambda space: space,
    "dict": lambda space: spaces.Dict({"x": space, "b": PAIR}),
    "tuple": lambda space: spaces.Tuple((PAIR, space)),
    "deep": lambda space: spaces.Dict({"in": spaces.Tuple((space, spaces.Dict({"y": space})))}),
}
ONE = np.array([0.25, 0.5], np.float32)


def values_of(space: gym.Space, count: int) -> list[Any]:
    space.seed(3)
    return [space.sample() for _ in range(count)]


def assert_same(got: Any, expected: Any) -> None:
    """Equal in nesting, names, lengths, dtypes, shapes and values."""
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for key in expected:
            assert_same(got[key], expected[key])
    elif isinstance(expected, tuple):
        assert type(got) is type(expected)
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    elif expected is None:
        assert got is None
    else:
        got, expected = np.asarray(got), np.asarray(expected)
        assert got.dtype.kind == expected.dtype.kind
        assert got.dtype.kind == "U" or got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected, strict=got.dtype.kind != "U")


def chunks_of(values: list[Any], space: gym.Space | None) -> list[SingleAgentEpisode]:
    """One episode in pieces of one and more steps; values are observations, and actions too."""
    episode = SingleAgentEpisode(
        id_="e", observation_space=space, action_space=space, len_lookback_buffer=1
    )
    episode.add_env_reset(values[0])
    made = []
    for t, value in enumerate(values[1:]):
        episode.add_env_step(value, values[t], float(t), terminated=t == len(values) - 2)
        if t in (0, 1, 4):
            made.append(episode)
            episode = episode.cut(len_lookback_buffer=1)
    return [*made, episode]


def assert_stored(episode: SingleAgentEpisode, values: list[Any]) -> None:
    assert len(episode) == len(values) - 1
    for t, value in enumerate(values):
        assert_same(episode.get_observations(t), value)
    for t, value in enumerate(values[:-1]):
        assert_same(episode.get_actions(t), value)


def make_buffer(**options: Any) -> AccPrioritizedEpisodeReplayBuffer:
    return AccPrioritizedEpisodeReplayBuffer(100, **({"num_shards": 0, "seed": 1} | options))


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("name", EVERY)
def test_stored_sampled_and_saved(name: str, nested: str, tmp_path: Path) -> None:
    space = NESTED[nested](EVERY[name])
    values = values_of(space, 9)
    buffer = make_buffer(sample_format="episodes")
    for chunk in chunks_of(values, space):
        buffer.add(chunk)
    assert_stored(buffer.episodes[0], values)
    for sampled in buffer.sample(num_items=20):
        t = sampled.t_started
        assert_same(sampled.get_observations(0), values[t])
        assert_same(sampled.get_observations(1), values[t + 1])
        assert_same(sampled.get_actions(0), values[t])
    buffer.save_to_path(tmp_path / "saved")
    restored = make_buffer()
    restored.restore_from_path(tmp_path / "saved")
    assert_stored(restored.episodes[0], values)
    state = make_buffer()
    state.set_state(buffer.get_state())
    assert_stored(state.episodes[0], values)


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("name", VARYING)
def test_rows(name: str, nested: str) -> None:
    space = NESTED[nested](VARYING[name])
    values = values_of(space, 5)
    buffer = make_buffer(sample_format="rows", include_infos=False)
    buffer.add(chunks_of(values, space))

    for group in buffer.sample(num_items=30):
        n = len(group)
        here = group.get_observations(slice(0, n))
        ahead = group.get_observations(slice(1, n + 1))
        for i, reward in enumerate(group.get_rewards(slice(0, n))):
            t = int(reward)
            assert_same(part(here, i, space), values[t])
            assert_same(part(ahead, i, space), values[t + 1])


def part(columns: Any, i: int, space: gym.Space) -> Any:
    """Item `i` of columns."""
    if isinstance(space, spaces.Dict):
        return {key: part(columns[key], i, inner) for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(part(c, i, inner) for c, inner in zip(columns, space.spaces, strict=True))
    return columns[i]


@pytest.mark.parametrize("name", VARYING)
def test_rllibs_buffer_keeps_the_same(name: str) -> None:
    space = NESTED["dict"](VARYING[name])
    ours, theirs = make_buffer(), EpisodeReplayBuffer(100)
    for chunk in chunks_of(values_of(space, 9), space):
        ours.add(chunk)
        theirs.add(chunk)
    for t in range(9):
        expected = theirs.episodes[0].get_observations(t)
        assert_same(ours.episodes[0].get_observations(t), expected)


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("num_shards", [1, 2])
def test_through_actors(num_shards: int, tmp_path: Path) -> None:
    space = spaces.Dict(VARYING | {"nested": spaces.Tuple(tuple(VARYING.values()))})
    values = values_of(space, 9)
    buffer = make_buffer(num_shards=num_shards, sample_format="episodes")
    other = make_buffer(num_shards=num_shards)
    try:
        for chunk in chunks_of(values, space):
            buffer.add(chunk)
        for sampled in buffer.sample(num_items=20):
            assert_same(sampled.get_observations(1), values[sampled.t_started + 1])
        assert_stored(buffer.episodes[0], values)
        buffer.save_to_path(tmp_path / "saved")
        other.restore_from_path(tmp_path / "saved")
        assert_stored(other.episodes[0], values)
    finally:
        buffer.close()
        other.close()


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("num_shards", [0, 1])
def test_several_agents(num_shards: int, tmp_path: Path) -> None:
    of = {"a": NESTED["deep"](VARYING["graph"]), "b": VARYING["sequence"]}
    values = {agent: values_of(space, 6) for agent, space in of.items()}
    episode = MultiAgentEpisode(
        observation_space=of,
        action_space=of,
        agent_to_module_mapping_fn=lambda agent, _: f"module_{agent}",
    )
    episode.add_env_reset(observations={agent: v[0] for agent, v in values.items()}, infos={})
    for t in range(5):
        episode.add_env_step(
            {agent: v[t + 1] for agent, v in values.items()},
            {agent: v[t] for agent, v in values.items()},
            dict.fromkeys(of, 1.0),
            {},
        )
    buffer, other = (
        AccMultiAgentPrioritizedEpisodeReplayBuffer(100, num_shards=num_shards) for _ in range(2)
    )
    try:
        buffer.add([episode])
        assert len(buffer.sample(num_items=10)) > 0
        buffer.save_to_path(tmp_path / "saved")
        other.restore_from_path(tmp_path / "saved")
        for one in (buffer, other):
            for agent, expected in values.items():
                assert_stored(one.module_episodes(f"module_{agent}")[0], expected)
    finally:
        buffer.close()
        other.close()


@pytest.mark.parametrize("name", ["sequence", "stacked sequence", "graph", "sequence of dicts"])
@pytest.mark.parametrize("nested", NESTED)
def test_values_that_are_alike_and_were_put_into_arrays(name: str, nested: str) -> None:
    space = NESTED[nested](VARYING[name])
    alike = values_of(space, 1) * 4
    buffer = make_buffer()
    first = SingleAgentEpisode(id_="e", observation_space=space, action_space=space)
    first.add_env_reset(alike[0])
    for t, value in enumerate(alike[1:]):
        first.add_env_step(value, alike[t], 0.0)
    then = first.cut(len_lookback_buffer=2)
    others = values_of(space, 4)
    for value in others:
        then.add_env_step(value, value, 0.0)
    buffer.add(first.to_numpy())
    buffer.add(then)
    (stored,) = buffer.episodes
    for t, value in enumerate([*alike, *others]):
        assert_same(stored.get_observations(t), value)
    again = make_buffer()
    again.add(stored)
    for t, value in enumerate([*alike, *others]):
        assert_same(again.episodes[0].get_observations(t), value)


def test_without_a_space_what_differs_in_the_first_chunk_is_kept() -> None:
    values = [(ONE,), (ONE, ONE), (), (ONE,)]
    buffer = make_buffer()
    episode = SingleAgentEpisode()
    episode.add_env_reset(values[0])
    for value in values[1:]:
        episode.add_env_step(value, 0, 1.0)
    buffer.add(episode)
    for t, value in enumerate(values):
        assert_same(buffer.episodes[0].get_observations(t), value)


def test_shapes_that_differ_inside_a_dict_are_not_broadcast() -> None:
    values = [{"x": np.ones((3, 2))}, {"x": np.full((1, 2), 5.0)}]
    episode = SingleAgentEpisode()
    episode.add_env_reset(values[0])
    episode.add_env_step(values[1], 0, 1.0)
    buffer = make_buffer()
    buffer.add(episode)
    for t, value in enumerate(values):
        assert_same(buffer.episodes[0].get_observations(t), value)


def test_what_the_caller_changes_afterwards_is_not_stored() -> None:
    mine = np.array(ONE)
    episode = SingleAgentEpisode(observation_space=VARYING["sequence"])
    episode.add_env_reset((mine,))
    episode.add_env_step((mine, mine), 0, 1.0)
    buffer = make_buffer()
    buffer.add(episode)
    mine[:] = 0
    assert_same(buffer.episodes[0].get_observations(1), (ONE, ONE))


@pytest.mark.parametrize("value", [{"x": 1}, (ONE, ONE), ONE])
def test_what_is_not_of_the_space_is_refused(value: Any) -> None:
    space = spaces.Dict({"x": VARYING["sequence"], "b": PAIR})
    with pytest.raises(ValueError, match="expected one of Dict"):
        stacked([value], space)


@pytest.mark.parametrize("name", VARYING)
def test_the_memory_of_such_a_buffer_is_estimated(name: str) -> None:
    buffer = make_buffer()
    space = NESTED["dict"](VARYING[name])
    buffer.check_memory(space, space)


def test_a_graph_with_arrays_of_every_kind_as_json() -> None:
    for dtype in ("?", "u1", "<i2", ">i4", "<f2", "<f8", "<c16", "<U3", "S2", "M8[s]"):
        graph = spaces.GraphInstance(np.zeros((2, 1), dtype), None, np.zeros((0, 2), dtype))
        again = from_json(to_json(graph, "graph"))
        assert type(again) is spaces.GraphInstance
        assert again.nodes.dtype == graph.nodes.dtype
        assert again.edges is None
        assert again.edge_links.shape == (0, 2)
