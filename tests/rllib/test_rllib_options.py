"""The options of `replay_buffer_config`, seen through RLlib's interface."""

import numpy as np
import pytest
from rllib_buffers import masses_of
from rllib_episodes import ENDS, make_episode, mixed_episodes
from rllib_oracle import RLlibOracle, read_rows
from scipy import stats

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

FORMATS = pytest.mark.parametrize("sample_format", ["rows", "episodes"])


def make_buffer(episodes: list, **options) -> AccPrioritizedEpisodeReplayBuffer:
    buffer = AccPrioritizedEpisodeReplayBuffer(
        **({"capacity": 1000, "beta": 0.4, "num_shards": 0, "seed": 1} | options)
    )
    buffer.add(episodes)
    return buffer


@FORMATS
@pytest.mark.parametrize(("option", "highest"), [("buffer", 1e-12), ("batch", 1.0)])
def test_weight_normalization(sample_format: str, option: str, highest: float) -> None:
    buffer = make_buffer([], alpha=1.0, weight_normalization=option, sample_format=sample_format)
    buffer.add([make_episode(0, 1, "terminated")], weight=1e-12)
    buffer.add([make_episode(1, 20, "terminated")], weight=1.0)
    rows = read_rows(buffer.sample(num_items=64, beta=1.0))
    assert {row.step[0] for row in rows} == {1}
    for row in rows:
        assert row.weight == pytest.approx(highest, rel=1e-12)


@pytest.mark.parametrize(("option", "expected"), [("lifetime", 1e6), ("buffer", 2.0)])
def test_max_priority(option: str, expected: float) -> None:
    buffer = make_buffer([], capacity=15, alpha=1.0, max_priority=option)
    buffer.add([make_episode(0, 5, "terminated")])
    buffer.sample(num_items=1)
    buffer.update_priorities(np.array([1e6]))
    for number, weight in ((1, 1.5), (2, 2.0), (3, 1.7)):  # the last evicts the outlier
        buffer.add([make_episode(number, 5, "terminated")], weight=weight)
    buffer.add([make_episode(4, 5)])
    assert {mass for (n, _), mass in masses_of(buffer).items() if n == 4} == {expected}


@FORMATS
def test_incomplete_n_step_shorten(sample_format: str) -> None:
    buffer = make_buffer(mixed_episodes(), incomplete_n_step="shorten", sample_format=sample_format)
    theirs = RLlibOracle(1000)
    theirs.add(mixed_episodes())
    lengths = (5, 1, 12, 3, 2, 8, 1, 4)
    steps = [(n, t) for n, length in enumerate(lengths) for t in range(length)]
    n_steps = [min(4, lengths[n] - t) for n, t in steps]
    rllib = read_rows(theirs.sample_steps(steps, n_steps, gamma=0.9, beta=0.4))
    rows = read_rows(buffer.sample(num_items=1500, n_step=4, gamma=0.9))
    assert {row.transition for row in rows} == {row.transition for row in rllib}


@FORMATS
def test_stratified(sample_format: str) -> None:
    """One draw from each of equal shares; drawn one by one, counts would stray further."""
    buffer = make_buffer(
        [make_episode(0, 50, "terminated")], sampling="stratified", sample_format=sample_format
    )
    for _ in range(20):
        rows = read_rows(buffer.sample(num_items=100))
        counts = np.bincount([row.step[1] for row in rows], minlength=50)
        assert counts.min() >= 1
        assert counts.max() <= 3


@pytest.mark.parametrize(
    ("sample_format", "n", "sampling"),
    [("rows", 1, "proportional"), ("rows", 3, "stratified"), ("episodes", 3, "proportional")],
)
def test_frequencies(sample_format: str, n: int, sampling: str) -> None:
    episodes = [make_episode(k, length, ENDS[k % 2]) for k, length in enumerate((6, 2, 9, 1, 4))]
    buffer = make_buffer([], alpha=0.6, sampling=sampling, sample_format=sample_format)
    theirs = RLlibOracle(1000, alpha=0.6)
    for k, episode in enumerate(episodes):
        buffer.add([episode], weight=10.0 ** (k - 3))
        theirs.add([episode], weight=10.0 ** (k - 3))
    able = theirs.able_steps(n)
    counts = dict.fromkeys(able, 0)
    for _ in range(4):
        for row in read_rows(buffer.sample(num_items=2000, n_step=n)):
            counts[row.step] += 1
    masses = np.array([theirs.masses()[step] for step in able])
    expected = masses / masses.sum() * 8000
    assert stats.chisquare(list(counts.values()), expected).pvalue > 1e-3


@FORMATS
def test_the_same_seed_gives_the_same_run(sample_format: str) -> None:
    def run(seed: int) -> list:
        buffer = make_buffer([], capacity=60, seed=seed, sample_format=sample_format)
        seen = []
        for number in range(15):
            buffer.add([make_episode(number, 9, ENDS[number % 2])])
            rows = read_rows(buffer.sample(num_items=20, n_step=(1, 3), gamma=0.9))
            buffer.update_priorities(np.abs([row.reward for row in rows]))
            seen.append(rows)
        return [*seen, masses_of(buffer)]

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_both_formats_draw_the_same() -> None:
    drawn = [
        read_rows(make_buffer(mixed_episodes(), sample_format=f).sample(num_items=64, n_step=2))
        for f in ("rows", "episodes")
    ]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(("added", "beta"), [(0, 0.4), (50, 0.7), (100, 1.0), (150, 1.0)])
def test_a_schedule_of_beta_over_the_steps_added(added: int, beta: float) -> None:
    schedule = [[10, 0.4], [110, 1.0]]
    buffer = make_buffer([], alpha=1.0, beta=schedule)
    buffer.add([make_episode(0, 5, "terminated")], weight=1.0)
    buffer.add([make_episode(1, 5, "terminated")], weight=4.0)
    if added:
        buffer.add([make_episode(2, added, "terminated")], weight=4.0)
    for given in (None, schedule):  # DQN passes on what the config says
        for row in read_rows(buffer.sample(num_items=50, beta=given)):
            mass = 1.0 if row.step[0] == 0 else 4.0
            assert row.weight == pytest.approx(mass**-beta, rel=1e-12)
