"""Only what saves have put into a folder is read, replaced or removed; links are not followed."""

import json
import os
import pathlib
import signal
import stat
import subprocess
import sys

import pytest
from saved_replays import assert_same_state, filled, read_manifest

from rllib_per_acc import PrioritizedReplay
from rllib_per_acc.local_folder import LocalFolder
from rllib_per_acc.replay_checkpoint import SavedReplays, save_replays
from rllib_per_acc.replay_files import FORMAT, MANIFEST


def tree_of(folder):
    """Every path below a folder, and what is in the files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(pathlib.Path(folder).rglob("*"))
    }


def save(folder, replays):
    save_replays(LocalFolder(folder), replays)


def restored(folder, names):
    replays = {name: PrioritizedReplay(100, seed=9) for name in names}
    SavedReplays(LocalFolder(folder)).restore(replays)
    return replays


SAVES = {
    "replay": lambda folder: filled("half full").save(folder),
    "checkpoint": lambda folder: save(folder, {"a": filled("half full"), "b": filled("empty")}),
}


@pytest.fixture(params=SAVES)
def save_in(request):
    return SAVES[request.param]


@pytest.mark.parametrize("name", ["0123456789abcdef", "0123456789abcdef-0-x.npy", "notes", ".x"])
@pytest.mark.parametrize("is_folder", [True, False])
def test_a_folder_of_something_else_is_refused(tmp_path, save_in, name, is_folder):
    if is_folder:
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.txt").write_text("mine")
    else:
        (tmp_path / name).write_text("mine")
    before = tree_of(tmp_path)
    with pytest.raises(FileExistsError, match=f"got '{name}' in it and no save, expected an empty"):
        save_in(tmp_path)
    assert tree_of(tmp_path) == before


def test_what_others_put_beside_a_save_or_into_it_stays(tmp_path, save_in):
    save_in(tmp_path)
    mine = ["0123456789abcdef/mine.txt", "0123456789abcdef-0-x.npy", "0123456789abcdef.new", "x"]
    mine += [
        f"{path.relative_to(tmp_path)}/mine.txt" for path in tmp_path.rglob("*") if path.is_dir()
    ]
    for name in mine:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    save_in(tmp_path)
    save_in(tmp_path)
    for name in mine:
        assert (tmp_path / name).read_text() == "mine"


def test_a_save_leaves_nothing_of_the_one_before_it(tmp_path, save_in):
    save_in(tmp_path)
    number = len(tree_of(tmp_path))
    save_in(tmp_path)
    assert len(tree_of(tmp_path)) == number


@pytest.mark.parametrize("name", [MANIFEST, f"{MANIFEST}.new", "0123456789abcdef.begun"])
def test_nothing_is_written_through_a_link(tmp_path, save_in, name):
    """Neither beside a good save nor over a damaged one."""
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    save_in(folder)
    outside.write_text(json.dumps({"format": FORMAT, "saves": []}))
    before = outside.read_bytes()
    for damaged in (False, True):
        if damaged:
            (folder / MANIFEST).write_text(f'{{"format": "{FORMAT}", "damaged')
        if name != MANIFEST:
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(outside)
            save_in(folder)
            assert (folder / name).is_symlink()
        else:
            (folder / name).unlink()
            (folder / name).symlink_to(outside)
            with pytest.raises(FileExistsError, match=MANIFEST):
                save_in(folder)
            (folder / name).unlink()
            save_in(tmp_path / "other")
            (folder / name).write_text(f'{{"format": "{FORMAT}", "damaged')
            save_in(folder)
        assert outside.read_bytes() == before


def test_nothing_is_read_or_removed_through_a_link(tmp_path):
    """Not a file, not a folder of a part, of a replay or of the whole, not a pipe."""
    replays = {"a": filled("half full")}
    for which in range(6):
        folder, outside = tmp_path / f"in-{which}", tmp_path / f"out-{which}"
        save(folder, replays)
        (part,) = folder.rglob("part-0")
        moved = [part, part.parent, part.parent.parent, sorted(part.glob("*.npy"))[0]]
        moved += [part / MANIFEST, folder / MANIFEST]
        moved[which].rename(outside)
        moved[which].symlink_to(outside)
        before = tree_of(outside) if outside.is_dir() else outside.read_bytes()
        with pytest.raises((FileNotFoundError, ValueError), match=str(folder)):
            restored(folder, replays)
        if which < 5:
            save(folder, replays)
            assert_same_state(restored(folder, replays)["a"], replays["a"])
        assert (tree_of(outside) if outside.is_dir() else outside.read_bytes()) == before


def test_a_pipe_is_no_file(tmp_path):
    filled("half full").save(tmp_path)
    file = tmp_path / read_manifest(tmp_path)["files"]["masses"]["file"]
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ValueError, match=f"{file.name}: got no such file"):
        PrioritizedReplay.load(tmp_path)


def test_the_folder_itself_may_be_a_link(tmp_path, save_in):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    save_in(tmp_path / "link")
    assert MANIFEST in os.listdir(tmp_path / "there")


def test_folders_are_on_disk_before_the_manifest_counts(tmp_path, monkeypatch):
    """The entry of each new folder and file: its folder is synced after it was made."""
    pending, replaced = set(), []
    mkdir, replace, open_ = os.mkdir, os.replace, os.open

    def path_of(descriptor):
        return os.readlink(f"/proc/self/fd/{descriptor}")

    def noted_mkdir(path, *args, dir_fd=None, **kwargs):
        mkdir(path, *args, dir_fd=dir_fd, **kwargs)
        pending.add(os.path.dirname(os.path.abspath(path)) if dir_fd is None else path_of(dir_fd))

    def noted_open(path, flags, *args, dir_fd=None):
        descriptor = open_(path, flags, *args, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            pending.update([path_of(dir_fd), path_of(descriptor)])
        return descriptor

    def noted_fsync(descriptor):
        pending.discard(path_of(descriptor))

    def noted_replace(old, new, *, src_dir_fd, dst_dir_fd):
        replaced.append((path_of(dst_dir_fd), set(pending)))
        replace(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        pending.add(path_of(dst_dir_fd))

    for name, noted in (
        ("mkdir", noted_mkdir), ("replace", noted_replace), ("fsync", noted_fsync),
        ("open", noted_open),
    ):  # fmt: skip
        monkeypatch.setattr(os, name, noted)
    folder = tmp_path / "new" / "newer"
    save(folder, {"a": filled("half full"), "b": filled("half full")})
    monkeypatch.undo()
    *parts, (last, missing) = replaced
    assert len(parts) == 2
    assert last == str(folder)
    assert missing == {str(folder)}  # where the manifest is about to be; synced when it is there
    assert pending == set()


DIES = """
import os, signal, sys
from rllib_per_acc import PrioritizedReplay
from rllib_per_acc.local_folder import LocalFolder
from rllib_per_acc.replay_checkpoint import SavedReplays, save_replays
replays = {"a": PrioritizedReplay(100), "b": PrioritizedReplay(100)}
if sys.argv[3] == "again":
    SavedReplays(LocalFolder(sys.argv[1])).restore(replays)
