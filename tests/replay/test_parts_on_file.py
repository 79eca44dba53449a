"""Replays saved in parts and restored into any number of others, by reading chosen rows only."""

import dataclasses
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from saved_replays import assert_equal, assert_goes_on_the_same, chunk, use

import rllib_per_acc.replay_files
import rllib_per_acc.replay_folder
from rllib_per_acc import EpisodeChunk
from rllib_per_acc.local_folder import LocalFolder
from rllib_per_acc.parts_on_file import LocalPart, check_saved_replay, prepare_parts, save_parts
from rllib_per_acc.replay_part import ReplayPart
from rllib_per_acc.saved_parts import dealt_out

EVERYTHING = {"include_infos": True, "include_extra_model_outputs": True}


def make_parts(numbers, capacity=200, **options):
    """Parts, the n-th with `numbers[n]` episodes (more than fit: it has wrapped) in use."""
    options = {"seed": 4} | options
    parts = [ReplayPart(capacity, **options) for _ in numbers]
    for which, (part, number) in enumerate(zip(parts, numbers, strict=True)):
        for i in range(number):
            use(part, 100 * which + i)
    return parts


def save(folder, parts):
    return save_parts(LocalFolder(folder), [LocalPart(part) for part in parts])


def prepare(folder, names, parts, then=lambda: None):
    return prepare_parts(LocalFolder(folder), names, [LocalPart(part) for part in parts], then)


def moved(folder, parts, others):
    """The others, restored from what the parts saved."""
    prepare(folder, save(folder, parts), others).commit()
    return others


def episodes(parts):
    """By episode all that is known of it, and the masses of its steps."""
    held = {}
    for part in parts:
        masses = part.get_priorities()
        for episode in part.get_chunks(0, part.info()["episodes"]):
            assert episode.episode_id not in held
            own = masses["mass"][masses["episode_id"] == episode.episode_id]
            held[episode.episode_id] = dataclasses.asdict(episode) | {"masses": own}
    return dict(sorted(held.items()))


def test_as_many_parts_go_on_bit_by_bit(tmp_path):
    parts = make_parts([5, 40, 0])
    others = moved(tmp_path, parts, make_parts([1, 1, 1], seed=9))
    for part, other in zip(parts, others, strict=True):
        if len(part):
            assert_goes_on_the_same(part, other)
        else:
            assert_equal(part.get_state(), other.get_state())


@pytest.mark.parametrize(("before", "after"), itertools.permutations([1, 2, 3], 2))
@pytest.mark.parametrize("small_pieces", [False, True])
def test_another_number_of_parts_holds_the_same(tmp_path, monkeypatch, before, after, small_pieces):
    if small_pieces:
        monkeypatch.setattr(rllib_per_acc.replay_files, "PIECE_BYTES", 37)
        monkeypatch.setattr(rllib_per_acc.replay_folder, "PIECE_BYTES", 41)
    parts = make_parts([20, 40, 3][:before], max_priority="buffer")
    others = moved(tmp_path, parts, make_parts([1] * after, 1000, max_priority="buffer"))
    assert_equal(episodes(others), episodes(parts))
    assert max(o.max_priority for o in others) == max(p.max_priority for p in parts)
    for name in ("steps_added", "steps_sampled", "steps_evicted", "stale_priorities_dropped"):
        assert sum(o.info()[name] for o in others) == sum(p.info()[name] for p in parts)
    lengths = sorted(len(other) for other in others)
    assert lengths[-1] - lengths[0] <= 10
    for i, other in enumerate(others):
        use(other, 900 + i)
        other.sample(32, **EVERYTHING)
    # In memory it is the same.
    dealt = dealt_out([part.state_arrays() for part in parts], [1000] * after)
    twins = make_parts([1] * after, 1000, max_priority="buffer")
    for i, (twin, (description, arrays)) in enumerate(zip(twins, dealt, strict=True)):
        twin.restore_arrays(description, arrays)
        use(twin, 900 + i)
    assert_equal(episodes(twins), episodes(others))


