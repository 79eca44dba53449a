"""A damaged, foreign or newer save is refused, by the name of the file."""

import os
import pathlib
import shutil
import subprocess
import sys
import zlib

import numpy as np
import pytest
from saved_replays import NAMES, NON_EMPTY, assert_same_state, filled, read_manifest, write_manifest

from rllib_per_acc import PrioritizedReplay
from rllib_per_acc.replay_files import MANIFEST, SaveReader


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
    with pytest.raises(ValueError, match=rf"{MANIFEST}: .*got .*, expected "):
        PrioritizedReplay.load(broken)


@pytest.mark.parametrize("key", ["capacity", "options", "state"])
def test_a_description_without_what_a_replay_needs(broken, key):
    manifest = read_manifest(broken)
    del manifest["description"][key]
    write_manifest(broken, manifest)
    with pytest.raises(ValueError, match=f"{MANIFEST}: description: got no '{key}'"):
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
        b'{"$type":"scalar","of":{"$type":"array","dtype":"<f4","shape":[0],"base64":""}}',
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


PEAK = """
import sys
from rllib_per_acc import PrioritizedReplay

def peak():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))

PrioritizedReplay(10)
before = peak()
try:
    PrioritizedReplay.load(sys.argv[1])
except ValueError as error:
    print(peak() - before, error)
"""


@pytest.mark.parametrize("claim", ["more rows", "longer rows", "more of everything"])
def test_what_claims_to_be_large_takes_no_memory(broken, claim):
    """Files of 500 MB that take no room: refused before they are read, or by their checksums."""
    manifest = read_manifest(broken)
    used = manifest["files"]["generation"]["shape"][0]
    rows = 2 * 10**7
    names = ["observations.0", "masses", "generation"]
    if claim == "more of everything":
        names = [n for n in NAMES if not n.startswith("episode_") or n == "episode_rows"]
    for name in names if claim == "more of everything" else names[:1]:
        entry = manifest["files"][name]
        shape = list(entry["shape"])
        if claim == "longer rows":
            shape = [shape[0], 5 * 10**8 // shape[0] // np.dtype(entry["dtype"]).itemsize]
        elif name != "free_rows":
            shape[0] = rows
        entry["shape"] = shape
        if entry["dtype"] == "object":
            entry["bytes"] = 2 * rows
        else:
            size = np.dtype(entry["dtype"]).itemsize
            entry["bytes"] = entry["data_offset"] + size * int(np.prod(shape))
        os.truncate(broken / entry["file"], entry["bytes"])
    assert used < rows
    write_manifest(broken, manifest)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(broken)], capture_output=True, text=True, check=True,
        timeout=240,
    )  # fmt: skip
    peak, _, message = done.stdout.partition(" ")
    assert str(broken) in message
    assert int(peak) < 120e6