calls, fsync = iter(range(1000)), os.fsync
def dying_fsync(descriptor):
    fsync(descriptor)
    if next(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
os.fsync = dying_fsync
save_replays(LocalFolder(sys.argv[1]), replays)
"""


@pytest.mark.parametrize("first", ["first", "again"])
@pytest.mark.parametrize("nth", [0, 3, 6, 20])
def test_what_a_killed_process_left_of_a_checkpoint_goes_with_the_next(tmp_path, nth, first):
    replays = {"a": filled("half full"), "b": filled("wrapped")}
    save(tmp_path / "other", replays)
    number = len(tree_of(tmp_path / "other"))
    folder = tmp_path / "folder"
    if first == "again":
        save(folder, replays)
    command = [sys.executable, "-c", DIES, str(folder), str(nth), first]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    if first == "again":
        assert_same_state(restored(folder, replays)["b"], replays["b"])
    save(folder, replays)
    assert_same_state(restored(folder, replays)["b"], replays["b"])
    assert len(tree_of(folder)) == number


@pytest.mark.parametrize("saves", [["../../x"], ["x"], "0123456789abcdef", None, [3]])
def test_a_journal_that_makes_no_sense_removes_nothing(tmp_path, saves):
    folder = tmp_path / "folder"
    replay = filled("half full")
    replay.save(folder)
    (tmp_path / "x").write_text("mine")
    journal = folder / "0123456789abcdef.begun"
    journal.write_text(json.dumps({"format": FORMAT, "saves": saves}))
    (folder / "x").write_text("mine")
    replay.save(folder)
    assert (folder / "x").read_text() == (tmp_path / "x").read_text() == "mine"
    assert journal.exists()
    assert_same_state(PrioritizedReplay.load(folder), replay)


@pytest.mark.parametrize("name", [1, ("a", 2), "a/../b", "x" * 1_000_000, "", "ü\n", b"raw"])
def test_a_replay_may_have_any_name(tmp_path, name):
    replays = {name: filled("half full")}
    save(tmp_path, replays)
    (found,) = SavedReplays(LocalFolder(tmp_path)).names
    assert (found, type(found)) == (name, type(name))
    assert_same_state(restored(tmp_path, replays)[name], replays[name])
    assert max(len(path.name) for path in tmp_path.rglob("*")) < 120


def test_new_files_can_be_read_by_whom_the_mask_lets(tmp_path):
    mask = os.umask(0o027)
    try:
        filled("half full").save(tmp_path / "save")
    finally:
        os.umask(mask)
    assert {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "save").iterdir()} == {0o640}
