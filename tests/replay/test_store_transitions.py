"""What a sampled row holds: observation, action, n-step reward, next observation, flags."""

import numpy as np
import pytest
from fault_injection import same
from replay_checks import check_batch
from replay_reference import Arrival, NaiveReplay

from rllib_per_acc import EpisodeChunk, PrioritizedReplay


def four_steps(end: str) -> EpisodeChunk:
    return EpisodeChunk(
        "only",
        np.arange(5, dtype=np.float32)[:, None],
        np.arange(4),
        np.array([1.0, 2.0, 4.0, 8.0]),
        terminated=end == "terminated",
        truncated=end == "truncated",
    )


@pytest.mark.parametrize("end", ["", "terminated", "truncated"])
def test_three_steps_ahead(end: str) -> None:
    replay = PrioritizedReplay(10, seed=0)
    replay.add([four_steps(end)])
    batch = replay.sample(50, n_step=3, gamma=0.5)
    by_time = {int(t): i for i, t in enumerate(batch.t)}
    assert set(by_time) == {0, 1}
    first, second = by_time[0], by_time[1]
    assert batch.rewards[first] == 3.0  # 1 + 2 / 2 + 4 / 4
    assert batch.rewards[second] == 6.0  # 2 + 4 / 2 + 8 / 4
    assert batch.next_observations[first] == [3.0]
    assert batch.next_observations[second] == [4.0]
    assert not batch.terminateds[first]
    assert not batch.truncateds[first]
    assert bool(batch.terminateds[second]) == (end == "terminated")
    assert bool(batch.truncateds[second]) == (end == "truncated")


def test_columns_have_the_documented_types() -> None:
    replay = PrioritizedReplay(10, seed=0)
    replay.add([four_steps("terminated")])
    batch = replay.sample(6, n_step=2)
    assert batch.rewards.dtype == np.float64
    assert batch.weights.dtype == np.float64
    assert batch.n_step.dtype == np.int64
    assert batch.t.dtype == np.int64
    assert batch.handle.rows.dtype == np.int32
    assert batch.handle.generations.dtype == np.uint32
    assert batch.observations.dtype == np.float32
    assert batch.observations.shape == batch.next_observations.shape == (6, 1)
    assert batch.terminateds.dtype == batch.truncateds.dtype == np.bool_


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_interleaved_chunks_of_one_step_give_whole_episodes(n: int) -> None:
    """Eight environments, one step each per call: a link to the next row is no neighbour."""
    replay, naive = PrioritizedReplay(1000, seed=1), NaiveReplay(1000)
    for t in range(12):
        arrivals = [
            Arrival(env, t, 1, ("terminated", "truncated")[env % 2] if t == 11 else "")
            for env in range(8)
        ]
        replay.add([arrival.chunk() for arrival in arrivals])
        naive.add(arrivals)
    seen = check_batch(replay.sample(2000, n_step=n, gamma=0.9), naive, 2000, n, 0.9, 0.4)
    assert {(s.number, s.t) for s in seen} == {(e, t) for e in range(8) for t in range(13 - n)}


def test_the_closed_interval_of_n_is_drawn() -> None:
    replay = PrioritizedReplay(100, seed=1)
    replay.add([Arrival(0, 0, 50, "terminated").chunk()])
    counts = np.bincount(replay.sample(3000, n_step=(1, 3)).n_step, minlength=4)
    assert counts[0] == 0
    assert len(counts) == 4
    assert (counts[1:] > 850).all(), counts  # 1000 each, less the few at the end; sd 26
    assert set(replay.sample(200, n_step=(3, 3)).n_step) == {3}


def test_a_drawn_n_is_the_n_of_its_row() -> None:
    replay, naive = PrioritizedReplay(100, seed=1), NaiveReplay(100)
    arrivals = [Arrival(0, 0, 9, "truncated"), Arrival(1, 0, 4, "terminated"), Arrival(2, 0, 5)]
    replay.add([arrival.chunk() for arrival in arrivals])
    naive.add(arrivals)
    batch = replay.sample(500, n_step=(1, 4), gamma=0.9)
    for i in range(500):
        number, t = int(batch.observations[i][0]), int(batch.observations[i][1])
        expected = naive.transition(number, t, int(batch.n_step[i]), 0.9)
        assert batch.rewards[i] == expected["reward"]
        assert batch.terminateds[i] == expected["terminated"]
        assert batch.truncateds[i] == expected["truncated"]
        np.testing.assert_array_equal(batch.next_observations[i], expected["next_observation"])


def test_the_arrays_that_came_in_are_not_kept() -> None:
    chunk = four_steps("")
    replay = PrioritizedReplay(10, seed=0)
    replay.add([chunk])
    chunk.observations[:] = -1
    chunk.rewards[:] = -1
    batch = replay.sample(30)
    assert (batch.observations >= 0).all()
    assert (batch.rewards > 0).all()


def test_changing_a_batch_does_not_change_the_store() -> None:
    replay = PrioritizedReplay(10, seed=0)
    replay.add([four_steps("")])
    batch = replay.sample(20)
    batch.observations[:] = -1
    batch.rewards[:] = -1
    again = replay.sample(20)
    assert (again.observations >= 0).all()
    assert (again.rewards > 0).all()


@pytest.mark.parametrize(
    ("first", "later", "refused"),
    [
        (np.float32, np.array([4.0, 0.5]), None),
        (np.float32, np.array([4.0, 1 / 3]), r"0.333.* \(float64\), expected .* float32"),
        (np.uint8, np.array([4.0, 5.0]), "float64, expected .* uint8"),
        (np.uint8, np.array([4, 255]), None),
        (np.uint8, np.array([4, 256]), r"256 \(int64\), expected .* uint8"),
        (np.uint8, np.array([4, -1]), r"-1 \(int64\), expected .* uint8"),
        (np.uint8, np.array([True, False]), None),
        (np.uint8, np.array([4, "text"], object), "object, expected .* uint8"),
        (np.float64, np.array([4, 2**53]), None),
        (np.float64, np.array([4, 2**60 + 1]), "1152921504606846977 .*int64.*, expected .*float64"),
        (np.float64, np.array([4, 2**63 - 1]), "9223372036854775807 .*int64.*, expected"),
        (np.float64, np.array([1j, 0]), "complex128, expected .* float64"),
        (np.int64, np.array([4, 2**63], np.uint64), "9223372036854775808 .*uint64.*, expected"),
        (np.uint64, np.array([4, -1]), "-1 .*int64.*, expected .* uint64"),
        (np.int64, np.array([np.nan, 1.0]), "float64, expected .* int64"),
        (np.float32, np.array([np.nan, np.inf]), None),
        (np.bool_, np.array([1, 0]), "int64, expected .* bool"),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_values_of_another_dtype_are_taken_where_they_are_exact(
    first: type, later: np.ndarray, refused: str | None, at_once: bool
) -> None:
    replay = PrioritizedReplay(10, seed=0)
    chunks = [
        EpisodeChunk("a", np.ones(3, first), np.arange(2), np.zeros(2)),
        EpisodeChunk("b", later, np.arange(1), np.zeros(1)),
    ]
    adds = [chunks] if at_once else [[chunk] for chunk in chunks]
    for chunk in adds[:-1]:
        replay.add(chunk)
    before = replay.get_state()
    if refused is None:
        replay.add(adds[-1])
        (stored,) = replay.get_chunks(1, 2)
        np.testing.assert_array_equal(stored.observations, later)
        assert stored.observations.dtype == first
    else:
        with pytest.raises(ValueError, match=f"observations: got {refused}"):
            replay.add(adds[-1])
        assert same(replay.get_state(), before)
