"""A replay without a capacity evicts what it is told to, and nothing else."""

import numpy as np
import pytest

from rllib_per_acc import EpisodeChunk, PrioritizedReplay


def chunk(name: str, length: int = 3, t_started: int = 0) -> EpisodeChunk:
    times = np.arange(t_started, t_started + length + 1, dtype=np.float32)
    return EpisodeChunk(name, times, times[1:], times[1:], t_started=t_started)


@pytest.fixture
def replay() -> PrioritizedReplay:
    return PrioritizedReplay(None, seed=0)


def stored(replay: PrioritizedReplay) -> list[str]:
    return list(dict.fromkeys(replay.get_priorities()["episode_id"]))


def test_nothing_is_evicted_unasked(replay: PrioritizedReplay) -> None:
    for number in range(1000):
        replay.add([chunk(str(number), 10)])
    assert len(replay) == 10_000
    assert replay.capacity is None


def test_named_episodes_go_and_unknown_ones_are_ignored(replay: PrioritizedReplay) -> None:
    replay.add([chunk("a"), chunk("b"), chunk("c")])
    replay.add([chunk("d", 2)], evict=["b", "never there", "a"])
    assert stored(replay) == ["c", "d"]
    assert len(replay) == 5
    assert np.isclose(replay.tree.sum(), 5.0)
    counts = replay.take_activity().counts
    assert (counts.episodes_evicted, counts.steps_evicted) == (2, 6)


@pytest.mark.parametrize("weight", [None, 2.0])
def test_evicting_alone(replay: PrioritizedReplay, weight: float | None) -> None:
    replay.add([chunk("a"), chunk("b")])
    replay.add([], weight, evict=["a"])
    assert stored(replay) == ["b"]


def test_what_is_prepared_is_stored_later_or_never(replay: PrioritizedReplay) -> None:
    replay.add([chunk("a")])
    before = replay.info()
    store = replay.prepare_add([chunk("b")], 0.5, ["a"])
    with pytest.raises(ValueError, match="weight"):
        replay.prepare_add([chunk("c")], -1.0)
    with pytest.raises(ValueError, match="t=7"):
        replay.prepare_add([chunk("a", t_started=7)])
    assert replay.info() == before
    store()
    assert stored(replay) == ["b"]
    np.testing.assert_array_equal(replay.get_priorities()["mass"], np.full(3, 0.5**0.6))


def test_with_a_capacity_nothing_may_be_named() -> None:
    replay = PrioritizedReplay(10)
    replay.add([chunk("a")])
    with pytest.raises(ValueError, match="evict: got 1 episodes in a store with capacity=10"):
        replay.add([chunk("b")], evict=["a"])
    assert stored(replay) == ["a"]


def test_state_and_file_keep_everything(replay: PrioritizedReplay, tmp_path) -> None:
    for number in range(500):
        replay.add([chunk(str(number), 9)], evict=[str(number - 400)])
    again = PrioritizedReplay(None)
    again.set_state(replay.get_state())
    replay.save(tmp_path / "saved")
    for copy in (again, PrioritizedReplay.load(tmp_path / "saved")):
        assert stored(copy) == [str(number) for number in range(100, 500)]
        copy.add([chunk("new")], evict=["100"])
        assert len(copy) == 399 * 9 + 3


def test_ids_of_sampled_episodes(replay: PrioritizedReplay) -> None:
    replay.add([chunk("a", 4), chunk("b", 7)])
    replay.add([chunk("a", 4, t_started=4)])
    batch = replay.sample(200, n_step=2, include_episode_ids=True)
    assert set(batch.episode_id) == {"a", "b"}
    assert set(batch.t[batch.episode_id == "a"]) == set(range(7))
    assert set(batch.t[batch.episode_id == "b"]) == set(range(6))
    assert "episode_id" not in replay.sample(2).columns
