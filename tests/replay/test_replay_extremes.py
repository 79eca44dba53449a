"""Numbers at the edge of what float64 and int32 hold, and items of objects: refused or right."""

from collections.abc import Callable

import numpy as np
import pytest
from fault_injection import same
from replay_checks import check_invariants, check_same
from replay_reference import Arrival, NaiveReplay, make_chunk

from rllib_per_acc import EpisodeChunk, PrioritizedReplay


def filled(**options: object) -> PrioritizedReplay:
    replay = PrioritizedReplay(10_000, **({"alpha": 1.0, "seed": 1} | options))
    replay.add([make_chunk(0, 0, 8)])
    return replay


@pytest.mark.parametrize(("alpha", "weight"), [(2.0, 1e200), (1.0, 1e306), (100.0, 2000.0)])
def test_a_first_priority_whose_mass_is_too_large(alpha: float, weight: float) -> None:
    replay = filled(alpha=alpha)
    with pytest.raises(ValueError, match=r"weight: got .* at position 2"):
        replay.add([make_chunk(1, 0, 3)], weight=[1.0, 1.0, weight])
    assert len(replay) == 8
    check_invariants(replay)


def test_a_priority_that_fits_a_small_tree_only() -> None:
    """What an update accepts must not stand in the way of more steps."""
    replay = filled()
    batch = replay.sample(4)
    with pytest.raises(ValueError, match=r"priorities: got 1e\+305 at position 1"):
        batch.update([1.0, 1e305, 1.0, 1.0])
    batch.update([1.0, 1e290, 1.0, 1.0])
    replay.add([make_chunk(1, 0, 5000)])
    check_invariants(replay)
    assert np.isfinite(replay.tree.sum())


def test_an_alpha_that_makes_stored_masses_too_large() -> None:
    saved = filled()
    saved.sample(1).update([1e200])
    state = saved.get_state()
    other = filled(alpha=2.0)
    with pytest.raises(ValueError, match=r"state: .*alpha"):
        other.set_state(state)
    assert len(other) == 8
    check_invariants(other)


@pytest.mark.parametrize("t_started", [2**31, -(2**31), 2**40, 1.5, None])
def test_a_time_step_that_no_row_can_hold(t_started: object) -> None:
    replay, naive = PrioritizedReplay(50), NaiveReplay(50)
    chunk = make_chunk(1, 0, 3)
    chunk.t_started = t_started
    with pytest.raises((ValueError, TypeError), match="t_started"):
        replay.add([make_chunk(0, 0, 3), chunk])
    check_same(replay, naive)
    check_invariants(replay)


@pytest.mark.parametrize("flag", [None, "yes", 2, np.array([True, False])])
@pytest.mark.parametrize("name", ["terminated", "truncated"])
def test_an_end_flag_that_is_no_bool(name: str, flag: object) -> None:
    replay, naive = PrioritizedReplay(50), NaiveReplay(50)
    chunk = make_chunk(1, 0, 3)
    setattr(chunk, name, flag)
    with pytest.raises(TypeError, match=name):
        replay.add([make_chunk(0, 0, 3), chunk])
    check_same(replay, naive)
    check_invariants(replay)


@pytest.mark.parametrize("weight", [None, 2.0])
def test_chunks_from_a_generator(weight: float | None) -> None:
    replay = filled()
    replay.add((make_chunk(n, 0, 3) for n in (1, 2)), weight)
    assert len(replay) == 14


@pytest.mark.parametrize(
    ("low", "high", "alpha", "beta"),
    [(1e-12, 1e3, 30.0, 1.0), (1e-12, 1e3, 30.0, 0.4), (1e-100, 1e100, 1.0, 5.0)],
)
@pytest.mark.parametrize("normalization", ["buffer", "batch"])
def test_weights_of_masses_far_apart(
    low: float, high: float, alpha: float, beta: float, normalization: str
) -> None:
    """The highest weight alone would be past float64."""
    replay = PrioritizedReplay(100, alpha=alpha, seed=0, weight_normalization=normalization)
    replay.add([make_chunk(0, 0, 8)], weight=[low] + 7 * [high])
    weights = replay.sample(50, beta=beta).weights
    assert np.isfinite(weights).all()
    expected = 1.0 if normalization == "batch" else 0.0
    np.testing.assert_allclose(weights, expected, atol=1e-30)


