"""The same adds give the same counts, evictions and priorities as RLlib's multi-agent buffer."""

import itertools

import numpy as np
import pytest
from multi_agent_buffers import make_buffer
from multi_agent_episodes import (
    IN_TURNS,
    SHARED,
    TWO,
    UNEQUAL,
    Agent,
    MultiAgentPlayer,
    make_multi,
    play_multi,
)
from multi_agent_oracle import MultiAgentOracle, masses_of
from older_rays import own_turns_raise
from rllib_buffers import COUNTERS


def pair(capacity: int, **options) -> tuple:
    return make_buffer(capacity, **options), MultiAgentOracle(capacity, alpha=0.6)


def check_same(ours, theirs) -> None:
    modules = theirs.get_module_ids()
    assert sorted(ours.get_module_ids()) == sorted(modules)
    for name in COUNTERS:
        for module_id in (None, *modules):
            mine, rllib = getattr(ours, name)(module_id), getattr(theirs, name)(module_id)
            assert mine == rllib, (name, module_id)
    for name in ("get_num_agent_timesteps", "get_added_agent_timesteps", "__len__"):
        assert getattr(ours, name)() == getattr(theirs, name)(), name
    for module_id in modules:
        assert masses_of(ours, module_id) == theirs.masses(module_id)


@pytest.mark.parametrize(
    ("num_envs", "fragment", "capacity", "lookback"), [(1, 1, 30, 1), (4, 3, 50, 3), (3, 7, 70, 1)]
)
@pytest.mark.parametrize(
    "agents",
    [SHARED, UNEQUAL, pytest.param(IN_TURNS, marks=own_turns_raise)],
    ids=["shared", "unequal", "turns"],
)
def test_counts_after_every_add(num_envs, fragment, capacity, lookback, agents) -> None:
    ours, theirs = pair(capacity)
    runner = play_multi(num_envs, fragment, agents, seed=num_envs, lookback=lookback)
    for i, episodes in enumerate(itertools.islice(runner, 120 // (num_envs * fragment) + 5)):
        ours.add(episodes)
        theirs.add(episodes)
        if i % 8 == 0:
            check_same(ours, theirs)
    check_same(ours, theirs)
    assert ours.get_num_episodes_evicted() > 3


def test_counts_of_samples() -> None:
    ours, theirs = pair(1000)
    for buffer in (ours, theirs):
        buffer.add([make_multi(n, 8, "terminated") for n in range(3)])
        buffer.sample(num_items=5, beta=0.4)
        buffer.sample(num_items=7, beta=0.4, modules_to_sample=["m2"])
    check_same(ours, theirs)
    assert ours.get_sampled_timesteps("m1") == 5
    assert ours.get_sampled_timesteps("m2") == ours.get_sampled_timesteps() == 12


def test_an_episode_longer_than_the_capacity_stays_alone() -> None:
    ours, theirs = pair(10)
    for buffer in (ours, theirs):
        buffer.add([make_multi(0, 25)])  # RLlib's trees have 32 leaves
    check_same(ours, theirs)
    assert ours.get_num_timesteps() == 25
    for buffer in (ours, theirs):
        buffer.add([make_multi(1, 4)])
    check_same(ours, theirs)
    assert ours.get_num_timesteps() == 4


@pytest.mark.parametrize("weight", [0.5, {"m1": 0.5}, {"m1": 0.5, "m2": 0.25, "unseen": 9.0}])
def test_first_priority_by_call_and_by_module(weight) -> None:
    ours = make_buffer()
    ours.add([make_multi(0, 5)])
    ours.sample(num_items=100)
    ours.update_priorities(np.full(100, 3.0), "m2")
    ours.add([make_multi(1, 4), make_multi(2, 3, "", {"a": TWO["a"]})], weight=weight)
    by_module = weight if isinstance(weight, dict) else dict.fromkeys(("m1", "m2"), weight)
    for module_id, most in (("m1", 1.0), ("m2", 3.0)):
        masses = masses_of(ours, module_id)
        new = {mass for (number, _), mass in masses.items() if number >= 10}
        assert new == {by_module.get(module_id, most) ** 0.6}
    assert len(masses_of(ours, "m1")) == 12
    assert len(masses_of(ours, "m2")) == 9


def test_whose_rows_they_are() -> None:
    ours = make_buffer()
    ours.add([make_multi(n, 6, "", UNEQUAL) for n in range(3)])
    held = ours.get_priorities()
    modules = {agent: held["module_id"][held["agent_id"] == agent] for agent in UNEQUAL}
    assert {a: set(m) for a, m in modules.items()} == {
        "a": {"m1"}, "b": {"m2"}, "c": {"m2"}, 7: {"m3"},
    }  # fmt: skip
    assert {a: len(m) for a, m in modules.items()} == {"a": 18, "b": 12, "c": 12, 7: 18}


def test_a_weight_where_a_module_only_loses_episodes() -> None:
    ours = make_buffer(8)
    ours.add([make_multi(0, 6)])
    ours.add([make_multi(1, 6, "", {"a": TWO["a"]})], weight=2.0)
    assert len(masses_of(ours, "m1")) == 6
    assert masses_of(ours, "m2") == {}


@pytest.mark.parametrize("lookback", [1, 3, 5])
@pytest.mark.parametrize("first", [1, 2, 3, 6])
@pytest.mark.parametrize("end", ["", "terminated"])
def test_times_of_agents_that_come_late(lookback, first, end) -> None:
    """Also where the chunk before is shorter than the lookback."""
    agents = {"a": Agent("m1"), "b": Agent("m1", 1, period=3), "c": Agent("m2", 3)}
    player = MultiAgentPlayer(0, agents, lookback=lookback)
    ours = make_buffer()
    player.play(first)
    ours.add(player.cut())
    player.play(9 - first, end)
    ours.add(player.cut())
    times = {agent.owner.agent_id: list(agent.env_t) for agent in ours._ledger.agents.values()}
    assert times.pop("b")[:3] == [1, 4, 7]
    assert times == {"a": list(range(10)), "c": list(range(3, 10))}
