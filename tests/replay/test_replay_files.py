"""Saves: what comes back is what was there, and what is damaged is refused and changes nothing."""

import copy
import errno
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import zlib

import numpy as np
import pytest

import rllib_per_acc.replay_files
from rllib_per_acc import EpisodeChunk, PrioritizedReplay
from rllib_per_acc.replay_files import MANIFEST, PIECE_BYTES, SaveReader, pieces_of_save

FILLS = {"empty": 0, "half full": 5, "exactly full": 10, "wrapped": 33}


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch):
    """Waiting for the disk is most of what a small save takes. Killed processes do wait for it."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


class Opaque:
    """Something that JSON has no words for."""


def chunk(number, length=10, *, episode_id=None, **given):
    rng = np.random.default_rng(number)
    observations = {
        "image": rng.integers(0, 256, (length + 1, 3, 3), np.uint8),
        "pair": (rng.random((length + 1, 2), np.float32), np.arange(length + 1) + 100 * number),
        "text": np.array([f"step {t} ü" for t in range(length + 1)]),
        7: rng.random(length + 1) < 0.5,
    }
    values = {
        "infos": [{"t": t, "score": np.float32(t), "xy": np.arange(2)} for t in range(length + 1)],
        "extra_model_outputs": {"logits": rng.random((length, 2), np.float32)},
        "terminated": number % 2 == 0,
        "truncated": number % 2 == 1,
    } | given
    name = f"episode-{number}" if episode_id is None else episode_id
    return EpisodeChunk(
        name, observations, rng.integers(0, 2, length), rng.random(length), **values
    )


def use(replay, number):
    """Adds, samples, updates."""
    replay.add([chunk(number, 7)])
    batch = replay.sample(16, n_step=(1, 3))
    batch.update(np.abs(batch.rewards) + 1e-3)


def filled(fill, capacity=100, **options):
    replay = PrioritizedReplay(capacity, **{"seed": 4} | options)
    for number in range(FILLS[fill]):
        replay.add([chunk(number)])
        replay.sample(16).update(np.linspace(0, 2, 16) + number)
    return replay


def assert_equal(one, two):
    """Equal in values and types, nested."""
    assert type(one) is type(two)
    if isinstance(one, np.ndarray):
        assert one.dtype == two.dtype
        assert one.shape == two.shape
        if one.dtype == object:
            assert_equal(list(one.flat), list(two.flat))
        else:
            np.testing.assert_array_equal(one, two)
    elif isinstance(one, dict):
        assert list(one) == list(two)
        assert_equal(list(one.values()), list(two.values()))
    elif isinstance(one, list | tuple):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_equal(a, b)
    else:
        assert one == two


def assert_same_state(one, two):
    assert_equal(one.get_state(), two.get_state())
    assert one.tree.sum() == two.tree.sum()
    assert one.max_priority == two.max_priority


def assert_goes_on_the_same(one, two):
    assert_same_state(one, two)
    for number in range(100, 105):
        use(one, number)
        use(two, number)
        with_all = {"include_infos": True, "include_extra_model_outputs": True}
        assert_equal(one.sample(32, **with_all).columns, two.sample(32, **with_all).columns)
    assert_same_state(one, two)


def read_manifest(folder):
    return json.loads((folder / MANIFEST).read_text())


def write_manifest(folder, content):
    """With the right checksum, as another version of the library would."""
    text = json.dumps(content | {"crc32": ""}, indent=1)
    checksum = f'"crc32": "{zlib.crc32(text.encode()):08x}"'
    (folder / MANIFEST).write_text(text.replace('"crc32": ""', checksum, 1))


# What is saved comes back


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


@pytest.mark.parametrize(
    "value", [Opaque(), {1, 2}, errno, np.void(b"ab"), errno.ENOSPC.real.bit_length, [Opaque()]]
)
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


# What is damaged is refused


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("save")
    filled("wrapped", max_priority="buffer").save(folder)
    return folder


@pytest.fixture
def broken(saved, tmp_path):
    """A copy of a save, to break."""
    return pathlib.Path(shutil.copytree(saved, tmp_path / "broken"))


def array_file(folder, name):
    return folder / read_manifest(folder)["files"][name]["file"]


NAMES = sorted(filled("wrapped", max_priority="buffer").get_state()["arrays"])
NON_EMPTY = [name for name in NAMES if name != "free_rows"]


def assert_refused(folder, file, match=""):
    """By name; and what is saved over a damaged save is whole again."""
    with pytest.raises(ValueError, match=f"{file.name}: got .*{match}.*expected "):
        PrioritizedReplay.load(folder)
    replay = filled("half full")
    replay.save(folder)
    assert_same_state(PrioritizedReplay.load(folder), replay)


@pytest.mark.parametrize("where", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("name", [*NON_EMPTY, MANIFEST])
def test_a_flipped_byte(broken, name, where):
    file = broken / MANIFEST if name == MANIFEST else array_file(broken, name)
    content = bytearray(file.read_bytes())
    content[round(where * (len(content) - 1))] ^= 0x10
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"{file.name}: got .*expected "):
        PrioritizedReplay.load(broken)


def test_any_flipped_bit_of_the_manifest(broken):
    file = broken / MANIFEST
    content = bytearray(file.read_bytes())
    for bit in range(0, 8 * len(content), 61):
        content[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match=f"{file.name}: got "):
            SaveReader(bytes(content), "")
        content[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("name", [*NAMES, MANIFEST])
def test_a_truncated_file(broken, name):
    file = broken / MANIFEST if name == MANIFEST else array_file(broken, name)
    os.truncate(file, file.stat().st_size - 1)
    with pytest.raises(ValueError, match=f"{file.name}: got .*expected "):
        PrioritizedReplay.load(broken)


@pytest.mark.parametrize("name", NON_EMPTY)
def test_a_longer_file(broken, name):
    file = array_file(broken, name)
    with open(file, "ab") as f:
        f.write(b"\n")
    assert_refused(broken, file, "bytes")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file(broken, name):
    file = array_file(broken, name)
    file.unlink()
    assert_refused(broken, file, "no such file")


def test_files_that_changed_places(broken):
    one, two = array_file(broken, "masses"), array_file(broken, "priorities")
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    assert_refused(broken, one, "crc32")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"nonsense", b"\xff\xfe", b"[" * 100_000, b'{"version": 1}']
)
def test_a_foreign_manifest(broken, content):
    (broken / MANIFEST).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{MANIFEST}: got .*expected the manifest of"):
        PrioritizedReplay.load(broken)
    with pytest.raises(FileExistsError, match=MANIFEST):
        filled("empty").save(broken)
    assert (broken / MANIFEST).read_bytes() == content


def test_a_newer_version(broken):
    write_manifest(broken, read_manifest(broken) | {"version": 2, "written_by": "9.0"})
    assert_refused(broken, broken / MANIFEST, r"version 2, by 9\.0")


@pytest.mark.parametrize("path", ["nothing", ".", "file"])
def test_a_folder_without_a_save(tmp_path, path):
    (tmp_path / "file").write_text("text")
    with pytest.raises(FileNotFoundError, match=f"got no {MANIFEST} there, expected"):
        PrioritizedReplay.load(tmp_path / path)


@pytest.mark.parametrize(
    "change",
    [
        {"file": "../../etc/passwd"},
        {"file": None},
        {"dtype": "O"},
        {"dtype": "V8"},
        {"dtype": "M8[s]"},
        {"dtype": "import os"},
        {"shape": [10**15]},
        {"shape": [-1]},
        {"shape": "ab"},
        {"bytes": "many"},
        {"data_offset": 0},
        {"crc32": "xyz"},
    ],
)
def test_a_manifest_that_does_not_make_sense(broken, change):
    manifest = read_manifest(broken)
    manifest["files"]["masses"] |= change
    write_manifest(broken, manifest)
    with pytest.raises(ValueError, match=rf"{MANIFEST}: got "):
        PrioritizedReplay.load(broken)


@pytest.mark.parametrize("key", ["capacity", "options", "state"])
def test_a_description_without_what_a_replay_needs(broken, key):
    manifest = read_manifest(broken)
    del manifest["description"][key]
    write_manifest(broken, manifest)
    with pytest.raises(ValueError, match=f"not the save of a replay, '{key}' is missing"):
        PrioritizedReplay.load(broken)


@pytest.mark.parametrize(
    "line",
    [
        b'{"$type":"unknown"}',
        b'{"$type":"array","dtype":"O","shape":[1],"base64":"AAAAAAAAAAA="}',
        b'{"$type":"array","dtype":"<f8","shape":[9000000000000],"base64":"AAAAAAAAAAA="}',
        b'{"$type":"bytes","base64":"%%%"}',
        b'{"$type":["dict"]}',
        b'{"$type":"tuple"}',
        b'{"$type":"dict","items":[[[],1]]}',
        b"[" * 100_000,
        b"1 2",
        b"__import__('os')",
    ],
)
def test_an_object_that_was_not_written_by_a_save(broken, line):
    file = array_file(broken, "infos.0")
    lines = file.read_bytes().splitlines()
    lines[3] = line
    content = b"".join(line + b"\n" for line in lines)
    file.write_bytes(content)
    manifest = read_manifest(broken)
    changes = {"bytes": len(content), "crc32": f"{zlib.crc32(content):08x}"}
    manifest["files"]["infos.0"] |= changes
    write_manifest(broken, manifest)
    with pytest.raises(ValueError, match=f"{file.name}: got not a saved value"):
        PrioritizedReplay.load(broken)


# What cannot be written leaves the old save whole


def saved_before(tmp_path):
    """A replay, saved, and what the folder held then."""
    replay = filled("wrapped")
    replay.save(tmp_path)
    return replay.get_state(), sorted(os.listdir(tmp_path))


def assert_old_save_whole(folder, before):
    state, files = before
    assert_equal(PrioritizedReplay.load(folder).get_state(), state)
    assert sorted(os.listdir(folder)) == files


@pytest.mark.parametrize("nth", [0, 1, 7, 15, 17])
def test_a_full_disk(tmp_path, monkeypatch, nth):
    before = saved_before(tmp_path)
    calls = iter(range(1000))

    def fsync(_):  # where a full disk may first be seen
        if next(calls) == nth:
            raise OSError(errno.ENOSPC, "No space left on device")

    replay = filled("half full")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match="No space left"):
            replay.save(tmp_path)
    assert_old_save_whole(tmp_path, before)
    replay.save(tmp_path)
    assert_same_state(PrioritizedReplay.load(tmp_path), replay)


def test_a_file_that_cannot_be_written_to_its_end(tmp_path):
    before = saved_before(tmp_path)
    largest = max(file.stat().st_size for file in tmp_path.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest // 2, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            filled("wrapped", seed=5).save(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_old_save_whole(tmp_path, before)


DIES = """
import os, signal, sys
from rllib_per_acc import PrioritizedReplay
replay = PrioritizedReplay.load(sys.argv[1], capacity=35)
calls, fsync = iter(range(1000)), os.fsync
def dying_fsync(descriptor):
    fsync(descriptor)
    if next(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
os.fsync = dying_fsync
replay.save(sys.argv[1])
"""


@pytest.mark.parametrize("nth", [0, 9, "manifest"])
def test_a_killed_process(tmp_path, nth):
    state, files = saved_before(tmp_path)
    nth = len(files) - 1 if nth == "manifest" else nth
    command = [sys.executable, "-c", DIES, str(tmp_path), str(nth)]
    died = subprocess.run(command, check=False, timeout=120)
    assert died.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == len(files) + nth + 1
    assert_equal(PrioritizedReplay.load(tmp_path).get_state(), state)
    filled("half full").save(tmp_path)  # what was left goes with the next save
    assert len(os.listdir(tmp_path)) == len(files)


def test_files_of_others_in_the_folder_stay(tmp_path):
    (tmp_path / "notes.npy").write_text("mine")
    replay = filled("half full")
    replay.save(tmp_path)
    replay.save(tmp_path)
    assert (tmp_path / "notes.npy").read_text() == "mine"
    assert_same_state(PrioritizedReplay.load(tmp_path), replay)


# What a state must be: `restore_arrays` is all or nothing


def wrong_states():
    """(what is wrong, how it is made, what the error names)."""

    def at(name, index, value):
        def change(_, arrays):
            arrays[name][index] = value

        return change

    def instead(name, function):
        def change(_, arrays):
            arrays[name] = function(arrays[name])

        return change

    def described(*keys, value):
        def change(description, _):
            for key in keys[:-1]:
                description = description[key]
            description[keys[-1]] = value

        return change

    for name in NON_EMPTY:
        column = name.removesuffix(".present").removesuffix(".0")
        if name != "priorities":  # computed from the masses where there are none
            yield f"{name} missing", lambda _, a, name=name: a.pop(name), re.escape(column)
        yield f"{name} shorter", instead(name, lambda a: a[:-1]), "."
        yield f"{name} a list", instead(name, lambda a: a.tolist()), "."
    for name in ("rewards.0", "masses", "generation", "episode_rows", "episode_num_rows"):
        yield f"{name} of another dtype", instead(name, lambda a: a.astype(np.float32)), name[:7]
    yield "a mass NaN", at("masses", 3, np.nan), "masses: got nan at row 3"
    yield "a mass infinite", at("masses", 3, np.inf), "masses: got inf at row 3"
    yield "a mass negative", at("masses", 3, -1.0), "masses: got -1.0 at row 3"
    yield "a mass too large", at("masses", 3, 1e308), "1e\\+308"
    yield "a step without mass", at("masses", 3, 0.0), "masses: got 0.0 at row 3"
    yield "mass without a step", at("masses", slice(None), 1.0), "masses: got 1.0 at row"
    yield "a priority NaN", at("priorities", 3, np.nan), "priorities: got nan at row 3"
    yield "a row below 0", at("episode_rows", 0, -1), "episode_rows: got -1"
    yield "a row too high", at("episode_rows", 0, 10_000), "episode_rows: got .* 10000"
    yield "a row twice", lambda _, a: a["episode_rows"].__setitem__(0, a["episode_rows"][1]), "once"
    yield "an episode without rows", at("episode_num_rows", 0, 0), "episode_num_rows"
    yield "an episode of -1 rows", at("episode_num_rows", 0, -1), "episode_num_rows"
    yield "flags", at("episode_flags", 0, 4), "episode_flags"
    yield "a time step", at("episode_t_started", 0, 2**40), "episode_t_started"
    yield "an id twice", at("episode_ids", 0, "episode-32"), "episode_ids"
    yield "an id that is a list", instead("episode_ids", lambda a: np.array([[]] * 10, object)), "."
    yield "a layout", described("columns", "actions", value={"list": [None]}), "layout"
    yield (
        "a layout of more leaves",
        described("columns", "actions", value={"tuple": [None] * 2}),
        ".",
    )
    yield "an extra output", described("columns", "extras", value=["logits", "value"]), "value"
    yield "no columns", described("columns", value=None), "."
    yield "alpha", described("sampler", "alpha", value=-1), "alpha"
    yield "a maximum", described("sampler", "lifetime_max_priority", value=float("nan")), "lifetime"
    yield "random numbers", described("rng", value={"bit_generator": "PCG64"}), "."
    yield "other random numbers", described("rng", "bit_generator", value="MT19937"), "."
    yield "a counter", described("lifetimes", "steps_added", value=1.5), "steps_added"
    yield "another counter", described("lifetimes", "steps_eaten", value=1), "steps_eaten"
    yield "a negative counter", described("stale_priorities_dropped", value=-1), "stale"


WRONG = {what: (change, match) for what, change, match in wrong_states()}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_state_is_refused_and_changes_nothing(what):
    change, match = WRONG[what]
    state = filled("wrapped", max_priority="buffer").get_state()
    change(state["description"], state["arrays"])
    replay = filled("half full", max_priority="buffer")
    handle = replay.sample(5).handle
    before = replay.get_state()
    with pytest.raises(ValueError, match=f"^state: cannot be restored, .*{match}"):
        replay.set_state(state)
    assert_equal(replay.get_state(), before)
    replay.update(handle, np.ones(5))
    assert replay.info()["stale_priorities_dropped"] == 0
    use(replay, 50)


def test_a_state_belongs_to_whoever_has_it():
    state = filled("wrapped").get_state()
    frozen = copy.deepcopy(state)
    one, two = PrioritizedReplay(100), PrioritizedReplay(100)
    one.set_state(state)
    two.set_state(state)
    for number in range(100, 130):
        use(one, number)
    one.sample(8, include_infos=True).infos[0]["mine"] = 1
    assert_equal(state, frozen)
    assert_equal(two.get_state(), frozen)


def test_a_state_of_read_only_arrays_can_be_restored():
    state = filled("wrapped").get_state()
    for array in state["arrays"].values():
        array.flags.writeable = False
    replay = PrioritizedReplay(100)
    replay.set_state(state)
    for number in range(100, 130):
        use(replay, number)


# Memory, and files that are elsewhere


def test_files_are_written_and_read_in_bounded_pieces(monkeypatch):
    monkeypatch.setattr(rllib_per_acc.replay_files, "PIECE_BYTES", 100)
    replay = filled("wrapped")
    description, arrays = replay.state_arrays()
    *pieces, (last, manifest) = pieces_of_save(description, arrays)
    assert last == MANIFEST
    assert max(len(piece) for _, piece in pieces) <= max(100, 128)  # a header has 128 bytes
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