def test_the_weight_of_the_least_mass_is_one_wherever_it_lies() -> None:
    replay = PrioritizedReplay(100, alpha=1.0, seed=0)
    replay.add([make_chunk(0, 0, 2)], weight=[1.0, 3.0])
    np.testing.assert_allclose(
        np.unique(replay.sample(50, beta=2000.0).weights), [3.0**-2000.0, 1.0]
    )


def test_a_first_priority_of_zero_is_restored() -> None:
    replay = PrioritizedReplay(50, max_priority="buffer", seed=1)
    replay.add([make_chunk(0, 0, 5)], weight=0.0)
    other = PrioritizedReplay(50, max_priority="buffer")
    other.set_state(replay.get_state())
    assert len(other) == 5
    assert other.max_priority == replay.max_priority


@pytest.mark.parametrize("n_step", [2**31, 10**30, (1, 2**40), (1, 2**63)])
@pytest.mark.parametrize("incomplete", ["resample", "shorten"])
def test_more_steps_than_any_episode_can_have(n_step: object, incomplete: str) -> None:
    with pytest.raises(ValueError, match=r"n_step: got .*2147483647"):
        filled().sample(4, n_step=n_step, incomplete_n_step=incomplete)


def test_an_unknown_way_of_incomplete_steps() -> None:
    with pytest.raises(ValueError, match="incomplete_n_step: got 'drop'"):
        filled().sample(4, incomplete_n_step="drop")


def test_an_alpha_past_float64() -> None:
    with pytest.raises(ValueError, match="alpha"):
        PrioritizedReplay(10, alpha=10**400)


def chunk_of(number: int, t: int, observations: list) -> EpisodeChunk:
    chunk = Arrival(number, t, len(observations) - 1).chunk()
    chunk.observations = observations
    return chunk


@pytest.mark.parametrize("item", [np.zeros, lambda n: [0.0] * n, lambda n: np.zeros((n, 2))])
@pytest.mark.parametrize("at_once", [True, False])
def test_observations_of_various_lengths_that_are_equal_for_a_while(
    item: Callable, at_once: bool
) -> None:
    replay = PrioritizedReplay(50, seed=1)
    chunks = [
        chunk_of(0, 0, [item(1), item(2), item(3)]),
        chunk_of(0, 2, [item(3), item(3)]),
        chunk_of(1, 0, [item(2), item(2), item(2)]),
    ]
    for calls in [chunks] if at_once else [[chunk] for chunk in chunks]:
        replay.add(calls)
    batch = replay.sample(200)
    assert {len(observation) for observation in batch.observations} == {1, 2, 3}
    with pytest.raises(ValueError, match="first observation"):
        replay.add([chunk_of(0, 3, [item(4), item(1)])])


def test_an_episode_takes_room_when_its_first_step_comes() -> None:
    replay = PrioritizedReplay(10, seed=1)
    replay.add([make_chunk(0, 0, 6)])
    before = replay.get_state()["arrays"], replay.info()
    for number in range(1, 100):
        replay.add([make_chunk(number, 0, 0)])
    assert same((replay.get_state()["arrays"], replay.info()), before)
    replay.add([make_chunk(1, 0, 0), make_chunk(1, 0, 3)])  # RLlib repeats the observation
    replay.add([make_chunk(2, 0, 5, "terminated")])
    check_invariants(replay)
    info = replay.info()
    assert (info["steps"], info["episodes"], info["episodes_evicted"]) == (8, 2, 1)
    assert list(dict.fromkeys(replay.get_priorities()["episode_id"])) == ["episode-1", "episode-2"]
