"""`update_priorities` means the rows of the last sample, once, and nothing that is gone since."""

import numpy as np
import pytest
from ray.rllib.utils.replay_buffers.utils import update_priorities_in_episode_replay_buffer
from rllib_buffers import masses_of
from rllib_episodes import make_episode, mixed_episodes
from rllib_oracle import RLlibOracle, read_rows

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

FORMATS = pytest.mark.parametrize("sample_format", ["rows", "episodes"])


def make_buffer(sample_format: str, capacity: int = 20, **options):
    buffer = AccPrioritizedEpisodeReplayBuffer(
        capacity, alpha=0.6, beta=0.4, num_shards=0, seed=1, sample_format=sample_format, **options
    )
    for number in range(2):
        buffer.add([make_episode(number, 10, "terminated")])
    return buffer


@FORMATS
@pytest.mark.parametrize("new_steps", [3, 10], ids=["freed slots left", "freed slots reused"])
def test_rows_evicted_since_the_sample(sample_format: str, new_steps: int) -> None:
    buffer = make_buffer(sample_format)
    steps = [row.step for row in read_rows(buffer.sample(num_items=20))]
    buffer.add([make_episode(2, new_steps, "terminated")])
    buffer.update_priorities(np.linspace(2.0, 3.0, 20))
    masses = masses_of(buffer)
    assert set(masses) == {(1, t) for t in range(10)} | {(2, t) for t in range(new_steps)}
    assert {masses[2, t] for t in range(new_steps)} == {1.0}
    given = dict(zip(steps, np.linspace(2.0, 3.0, 20).tolist(), strict=True))  # the last counts
    for t in range(10):
        assert masses[1, t] == (given[1, t] ** 0.6 if (1, t) in given else 1.0)
    for _ in range(50):
        rows = read_rows(buffer.sample(num_items=20))
        assert {row.step[0] for row in rows} <= {1, 2}


@FORMATS
def test_a_second_update_is_refused(sample_format: str) -> None:
    buffer = make_buffer(sample_format)
    buffer.sample(num_items=8)
    buffer.update_priorities(np.full(8, 2.0))
    before = masses_of(buffer)
    with pytest.raises((ValueError, RuntimeError), match="sample"):
        buffer.update_priorities(np.full(8, 3.0))
    assert masses_of(buffer) == before


@FORMATS
def test_an_update_before_any_sample_is_refused(sample_format: str) -> None:
    buffer = make_buffer(sample_format)
    with pytest.raises((ValueError, RuntimeError), match="sample"):
        buffer.update_priorities(np.ones(4))


@FORMATS
@pytest.mark.parametrize("n", [0, 7, 9, 16])
def test_a_wrong_number_is_refused_and_the_right_one_still_taken(
    sample_format: str, n: int
) -> None:
    buffer = make_buffer(sample_format)
    steps = [row.step for row in read_rows(buffer.sample(num_items=8))]
    before = masses_of(buffer)
    with pytest.raises(ValueError, match="8") as error:
        buffer.update_priorities(np.full(n, 2.0))
    assert str(n) in str(error.value)
    assert masses_of(buffer) == before
    buffer.update_priorities(np.full(8, 2.0))
    assert all(masses_of(buffer)[step] == 2.0**0.6 for step in steps)


@FORMATS
def test_two_samples_and_one_update_mean_the_last(sample_format: str) -> None:
    buffer = make_buffer(sample_format)
    buffer.sample(num_items=5)
    steps = {row.step for row in read_rows(buffer.sample(num_items=8))}
    buffer.update_priorities(np.full(8, 2.0))
    assert {key for key, mass in masses_of(buffer).items() if mass != 1.0} == steps


@FORMATS
@pytest.mark.parametrize(
    "errors", [[np.nan] + [1.0] * 7, [1.0] * 7 + [np.inf], ["a"] * 8, np.ones((8, 1)), None]
)
def test_bad_td_errors(sample_format: str, errors: object) -> None:
    buffer = make_buffer(sample_format)
    buffer.sample(num_items=8)
    before = masses_of(buffer)
    with pytest.raises((ValueError, TypeError)):
        buffer.update_priorities(errors)
    assert masses_of(buffer) == before


@FORMATS
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_masses_are_rllibs(sample_format: str, dtype: type) -> None:
    """`max(p, 1e-12) ** alpha` as Python computes it, on double precision numbers."""
    ours = AccPrioritizedEpisodeReplayBuffer(
        100, alpha=0.37, num_shards=0, seed=1, sample_format=sample_format
    )
    theirs = RLlibOracle(100, alpha=0.37)
    ours.add(mixed_episodes())
    theirs.add(mixed_episodes())
    rows = read_rows(ours.sample(num_items=300, beta=0.4))
    errors = (10.0 ** np.random.default_rng(0).uniform(-15, 5, 300)).astype(dtype)
    errors[:3] = 0.0
    ours.update_priorities(errors)
    last = {row.step: float(e) for row, e in zip(rows, errors, strict=True)}
    theirs.set_priorities(last)
    assert masses_of(ours) == theirs.masses()
    ours.add(make_episode(50, 3))
    assert masses_of(ours)[50, 0] == float(errors.max()) ** 0.37


@FORMATS
def test_rllibs_own_helper_reaches_it(sample_format: str) -> None:
    """The helper acts on RLlib's class alone."""
    buffer = make_buffer(sample_format)
    steps = {row.step for row in read_rows(buffer.sample(num_items=8))}
    update_priorities_in_episode_replay_buffer(
        replay_buffer=buffer,
        td_errors={
            "default_policy": {"td_error": np.full(8, 3.0, np.float32)},
            "__all_modules__": {},
        },
    )
    assert {key for key, mass in masses_of(buffer).items() if mass == 3.0**0.6} == steps
