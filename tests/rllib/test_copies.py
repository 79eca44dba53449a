"""Copies of all kinds, and what comes out of a pickle, are independent; or are refused by name."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from multi_agent_episodes import make_multi
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from rllib_episodes import make_episode, mixed_episodes

from rllib_per_acc import (
    AccMultiAgentPrioritizedEpisodeReplayBuffer,
    AccMultiAgentPrioritizedReplayBuffer,
    AccPrioritizedEpisodeReplayBuffer,
    AccPrioritizedReplayBuffer,
    PrioritizedReplay,
    TransitionReplay,
)
from rllib_per_acc.replay_batch import ReplayBatch
from rllib_per_acc.rllib.episode_chunks import chunk_of

WAYS: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def old_steps(first: int = 0) -> SampleBatch:
    values = np.arange(first, first + 6, dtype=np.float64)
    return SampleBatch({
        "obs": values, "rewards": values, "eps_id": np.full(6, first), "unroll_id": np.full(6, 0),
    })  # fmt: skip


def add_transitions(replay: TransitionReplay, first: int) -> None:
    values = np.arange(first, first + 6, dtype=np.float64)
    replay.add_batch(values, values, values, values + 1, values < 0)


KINDS: dict[str, tuple[Callable[..., Any], Callable[[Any, int], None], Callable[[Any], int]]] = {
    "replay": (
        lambda **o: PrioritizedReplay(1000, seed=1, **o),
        lambda one, n: one.add([chunk_of(make_episode(n, 6))]),
        len,
    ),
    "transition replay": (lambda **o: TransitionReplay(1000, seed=1), add_transitions, len),
    "buffer": (
        lambda **o: AccPrioritizedEpisodeReplayBuffer(1000, seed=1, **{"num_shards": 0} | o),
        lambda one, n: one.add(make_episode(n, 6)),
        lambda one: one.get_num_timesteps(),
    ),
    "multi-agent buffer": (
        lambda **o: AccMultiAgentPrioritizedEpisodeReplayBuffer(
            1000, seed=1, **{"num_shards": 0} | o
        ),
        lambda one, n: one.add([make_multi(n, 6)]),
        lambda one: one.get_num_timesteps(),
    ),
    "old stack": (
        lambda **o: AccPrioritizedReplayBuffer(1000, seed=1, **{"num_shards": 0} | o),
        lambda one, n: one.add(old_steps(n)),
        len,
    ),
    "old stack, multi-agent": (
        lambda **o: AccMultiAgentPrioritizedReplayBuffer(1000, seed=1, **{"num_shards": 0} | o),
        lambda one, n: one.add(old_steps(n)),
        len,
    ),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def drawn(one: Any) -> bytes:
    """The next sample as bytes."""
    sample = one.sample(15)
    if isinstance(sample, list):  # of episodes or row groups; multi-agent ones hold groups
        sample = {str(i): episode.__reduce__() for i, episode in enumerate(sample)}
    elif isinstance(sample, MultiAgentBatch):
        sample = sample.policy_batches
    elif isinstance(sample, ReplayBatch):
        sample = sample.columns
    return repr(_plain(sample)).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict | SampleBatch):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if hasattr(value, "_columns"):
        return _plain(value._columns)
    return value if isinstance(value, int | float | bool) else None


@EVERY_WAY
@EVERY_KIND
def test_a_copy_goes_on_alone(kind: str, way: Callable[[Any], Any]) -> None:
    make, add, size = KINDS[kind]
    one = make()
    for n in range(3):
        add(one, n)
    one.sample(5)
    copied = way(one)
    again = copy.deepcopy(one)
    num_steps = size(one)
    assert type(copied) is type(one)
    assert size(copied) == num_steps > 0
    expected = drawn(one)
    assert drawn(copied) == expected  # the generator too, and neither moves the other's on
    assert drawn(way(one)) != expected  # the next one is another
    add(copied, 7)
    assert (size(one), size(copied)) == (num_steps, num_steps + 6)
    add(one, 8)
    add(one, 9)
    assert (size(one), size(copied), size(again)) == (num_steps + 12, num_steps + 6, num_steps)
    assert drawn(again) == expected


@pytest.mark.parametrize("way", [WAYS["deepcopy"], WAYS["pickle"]], ids=["deepcopy", "pickle"])
def test_a_batch_takes_a_copy_of_its_replay_along(way: Callable[[Any], Any]) -> None:
    replay = PrioritizedReplay(1000, seed=1)
    replay.add([chunk_of(episode) for episode in mixed_episodes()])
    batch = replay.sample(10)
    copied_replay, copied = way((replay, batch))
    before = replay.get_priorities()["mass"].tolist()
    copied.update(np.full(10, 9.0))
    assert replay.get_priorities()["mass"].tolist() == before
    assert copied_replay.get_priorities()["mass"].max() == pytest.approx(9.0**0.6)
    batch.update(np.full(10, 5.0))  # its own update is not spent
    assert replay.get_priorities()["mass"].max() == pytest.approx(5.0**0.6)


def test_a_buffer_copied_between_sample_and_update_can_go_on() -> None:
    buffer = AccPrioritizedEpisodeReplayBuffer(1000, num_shards=0, seed=1)
    buffer.add(mixed_episodes())
    buffer.sample(num_items=10)
    copied = copy.deepcopy(buffer)
    copied.update_priorities(np.full(10, 9.0))
    assert copied.get_priorities()["mass"].max() == pytest.approx(9.0)
    assert buffer.get_priorities()["mass"].max() == 1.0
    buffer.update_priorities(np.full(10, 5.0))


@pytest.mark.usefixtures("ray_session")
@EVERY_WAY
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "replay" not in kind])
def test_rows_in_actors_are_not_copied(kind: str, way: Callable[[Any], Any]) -> None:
    make, add, size = KINDS[kind]
    one = make(num_shards=1)
    add(one, 0)
    num_steps = size(one)
    with pytest.raises(TypeError, match=r"cannot be copied or pickled.*get_state\(\).*set_state"):
        way(one)
    assert size(one) == num_steps
    other = make(num_shards=0)
    add(other, 0)
    other.set_state(one.get_state())  # what the message names works
    assert size(other) == num_steps
