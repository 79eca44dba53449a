"""What is saved comes back, in little memory."""

import copy
import errno
import os
import subprocess
import sys

import numpy as np
import pytest
from saved_replays import (
    FILLS,
    assert_equal,
    assert_goes_on_the_same,
    assert_same_state,
    chunk,
    filled,
    read_manifest,
    use,
)

import rllib_per_acc.replay_files
from rllib_per_acc import EpisodeChunk, PrioritizedReplay
from rllib_per_acc.replay_files import MANIFEST, PIECE_BYTES, SaveReader, pieces_of_save


class Opaque:
    """Something that JSON has no words for."""


@pytest.mark.parametrize("max_priority", ["lifetime", "buffer"])
@pytest.mark.parametrize("fill", FILLS)
def test_a_loaded_replay_goes_on_the_same(tmp_path, fill, max_priority):
    replay = filled(fill, max_priority=max_priority)
    replay.save(tmp_path / "saves" / "first")
    loaded = PrioritizedReplay.load(tmp_path / "saves" / "first")
    assert loaded.options == replay.options
    assert loaded.capacity == replay.capacity
    assert_goes_on_the_same(replay, loaded)


def test_a_save_does_not_change_with_the_replay(tmp_path):
    replay = filled("wrapped")
    twin = copy.deepcopy(replay.get_state())
    replay.save(tmp_path)
    for number in range(100, 130):
        use(replay, number)
    assert_equal(PrioritizedReplay.load(tmp_path).get_state(), twin)


def test_a_save_replaces_the_one_before_it(tmp_path):
    replay = filled("half full")
    replay.save(tmp_path)
    use(replay, 50)
    replay.save(tmp_path)
    files = {entry["file"] for entry in read_manifest(tmp_path)["files"].values()}
    assert set(os.listdir(tmp_path)) == files | {MANIFEST}
    assert_same_state(PrioritizedReplay.load(tmp_path), replay)


def test_arrays_are_files_that_numpy_reads(tmp_path):
    replay = filled("wrapped")
    replay.save(tmp_path)
    entry = read_manifest(tmp_path)["files"]["masses"]
    masses = np.load(tmp_path / entry["file"], allow_pickle=False)
    np.testing.assert_array_equal(masses, replay.tree[np.arange(len(masses))])


def test_a_larger_capacity_keeps_everything(tmp_path):
    replay = filled("wrapped")
    replay.save(tmp_path)
    loaded = PrioritizedReplay.load(tmp_path, capacity=1000)
    assert_same_state(loaded, replay)
    loaded.add([chunk(500, 300)])
    assert len(loaded) == 400


