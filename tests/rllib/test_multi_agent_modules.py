"""Modules come and go while a buffer is in use, and take what belongs to them with them."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from multi_agent_buffers import TYPE, make_buffer
from multi_agent_episodes import SHARED, TWO, Agent, make_multi, play_multi
from multi_agent_oracle import read_modules
from processes import comes_true, runs
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.envs.classes.multi_agent import MultiAgentCartPole

from rllib_per_acc import enable
from rllib_per_acc.rllib import multi_agent_buffer


def counts(buffer: Any) -> dict[str, int]:
    return {
        "episodes": buffer.get_num_episodes(),
        "evicted": buffer.get_num_episodes_evicted(),
        "steps": buffer.get_num_timesteps(),
        "added": buffer.get_added_timesteps(),
        "agent steps": buffer.get_num_agent_timesteps(),
        "rows": len(buffer.get_priorities()["t"]),
    }


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_a_module_takes_its_rows_with_it(sample_format: str) -> None:
    buffer = make_buffer(sample_format=sample_format)
    buffer.add([make_multi(n, 5, "terminated", SHARED) for n in range(3)])
    buffer.sample(num_items=4)
    buffer.remove_module("m2")
    assert buffer.get_module_ids() == ["m1"]
    assert counts(buffer) == {
        "episodes": 3, "evicted": 0, "steps": 15, "added": 15, "agent steps": 30, "rows": 30,
    }  # fmt: skip
    assert {"a", "b"} == set(buffer.get_priorities()["agent_id"])
    buffer.update_priorities(np.ones(4), "m1")
    with pytest.raises(RuntimeError, match="of module 'm2' without a sample"):
        buffer.update_priorities(np.ones(4), "m2")
    assert set(read_modules(buffer.sample(num_items=4))) == {"m1"}
    assert set(buffer.sample(num_items=4, replay_mode="synchronized")) == {"m1"}
    with pytest.raises(ValueError, match=r"got 'm2', expected some of \['m1'\]"):
        buffer.sample(num_items=4, modules_to_sample=["m2"])
    buffer.remove_module("m2")
    buffer.remove_module("m1")
    assert counts(buffer) == {
        "episodes": 0, "evicted": 3, "steps": 0, "added": 15, "agent steps": 0, "rows": 0,
    }  # fmt: skip
    metrics = buffer.get_metrics()
    assert metrics["num_episodes_evicted_lifetime"].peek() == 3
    assert metrics["num_env_steps_evicted_lifetime"].peek() == 15
    assert sum(v.peek() for v in metrics["num_agent_steps_evicted_lifetime"].values()) == 45


def test_a_module_of_the_same_name_starts_anew() -> None:
    buffer, fresh = make_buffer(), make_buffer()
    buffer.add([make_multi(n, 5, "terminated", TWO) for n in range(3)], weight={"m2": 9.0})
    buffer.remove_module("m2")
    for one in (buffer, fresh):
        one.add([make_multi(7, 5, "terminated", TWO)])
    assert buffer.get_priorities("m2")["mass"].tolist() == [1.0] * 5
    kept, new = buffer.sample(num_items=50), fresh.sample(num_items=50)
    assert read_modules(kept)["m2"] == read_modules(new)["m2"]


def test_episodes_go_on_and_are_evicted_after_a_module_has_gone() -> None:
    buffer = make_buffer(60)
    agents = {"a": Agent("m1"), "b": Agent("m2"), "c": Agent("m2", arrives=2)}
    for i, episodes in enumerate(itertools.islice(play_multi(3, 4, agents, seed=1), 60)):
        buffer.add(episodes)
        if i % 7 == 3:
            buffer.remove_module("m2")
        held = buffer.get_priorities()
        assert len(held["t"]) == buffer.get_num_agent_timesteps()
        assert buffer.get_num_timesteps() <= 60
        stored = sum(buffer.get_num_timesteps(m) for m in buffer.get_module_ids())
        assert stored == buffer.get_num_agent_timesteps()
        sample = read_modules(buffer.sample(num_items=4))
        for module_id in sample:
            buffer.update_priorities(np.ones(4), module_id)
    evicted = buffer.get_metrics()["num_env_steps_evicted_lifetime"].peek()
    assert buffer.get_added_timesteps() == buffer.get_num_timesteps() + evicted
    other = make_buffer(60)
    other.set_state(buffer.get_state())
    assert counts(other) == counts(buffer)


def test_a_refused_add_starts_no_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    start = multi_agent_buffer.replay_client

    def count(*arguments: Any) -> Any:
        started.append(arguments)
        return start(*arguments)

    monkeypatch.setattr(multi_agent_buffer, "replay_client", count)
    buffer = make_buffer()
    with pytest.raises(ValueError, match="weight: got -1"):
        buffer.add([make_multi(0, 5, "terminated", TWO)], weight={"m1": 2.0, "m2": -1.0})
    assert started == []
    assert buffer.get_module_ids() == []
    buffer.add([make_multi(0, 5, "terminated", TWO)], weight={"m1": 2.0})
    assert len(started) == 2
    assert set(buffer.get_priorities("m1")["mass"]) == {2.0**0.6}


def mapping(*modules: str) -> Callable[..., str]:
    return lambda agent_id, *_, **__: modules[agent_id % len(modules)]


@pytest.fixture
def build(ray_session: None) -> Iterator[Callable[..., Algorithm]]:
    built = []

    def build(enabled: bool = False, num_learners: int = 0, **options: Any) -> Algorithm:
        config = (
            DQNConfig()
            .environment(MultiAgentCartPole, env_config={"num_agents": 2})
            .env_runners(num_env_runners=0, rollout_fragment_length=32)
            .learners(num_learners=num_learners)
            .rl_module(model_config={"fcnet_hiddens": [8]})
            .reporting(min_sample_timesteps_per_iteration=32, min_time_s_per_iteration=0)
            .multi_agent(policies={"main"}, policy_mapping_fn=mapping("main"))
            .training(
                num_steps_sampled_before_learning_starts=32,
                replay_buffer_config={"type": TYPE, "num_shards": 0} | options,
            )
        )
        built.append((enable(config) if enabled else config).build_algo())
        return built[-1]

    yield build
    for algorithm in built:
        algorithm.stop()


def add_module(algorithm: Algorithm, name: str, **options: Any) -> None:
    algorithm.add_module(
        name,
        RLModuleSpec.from_module(algorithm.env_runner.module["main"]),
        new_agent_to_module_mapping_fn=mapping("main", name),
        **{"new_should_module_be_updated": ["main", name]} | options,
    )


def remove_module(algorithm: Algorithm, name: str) -> None:
    algorithm.remove_module(
        name,
        new_agent_to_module_mapping_fn=mapping("main"),
        new_should_module_be_updated=["main"],
    )


def train_with(algorithm: Algorithm, name: str) -> None:
    """Trains until steps of a module have come: episodes under way go on with those they have."""
    for _ in range(50):
        algorithm.train()
        if name in algorithm.local_replay_buffer.get_module_ids():
            return
    raise AssertionError(f"no steps of {name} have come")


def updated(algorithm: Algorithm) -> bool:
    """Whether the main module's rows have got priorities."""
    masses = algorithm.local_replay_buffer.get_priorities("main")["mass"]
    return bool((masses != masses[0]).any())


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("enabled", "options"),
    [
        (False, {}),
        (True, {}),
        pytest.param(False, {"sample_format": "episodes"}, marks=pytest.mark.slow),
        pytest.param(True, {"num_shards": 2}, marks=pytest.mark.slow),
        pytest.param(False, {"num_shards": 1, "prefetch": 1}, marks=pytest.mark.slow),
        pytest.param(True, {"num_learners": 2, "num_shards": 1}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_training_goes_on(build: Callable[..., Algorithm], enabled: bool, options: Any) -> None:
    algorithm = build(enabled, **options)
    buffer = algorithm.local_replay_buffer
    algorithm.train()
    add_module(algorithm, "opponent")
    train_with(algorithm, "opponent")
    assert buffer.get_module_ids() == ["main", "opponent"]
    pids = [info["pid"] for info in buffer.get_shard_info() if info["module_id"] == "opponent"]
    remove_module(algorithm, "opponent")
    if enabled:
        assert buffer.get_module_ids() == ["main"]
    for _ in range(2):
        algorithm.train()
        assert buffer.get_module_ids() == ["main"]
    if options.get("num_shards"):
        assert comes_true(lambda: not any(map(runs, pids)))
    add_module(algorithm, "opponent")
    train_with(algorithm, "opponent")
    old = set(buffer.get_priorities("opponent")["episode_id"])
    remove_module(algorithm, "opponent")
    add_module(algorithm, "opponent")
    train_with(algorithm, "opponent")
    new = set(buffer.get_priorities("opponent")["episode_id"])
    assert old
    assert new
    assert not old & new
    assert updated(algorithm)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("enabled", [False, True])
def test_a_module_that_no_learner_has(build: Callable[..., Algorithm], enabled: bool) -> None:
    algorithm = build(enabled)
    add_module(algorithm, "frozen", add_to_learners=False, new_should_module_be_updated=["main"])
    train_with(algorithm, "frozen")
    algorithm.train()
    assert algorithm.local_replay_buffer.get_module_ids() == ["main", "frozen"]
    assert updated(algorithm)
