"""Bad input names the argument, what came and what was expected, and changes nothing."""

import numpy as np
import pytest
from replay_checks import check_invariants, check_same
from replay_reference import Arrival, NaiveReplay, make_chunk

from rllib_per_acc import EpisodeChunk, PrioritizedReplay, TransitionStore


@pytest.fixture
def filled() -> tuple[PrioritizedReplay, NaiveReplay]:
    replay, naive = PrioritizedReplay(50, seed=1), NaiveReplay(50)
    arrivals = [Arrival(0, 0, 10, "terminated"), Arrival(1, 0, 10, "truncated"), Arrival(2, 0, 10)]
    replay.add([arrival.chunk() for arrival in arrivals])
    naive.add(arrivals)
    return replay, naive


@pytest.mark.parametrize("capacity", [0, -1, 1.5, "10", True])
@pytest.mark.parametrize("kind", [PrioritizedReplay, TransitionStore])
def test_capacity(kind: type, capacity: object) -> None:
    with pytest.raises((ValueError, TypeError), match="capacity") as error:
        kind(capacity)
    assert repr(capacity) in str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha", -1),
        ("alpha", float("nan")),
        ("alpha", float("inf")),
        ("alpha", "0.6"),
        ("beta", -0.1),
        ("beta", float("nan")),
        ("sampling", "uniform"),
        ("weight_normalization", "row"),
        ("max_priority", "episode"),
        ("incomplete_n_step", "drop"),
        ("device", "tpu"),
        ("seed", -1),
        ("seed", "one"),
    ],
)
def test_constructor(name: str, value: object) -> None:
    with pytest.raises((ValueError, TypeError), match=name) as error:
        PrioritizedReplay(10, **{name: value})
    assert str(value) in str(error.value)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("num_items", {"num_items": 0}),
        ("num_items", {"num_items": -3}),
        ("num_items", {"num_items": 2.5}),
        ("n_step", {"num_items": 2, "n_step": 0}),
        ("n_step", {"num_items": 2, "n_step": -1}),
        ("n_step", {"num_items": 2, "n_step": 1.5}),
        ("n_step", {"num_items": 2, "n_step": (3, 1)}),
        ("n_step", {"num_items": 2, "n_step": (0, 2)}),
        ("n_step", {"num_items": 2, "n_step": (1, 2, 3)}),
        ("n_step", {"num_items": 2, "n_step": "3"}),
        ("gamma", {"num_items": 2, "gamma": float("nan")}),
        ("gamma", {"num_items": 2, "gamma": "0.9"}),
        ("beta", {"num_items": 2, "beta": -1.0}),
        ("beta", {"num_items": 2, "beta": float("nan")}),
    ],
)
def test_sample(filled, name: str, arguments: dict) -> None:
    replay, naive = filled
    before = replay.get_state()
    with pytest.raises((ValueError, TypeError), match=name) as error:
        replay.sample(**arguments)
    got = arguments[name]
    assert any(str(part) in str(error.value) for part in (got, *np.ravel(got)))
    check_same(replay, naive)
    fresh = PrioritizedReplay(50)
    fresh.set_state(before)
    np.testing.assert_array_equal(replay.sample(20).observations, fresh.sample(20).observations)


def test_an_empty_replay_cannot_be_sampled() -> None:
    replay = PrioritizedReplay(10)
    with pytest.raises(ValueError, match="empty"):
        replay.sample(1)
    replay.add([Arrival(0, 0, 1).chunk()])
    assert len(replay.sample(3).rewards) == 3


@pytest.mark.parametrize(
    "chunks",
    [
        [make_chunk(0, 10, 3)],  # finished by a terminated step
        [make_chunk(1, 10, 3)],  # finished by a truncated step
        [make_chunk(2, 12, 3)],  # a gap
        [make_chunk(2, 8, 3)],  # an overlap
        [make_chunk(2, 0, 3)],  # the same again
        [make_chunk(3, 0, 2), make_chunk(2, 12, 3)],  # the second of two
        [make_chunk(3, 0, 2, "terminated"), make_chunk(3, 2, 3)],  # finished in the same call
    ],
)
def test_a_chunk_that_does_not_continue_its_episode(filled, chunks: list[EpisodeChunk]) -> None:
    replay, naive = filled
    with pytest.raises(ValueError, match=f"{chunks[-1].episode_id}"):
        replay.add(chunks)
    check_same(replay, naive)
    check_invariants(replay)
    replay.add([make_chunk(2, 10, 3)])
    naive.add([Arrival(2, 10, 3)])
    check_same(replay, naive)


def chunk_with(**changes: object) -> EpisodeChunk:
    arguments = {
        "episode_id": "new",
        "observations": np.zeros((4, 3), np.float32),
        "actions": np.zeros(3, np.int64),
        "rewards": np.zeros(3),
    }
    return EpisodeChunk(**(arguments | changes))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("observations", {"observations": np.zeros((3, 3), np.float32)}),
        ("observations", {"observations": np.zeros((4, 2), np.float32)}),  # another shape
        ("observations", {"observations": {"a": np.zeros((4, 3), np.float32)}}),  # another form
        ("actions", {"actions": np.zeros(4, np.int64)}),
        ("actions", {"actions": np.zeros((3, 2), np.int64)}),
        ("observations", {"rewards": np.zeros(2)}),  # the rewards say how many steps there are
        ("rewards", {"rewards": np.zeros((3, 2))}),
        ("rewards", {"rewards": np.array(["a", "b", "c"])}),
    ],
)
def test_a_chunk_that_does_not_fit(filled, name: str, changes: dict) -> None:
    """Refused when it is made or when it is added; either way nothing of the call is stored."""
    replay, naive = filled
    with pytest.raises((ValueError, TypeError), match=name):
        replay.add([make_chunk(5, 0, 4), chunk_with(**changes)])
    check_same(replay, naive)
    check_invariants(replay)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), "1", np.ones(2), np.ones(5)])
def test_weight(filled, weight: object) -> None:
    replay, naive = filled
    with pytest.raises((ValueError, TypeError), match="weight"):
        replay.add([make_chunk(3, 0, 4)], weight=weight)
    check_same(replay, naive)
    check_invariants(replay)


@pytest.mark.parametrize(
    "priorities",
    [
        np.ones(7),
        np.ones(9),
        np.ones((8, 1)),
        [1.0] * 7 + [float("nan")],
        [1.0] * 7 + [float("inf")],
        ["1"] * 8,
        [1j] * 8,
        1.0,
    ],
)
def test_priorities(filled, priorities: object) -> None:
    replay, naive = filled
    batch = replay.sample(8)
    with pytest.raises((ValueError, TypeError), match="priorities"):
        batch.update(priorities)
    check_same(replay, naive)
    batch.update(np.ones(8))  # the refused call was not the one update


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError):
        PrioritizedReplay(10, alphas=0.5)