def test_the_oldest_stay_away_where_there_is_less_room(tmp_path):
    """Old is who was old among the episodes of its part."""
    parts = [ReplayPart(1000) for _ in range(2)]
    for number in range(20):
        parts[0].add([chunk(number)])
    for number in range(100, 110):
        parts[1].add([chunk(number)])
    (other,) = moved(tmp_path, parts, [ReplayPart(150)])
    ids = other.get_priorities()["episode_id"][::10].tolist()
    newest = (10, 11, 105, 12, 13, 106, 14, 15, 107, 16, 17, 108, 18, 19, 109)
    assert ids == [f"episode-{number}" for number in newest]
    other.add([chunk(500)])
    assert "episode-10" not in other.get_priorities()["episode_id"]


@pytest.mark.parametrize("capacity", [1, 35, 99])
def test_any_capacity(tmp_path, capacity):
    parts = make_parts([20, 40])
    before = episodes(parts)
    others = moved(tmp_path, parts, [ReplayPart(capacity) for _ in range(3)])
    for id_, episode in episodes(others).items():
        assert_equal(episode, before[id_])
    for other in others:
        assert len(other) <= max(capacity, 10)
        assert len(other) > max(capacity - 10, 0)


def test_ongoing_episodes_can_go_on_and_another_alpha_counts(tmp_path):
    def piece(start, stop):
        steps = stop - start
        observations = np.arange(start, stop + 1)
        return EpisodeChunk("x", observations, np.zeros(steps), np.zeros(steps), t_started=start)

    parts = [ReplayPart(100, alpha=0.6), ReplayPart(100, alpha=0.6)]
    for part, given in zip(parts, ("w", "x"), strict=True):
        part.add([dataclasses.replace(piece(0, 10), episode_id=given)], weight=2.0)
    (other,) = moved(tmp_path, parts, [ReplayPart(1000, alpha=1.0)])
    np.testing.assert_allclose(other.get_priorities()["mass"], 2.0, rtol=1e-12)
    other.add([piece(10, 15)])
    assert (other.get_priorities()["episode_id"] == "x").sum() == 15


def test_columns_that_only_some_parts_have(tmp_path):
    def plain(id_, dtype, **given):
        return EpisodeChunk(
            id_, np.arange(6, dtype=dtype), np.zeros(5, int), np.arange(5.0), **given
        )

    parts = [ReplayPart(100) for _ in range(3)]
    parts[0].add([plain("a", np.float32)])
    parts[1].add(
        [
            plain(
                "b",
                np.float64,
                infos=[{"t": t} for t in range(6)],
                extra_model_outputs={"logp": np.arange(5.0)},
            )
        ]
    )
    parts[2].add([EpisodeChunk("c", np.zeros(1, np.float32), [], [])])  # nothing is stored yet
    (other,) = moved(tmp_path, parts, [ReplayPart(100)])
    a, b = other.get_chunks(0, 3)
    assert [a.episode_id, b.episode_id] == ["a", "b"]
    assert a.observations.tolist() == b.observations.tolist() == [0, 1, 2, 3, 4, 5]
    assert other._store.columns.observations.leaves[0].dtype == np.float64
    assert (a.infos, b.infos) == ([{}] * 6, [{"t": t} for t in range(6)])
    assert a.extra_model_outputs == {}
    assert b.extra_model_outputs["logp"].tolist() == [0, 1, 2, 3, 4]


def test_two_pieces_of_one_episode_in_two_parts_are_both_kept(tmp_path):
    parts = [ReplayPart(100) for _ in range(2)]
    parts[0].add([EpisodeChunk("a", np.arange(4), np.zeros(3, int), np.zeros(3))])
    parts[1].add([EpisodeChunk("b", np.arange(4), np.zeros(3, int), np.zeros(3))])
    parts[1].add([EpisodeChunk("a", np.arange(3, 6), np.zeros(2, int), np.zeros(2), t_started=3)])
    (other,) = moved(tmp_path, parts, [ReplayPart(100)])
    assert len(other) == 8
    assert [len(c) for c in other.get_chunks(0, 3) if c.episode_id == "a"] == [2]
    other.add([EpisodeChunk("a", np.arange(5, 7), np.zeros(1, int), np.zeros(1), t_started=5)])
    assert len(other) == 9


