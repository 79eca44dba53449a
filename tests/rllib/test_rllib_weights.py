"""Importance weights are RLlib's for the same row and the same masses."""

import numpy as np
import pytest
from rllib_episodes import mixed_episodes
from rllib_oracle import RLlibOracle, read_rows

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer


def same_priorities(alpha: float, sample_format: str, **options) -> tuple:
    """Both buffers with the same uneven priorities."""
    ours = AccPrioritizedEpisodeReplayBuffer(
        100, alpha=alpha, num_shards=0, seed=1, sample_format=sample_format, **options
    )
    theirs = RLlibOracle(100, alpha=alpha)
    ours.add(mixed_episodes())
    theirs.add(mixed_episodes())
    wanted = {s: 10.0 ** (-2 + i / 9) for i, s in enumerate(theirs.able_steps(1))}
    steps = [row.step for row in read_rows(ours.sample(num_items=1000, beta=0.4))]
    assert set(steps) == set(wanted)
    ours.update_priorities(np.array([wanted[step] for step in steps]))
    theirs.set_priorities(wanted)
    return ours, theirs


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights(sample_format: str, alpha: float, beta: float) -> None:
    ours, theirs = same_priorities(alpha, sample_format)
    expected = {row.step: row.weight for row in theirs.every_row(1, beta=beta)}
    rows = read_rows(ours.sample(num_items=500, beta=beta))
    for row in rows:
        assert row.weight == pytest.approx(expected[row.step], rel=1e-12)
    assert max(row.weight for row in rows) <= 1.0 + 1e-12


def test_weights_of_long_steps_are_the_same() -> None:
    """RLlib's P(i) is over all rows, also when some cannot serve n steps."""
    ours, theirs = same_priorities(0.6, "rows")
    expected = {row.step: row.weight for row in theirs.every_row(3, beta=0.7)}
    for row in read_rows(ours.sample(num_items=500, n_step=3, beta=0.7)):
        assert row.weight == pytest.approx(expected[row.step], rel=1e-12)


def test_beta_none_takes_the_constructors() -> None:
    ours, theirs = same_priorities(0.6, "rows", beta=0.8)
    expected = {row.step: row.weight for row in theirs.every_row(1, beta=0.8)}
    for row in read_rows(ours.sample(num_items=100, beta=None)):
        assert row.weight == pytest.approx(expected[row.step], rel=1e-12)
