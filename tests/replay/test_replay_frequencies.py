"""How often each row is drawn against P(i) = mass / total, with fixed seeds."""

import numpy as np
import pytest
from replay_checks import masses_of
from replay_reference import Arrival, NaiveReplay
from scipy import stats

from rllib_per_acc import PrioritizedReplay

ARRIVALS = [
    Arrival(0, 0, 7, "terminated"),
    Arrival(1, 0, 2, "truncated"),  # too short for three steps
    Arrival(2, 0, 13),
    Arrival(3, 0, 1, "terminated"),
    Arrival(4, 0, 9, "truncated"),
]


def uneven_replay(sampling: str, alpha: float) -> tuple[PrioritizedReplay, NaiveReplay]:
    """Five episodes whose steps have masses over three orders of magnitude."""
    replay = PrioritizedReplay(100, alpha=alpha, seed=11, sampling=sampling)
    naive = NaiveReplay(100, alpha)
    replay.add([arrival.chunk() for arrival in ARRIVALS])
    naive.add(ARRIVALS)
    rng = np.random.default_rng(5)
    batch = replay.sample(2000)
    steps = [naive.find(int(o[0]), int(o[1])) for o in batch.observations]
    wanted = {(s.number, s.t): 10.0 ** rng.uniform(-2, 1) for s in naive.steps()}
    found = [e.steps[place] for e, place in steps]
    priorities = [wanted[s.number, s.t] for s in found]
    batch.update(np.array(priorities))
    naive.update(found, priorities)
    assert masses_of(replay) == {(f"episode-{s.number}", s.t): s.mass for s in naive.steps()}
    return replay, naive


@pytest.mark.parametrize("sampling", ["proportional", "stratified"])
@pytest.mark.parametrize("alpha", [0.6, 1.0])
@pytest.mark.parametrize("n", [1, 3])
def test_rows_are_drawn_as_often_as_their_mass_says(sampling: str, alpha: float, n: int) -> None:
    replay, naive = uneven_replay(sampling, alpha)
    able = [s for s in naive.steps() if naive.can_serve(s.number, s.t, n)]
    place = {(s.number, s.t): i for i, s in enumerate(able)}
    counts = np.zeros(len(able))
    for _ in range(100):
        for o in replay.sample(500, n_step=n).observations:
            counts[place[int(o[0]), int(o[1])]] += 1
    masses = np.array([s.mass for s in able])
    expected = counts.sum() * masses / masses.sum()
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_uniform_when_alpha_is_zero() -> None:
    replay, naive = uneven_replay("proportional", 0.0)
    counts = np.zeros(len(naive.steps()))
    place = {(s.number, s.t): i for i, s in enumerate(naive.steps())}
    for o in replay.sample(30_000).observations:
        counts[place[int(o[0]), int(o[1])]] += 1
    assert stats.chisquare(counts).pvalue > 1e-3
    np.testing.assert_array_equal(replay.sample(50).weights, 1.0)


def test_stratified_draws_once_from_each_of_equal_shares() -> None:
    replay, naive = uneven_replay("stratified", 1.0)
    total = sum(s.mass for s in naive.steps())
    for num_items in (1, 7, 64, 500):
        counts = dict.fromkeys(((s.number, s.t) for s in naive.steps()), 0)
        for o in replay.sample(num_items).observations:
            counts[int(o[0]), int(o[1])] += 1
        for step in naive.steps():
            share = num_items * step.mass / total
            assert abs(counts[step.number, step.t] - share) < 2


def test_a_row_whose_mass_is_nearly_nothing_is_nearly_never_drawn() -> None:
    replay = PrioritizedReplay(100, alpha=1.0, seed=3)
    replay.add([Arrival(0, 0, 10).chunk()], weight=1.0)
    replay.add([Arrival(1, 0, 10).chunk()], weight=1e-12)
    assert (replay.sample(100_000).observations[:, 0] == 0).all()


@pytest.mark.parametrize("sampling", ["proportional", "stratified"])
def test_the_same_seed_draws_the_same(sampling: str) -> None:
    def run(seed: int) -> list[np.ndarray]:
        replay = PrioritizedReplay(50, seed=seed, sampling=sampling)
        drawn = []
        for number in range(20):
            replay.add([Arrival(number, 0, 7, "terminated").chunk()])
            batch = replay.sample(32, n_step=(1, 3))
            batch.update(np.abs(batch.rewards))
            drawn.append(batch.observations)
        return drawn

    np.testing.assert_array_equal(run(5), run(5))
    assert not np.array_equal(run(5), run(6))
