"""The options of the plain replay: weights, initial priorities, short n-step returns."""

import numpy as np
import pytest
from replay_checks import masses_of
from replay_reference import Arrival, NaiveReplay

from rllib_per_acc import PrioritizedReplay
from rllib_per_acc.replay import ReplayBatch


def one_tiny_row(**options: object) -> PrioritizedReplay:
    """Ordinary rows of mass 1 to 10 and one at the floor."""
    replay = PrioritizedReplay(100, alpha=1.0, beta=1.0, seed=0, **options)
    replay.add([Arrival(0, 0, 1, "terminated").chunk()], weight=1e-12)
    for number in range(1, 11):
        replay.add([Arrival(number, 0, 1, "terminated").chunk()], weight=float(number))
    return replay


def numbers_of(batch: ReplayBatch) -> np.ndarray:
    """The number of the episode that each row comes from: the mass of its only step."""
    return batch.observations[:, 0].astype(np.float64)


def test_weights_are_normalised_by_the_buffers_largest() -> None:
    batch = one_tiny_row().sample(200)
    np.testing.assert_allclose(batch.weights, 1e-12 / numbers_of(batch), rtol=1e-12)


def test_weights_normalised_by_the_batch_reach_one() -> None:
    batch = one_tiny_row(weight_normalization="batch").sample(200)
    lowest = numbers_of(batch).min()
    np.testing.assert_allclose(batch.weights, lowest / numbers_of(batch), rtol=1e-12)
    assert batch.weights.max() == 1.0


@pytest.mark.parametrize(("option", "expected"), [("lifetime", 1e6), ("buffer", 2.0)])
def test_an_outlier_that_is_evicted(option: str, expected: float) -> None:
    replay = PrioritizedReplay(15, alpha=1.0, seed=0, max_priority=option)
    replay.add([Arrival(0, 0, 5, "terminated").chunk()])
    replay.sample(1).update(np.array([1e6]))
    for number, weight in ((1, 1.5), (2, 2.0), (3, 1.7)):  # the last evicts the outlier
        replay.add([Arrival(number, 0, 5, "terminated").chunk()], weight=weight)
    assert max(masses_of(replay).values()) == 2.0
    replay.add([Arrival(4, 0, 5, "terminated").chunk()])
    assert {m for (i, _), m in masses_of(replay).items() if i == "episode-4"} == {expected}


@pytest.mark.parametrize("n", [2, 3, 5])
def test_short_returns_at_the_end_of_an_episode(n: int) -> None:
    replay = PrioritizedReplay(100, seed=0, incomplete_n_step="shorten")
    naive = NaiveReplay(100)
    arrivals = [
        Arrival(0, 0, 2, "terminated"),
        Arrival(1, 0, 6, "truncated"),
        Arrival(2, 0, 4),
        Arrival(3, 0, 1, "terminated"),
    ]
    replay.add([arrival.chunk() for arrival in arrivals])
    naive.add(arrivals)
    batch = replay.sample(1000, n_step=n, gamma=0.9)
    lengths = {arrival.number: arrival.length for arrival in arrivals}
    seen = set()
    for i in range(1000):
        number, t = int(batch.observations[i][0]), int(batch.observations[i][1])
        actual = min(n, lengths[number] - t)
        assert batch.n_step[i] == actual
        expected = naive.transition(number, t, actual, 0.9)
        assert batch.rewards[i] == expected["reward"]
        np.testing.assert_array_equal(batch.next_observations[i], expected["next_observation"])
        assert batch.terminateds[i] == expected["terminated"]
        assert batch.truncateds[i] == expected["truncated"]
        seen.add((number, t))
    assert len(seen) == sum(lengths.values())


def test_episodes_too_short_for_n_are_an_error_and_no_endless_search() -> None:
    replay = PrioritizedReplay(100, seed=0)
    replay.add([Arrival(number, 0, 2, "terminated").chunk() for number in range(10)])
    with pytest.raises(ValueError, match="n_step") as error:
        replay.sample(4, n_step=3)
    assert "3" in str(error.value)
    assert len(replay.sample(4, n_step=2).rewards) == 4


def test_one_able_row_of_next_to_no_mass_is_found() -> None:
    """Drawing again until a row fits would not end."""
    replay = PrioritizedReplay(1000, alpha=1.0, seed=0)
    replay.add([Arrival(0, 0, 3, "terminated").chunk()], weight=1e-12)
    replay.add([Arrival(n, 0, 2, "terminated").chunk() for n in range(1, 200)], weight=1.0)
    batch = replay.sample(4, n_step=3)
    np.testing.assert_array_equal(batch.observations[:, :2], [[0, 0]] * 4)


@pytest.mark.parametrize("weights", [[0.5] * 6, [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]])
def test_weight_per_step(weights: list[float]) -> None:
    replay = PrioritizedReplay(100, alpha=0.6, seed=0)
    chunks = [Arrival(0, 0, 4, "terminated").chunk(), Arrival(1, 0, 2).chunk()]
    replay.add(chunks, weight=np.array(weights))
    keys = [("episode-0", t) for t in range(4)] + [("episode-1", t) for t in range(2)]
    assert masses_of(replay) == {k: w**0.6 for k, w in zip(keys, weights, strict=True)}


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_beta_of_the_call_goes_before_the_constructors(beta: float) -> None:
    replay = one_tiny_row()
    batch = replay.sample(50, beta=beta)
    np.testing.assert_allclose(batch.weights, (numbers_of(batch) / 1e-12) ** -beta, rtol=1e-12)


def test_a_min_priority_raises_every_mass() -> None:
    replay = PrioritizedReplay(100, alpha=0.7, min_priority=0.25, seed=0)
    replay.add([Arrival(0, 0, 3, "terminated").chunk()], weight=np.array([0.0, 1.0, 2.0]))
    expected = {("episode-0", t): (t + 0.25) ** 0.7 for t in range(3)}
    assert masses_of(replay) == expected
    batch = replay.sample(1)
    batch.update([-3.0])
    expected["episode-0", int(batch.t[0])] = 3.25**0.7
    assert masses_of(replay) == expected
    assert replay.max_priority == 3.0
    again = PrioritizedReplay(100, alpha=0.5, max_priority="buffer")  # and it goes away again
    again.set_state(replay.get_state())
    for key, mass in expected.items():
        priority = max(mass ** (1 / 0.7) - 0.25, 1e-12)
        assert masses_of(again)[key] == pytest.approx(priority**0.5, rel=1e-6, abs=1e-6)
    assert again.max_priority == pytest.approx(3.0)