@pytest.mark.parametrize("observations", [np.zeros((4, 2)), {"a": np.zeros(4)}, np.array("abcd")])
def test_parts_that_do_not_fit_each_other_are_refused(tmp_path, observations):
    if observations.shape == () if isinstance(observations, np.ndarray) else False:
        observations = np.array(list("abcd"))
    parts = [ReplayPart(100), ReplayPart(100)]
    parts[0].add([EpisodeChunk("a", np.zeros(4), np.zeros(3, int), np.zeros(3))])
    parts[1].add([EpisodeChunk("b", observations, np.zeros(3, int), np.zeros(3))])
    names = save(tmp_path, parts)
    other = ReplayPart(100)
    with pytest.raises(ValueError, match="observations"):
        prepare(tmp_path, names, [other])
    assert len(other) == 0


@pytest.mark.parametrize("number", [1, 2])
def test_a_damaged_part_changes_nothing(tmp_path, number):
    """Whichever part it is and whichever file, and whatever was read before it."""
    names = save(tmp_path, make_parts([2, 2]))
    others = make_parts([3] * number)
    states = [other.get_state() for other in others]
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
    assert len(files) > 20
    for path in files:
        whole = path.read_bytes()
        for damaged in (whole[:-1], whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:], None):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            with pytest.raises((ValueError, FileNotFoundError), match=r"part-[01]"):
                prepare(tmp_path, names, others).commit()
            assert_equal([other.get_state() for other in others], states)
        path.write_bytes(whole)
    prepare(tmp_path, names, others).commit()


@pytest.mark.parametrize("name", ["../part-0", "part-0/..", "", 3, None])
def test_a_part_is_looked_for_in_the_folder_only(name):
    with pytest.raises(ValueError, match=r"parts\[1\]: got .*, expected 'part-<n>'"):
        check_saved_replay("", {"parts": ["part-0", name], "steps_sampled": 0})


def test_what_was_prepared_counts_when_it_is_committed(tmp_path):
    parts, done = make_parts([5, 5]), []
    names = save(tmp_path, parts)
    others = make_parts([2, 3])
    states = [other.get_state() for other in others]
    prepared = prepare(tmp_path, names, others, lambda: done.append(1))
    assert_equal([other.get_state() for other in others], states)
    prepared.discard()
    with pytest.raises(RuntimeError, match="prepared"):
        prepared.commit()
    assert_equal([other.get_state() for other in others], states)
    assert done == []
    prepare(tmp_path, names, others, lambda: done.append(1)).commit()
    assert done == [1]
    assert_equal([o.get_state() for o in others], [p.get_state() for p in parts])


MEMORY = """
import sys
from rllib_per_acc.parts_on_file import LocalPart, prepare_parts, save_parts
from rllib_per_acc.local_folder import LocalFolder
from rllib_per_acc.replay_part import ReplayPart

def peak():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))

ReplayPart(10)
before = peak()
parts = [ReplayPart(10**6) for _ in range(int(sys.argv[3]))]
local = [LocalPart(part) for part in parts]
prepare_parts(LocalFolder(sys.argv[1]), sys.argv[4:], local, lambda: None).commit()
print(peak() - before, sum(p.info()["bytes"] for p in parts), sum(map(len, parts)))
"""


@pytest.mark.parametrize("after", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_dealing_out_takes_little_memory_beside_the_buffer(tmp_path, after):
    parts = [ReplayPart(10**6) for _ in range(2)]
    for number in range(40):
        observations = np.full((1001, 4096), number, np.uint8)
        parts[number % 2].add(
            [EpisodeChunk(f"{number}", observations, np.zeros(1000, int), np.zeros(1000))]
        )
    names = save(tmp_path, parts)
    command = [sys.executable, "-c", MEMORY, str(tmp_path), "", str(after), *names]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=240, env=environment
    )
    peak, buffer, loaded = map(int, done.stdout.split())
    assert loaded == 40_000
    assert peak <= 1.2 * buffer + 6 * rllib_per_acc.replay_files.PIECE_BYTES