@pytest.mark.parametrize("capacity", [1, 35, 99])
def test_a_smaller_capacity_leaves_the_oldest_out(tmp_path, capacity):
    replay = filled("wrapped")
    replay.save(tmp_path)
    loaded = PrioritizedReplay.load(tmp_path, capacity)
    kept = max(capacity // 10, 1) * 10  # episodes have 10 steps, and one always stays
    expected = {name: column[-kept:] for name, column in replay.get_priorities().items()}
    assert_equal(loaded.get_priorities(), expected)
    assert (loaded.tree[np.arange(len(loaded.tree))] > 0).sum() == kept
    use(loaded, 500)
    assert len(loaded) <= max(capacity, 10)


@pytest.mark.parametrize("capacity", [1, 1005, 4000])
def test_a_much_smaller_capacity_takes_less_memory_too(tmp_path, capacity):
    replay = PrioritizedReplay(10_000, seed=0, max_priority="buffer")
    for number in range(130):
        replay.add([chunk(number, 100)], weight=np.linspace(0.1, 3, 100))
    replay.save(tmp_path)
    loaded = PrioritizedReplay.load(tmp_path, capacity)
    kept = max(capacity // 100, 1) * 100
    assert loaded.info()["bytes"] < replay.info()["bytes"] / 2
    expected = {name: column[-kept:] for name, column in replay.get_priorities().items()}
    assert_equal(loaded.get_priorities(), expected)
    # The same as if only the newest episodes had ever come.
    fresh = PrioritizedReplay(max(capacity, 100), max_priority="buffer")
    for number in range(130 - kept // 100, 130):
        fresh.add([chunk(number, 100)], weight=np.linspace(0.1, 3, 100))
    assert fresh.max_priority == loaded.max_priority
    fresh.rng.bit_generator.state = loaded.rng.bit_generator.state
    given = {"n_step": 3, "include_infos": True, "include_extra_model_outputs": True}
    assert_equal(fresh.sample(64, **given).columns, loaded.sample(64, **given).columns)


@pytest.mark.parametrize(("old", "new"), [(0.6, 1.0), (1.0, 0.25), (0.6, 0.0), (0.0, 0.6)])
@pytest.mark.parametrize("kept", ["lifetime", "buffer"])
def test_another_alpha_gives_other_masses(tmp_path, old, new, kept):
    replay = PrioritizedReplay(100, alpha=old, max_priority=kept)
    replay.add([chunk(0)], weight=np.linspace(0.5, 5, 10))
    replay.save(tmp_path)
    loaded = PrioritizedReplay.load(tmp_path, alpha=new)
    priorities_known = kept == "buffer" or old > 0
    expected = np.linspace(0.5, 5, 10) ** new if priorities_known else np.ones(10)
    np.testing.assert_allclose(loaded.get_priorities()["mass"], expected, rtol=1e-12)


def test_options_can_be_given_anew(tmp_path):
    filled("half full", beta=[[0, 0.4], [100, 1.0]]).save(tmp_path)
    assert PrioritizedReplay.load(tmp_path).options.beta == [[0, 0.4], [100, 1.0]]
    loaded = PrioritizedReplay.load(tmp_path, beta=0.5, sampling="stratified")
    assert loaded.options.beta == 0.5
    assert loaded.options.sampling == "stratified"
    with pytest.raises(ValueError, match="sampling"):
        PrioritizedReplay.load(tmp_path, sampling="neither")
    with pytest.raises(ValueError, match="capacity"):
        PrioritizedReplay.load(tmp_path, capacity=0)


@pytest.mark.parametrize(
    "ids", [(1, 2, 10**30), (("a", 1), ("a", 2), ("b", 3)), ("", (), "x"), (b"a", "a", 0.5)]
)
def test_episode_ids_of_any_plain_type(tmp_path, ids):
    replay = PrioritizedReplay(100)
    replay.add([chunk(n, episode_id=id_, terminated=False) for n, id_ in enumerate(ids)])
    replay.save(tmp_path)
    loaded = PrioritizedReplay.load(tmp_path)
    assert loaded.get_priorities()["episode_id"].tolist() == [i for i in ids for _ in range(10)]
    last = chunk(2).observations
    going_on = {k: v[-1:] if k != "pair" else tuple(p[-1:] for p in v) for k, v in last.items()}
    with pytest.raises(ValueError, match="expected t=10"):  # it knows the episode
        loaded.add([EpisodeChunk(ids[2], going_on, [], [])])


INFOS = [
    {"a": [1, 2.5, None, True, "ü\n\ud800"], "b": {"c": {}}},
    {"nan": float("nan"), "inf": -float("inf"), "big": 2**200, "exact": 0.1},
    {1: "int key", (1, "a"): 2, None: 3},
    {"$type": "dict", "items": "not ours"},
    {"t": (1, (2, [3])), "bytes": b"\x00\xff"},
    {"f4": np.float32(0.1), "i8": np.int64(-1), "bool": np.bool_(True), "str": np.str_("")},
    {"time": np.datetime64("2020-01-01T01"), "c": np.complex64(1 + 2j), "half": np.float16(1)},
    {"array": np.arange(6, dtype=">i2").reshape(2, 3), "none": np.zeros((0, 3), np.float32)},
    {"0-d": np.array(1.5), "text": np.array(["a", "bc"]), "view": np.eye(3)[:, 1]},
    {"objects": np.array([None, "a", {"b": (1,)}], object)},
]


def test_infos_come_back_with_their_types(tmp_path):
    nested = np.empty(2, object)
    nested[:] = [np.arange(3), "a"]
    infos = [*INFOS, {"nested": nested}]
    replay = PrioritizedReplay(100)
    replay.add([chunk(0, len(infos) - 1, infos=infos)])
    replay.save(tmp_path)
    loaded = PrioritizedReplay.load(tmp_path)
    one, two = (r.get_state()["arrays"]["infos.0"] for r in (replay, loaded))
    assert repr(one[1]) == repr(two[1])  # NaN
    assert_equal(np.delete(one, 1), np.delete(two, 1))


@pytest.mark.parametrize("value", [Opaque(), {1, 2}, errno, np.void(b"ab"), print, [Opaque()]])
def test_an_object_that_json_cannot_hold_is_named(tmp_path, value):
    replay = filled("half full")
    replay.save(tmp_path)
    before = sorted(os.listdir(tmp_path))
    replay.add([chunk(50, infos=[{"ok": 1}] * 10 + [{"odd": value}])])
    with pytest.raises(TypeError, match=r"infos\.0, item \d+\['odd'\]: got "):
        replay.save(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before
    assert len(PrioritizedReplay.load(tmp_path)) == 50


def test_an_object_that_holds_itself_is_refused(tmp_path):
    info = {}
    info["self"] = info
    replay = PrioritizedReplay(10)
    replay.add([chunk(0, 1, infos=[info, {}])])
    with pytest.raises(ValueError, match=r"infos\.0.*nested too deeply"):
        replay.save(tmp_path)
    assert os.listdir(tmp_path) == []


def test_all_dtypes_of_columns_come_back(tmp_path):
    rng = np.random.default_rng(0)
    observations = {
        dtype: rng.integers(0, 2, (6, 2)).astype(dtype)
        for dtype in ("?", "i1", "<u2", ">u4", "i8", "f2", ">f4", "f8", "g", "c8", "c16")
    }
    replay = PrioritizedReplay(10)
    replay.add([EpisodeChunk("a", observations, np.zeros((5, 0)), np.zeros(5))])
    replay.save(tmp_path)
    assert_same_state(PrioritizedReplay.load(tmp_path), replay)


def test_files_are_written_and_read_in_bounded_pieces(monkeypatch):
    monkeypatch.setattr(rllib_per_acc.replay_files, "PIECE_BYTES", 100)
    replay = filled("wrapped")
    description, arrays = replay.state_arrays()
    *pieces, (last, manifest) = pieces_of_save(description, arrays)
    assert last == MANIFEST
    bodies = [piece for _, piece in pieces if bytes(piece[:6]) != b"\x93NUMPY"]
    assert len(bodies) > len(arrays)
    assert max(map(len, bodies)) <= 100
    reader = SaveReader(manifest, "elsewhere")
    for file, piece in pieces:
        for start in range(0, len(piece), 7):  # read in other pieces than written
            reader.write(file, piece[start : start + 7])
    other = PrioritizedReplay(100)
    other.restore_arrays(reader.description, reader.finish())
    assert_goes_on_the_same(replay, other)


MEMORY = """
import sys
from rllib_per_acc import PrioritizedReplay

def peak():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))

PrioritizedReplay(10)
before = peak()
replay = PrioritizedReplay.load(sys.argv[1])
replay.save(sys.argv[2])
print(peak() - before, replay.info()["bytes"], len(replay))
"""


@pytest.mark.parametrize(("steps", "shape", "dtype"), [(60_000, 4096, "u1"), (10**6, 4, "f4")])
def test_loading_and_saving_take_little_memory_beside_the_buffer(tmp_path, steps, shape, dtype):
    replay = PrioritizedReplay(steps)
    for number in range(steps // 1000):
        observations = np.full((1001, shape), number, dtype)
        replay.add([EpisodeChunk(f"{number}", observations, np.zeros(1000, int), np.zeros(1000))])
    replay.save(tmp_path / "one")
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "one"), str(tmp_path / "two")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    peak, buffer, loaded = map(int, done.stdout.split())
    assert loaded == steps
    # Beside the buffer's arrays: pieces of files, and what the allocator keeps.
    assert peak <= 1.2 * buffer + 4 * PIECE_BYTES
