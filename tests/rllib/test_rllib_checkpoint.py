"""A buffer in a folder: the same afterwards, arrays and JSON only, all or nothing."""

import itertools
import json
import resource
from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest
from rllib_buffers import COUNTERS, FILLS, filled, make_buffer, masses_of, use
from rllib_episodes import make_episode
from saved_files import files_below

from rllib_per_acc import PrioritizedReplay
from rllib_per_acc.replay_files import pieces_of_save
from rllib_per_acc.rllib.arrow_folder import ArrowFolder


@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("arrow", [False, True])
def test_a_restored_buffer_goes_on_the_same(
    tmp_path: Path, fill: str, sample_format: str, arrow: bool
) -> None:
    buffer = filled(fill, sample_format=sample_format)
    other = make_buffer(seed=77, sample_format=sample_format)
    other.add([make_episode(900, 5)])
    if arrow:
        local = pyarrow.fs.LocalFileSystem()
        given = {"filesystem": pyarrow.fs.SubTreeFileSystem(str(tmp_path), local)}
        assert buffer.save_to_path("a/b", **given) == "a/b"
        other.restore_from_path("a/b", **given)
        assert files_below(tmp_path / "a" / "b")
    else:
        buffer.save_to_path(tmp_path / "a")
        other.restore_from_path(f"file://{tmp_path}/a")
    assert masses_of(other) == masses_of(buffer)
    assert other._client.tree.sum() == buffer._client.tree.sum()
    for name in COUNTERS:
        assert getattr(other, name)() == getattr(buffer, name)(), name
    for number in range(500, 510):
        episodes = [make_episode(number, 9, "terminated")]
        assert use(buffer, episodes) == use(other, episodes)
    assert masses_of(other) == masses_of(buffer)


def test_only_arrays_and_json_are_written(tmp_path: Path) -> None:
    filled("wrapped").save_to_path(tmp_path)
    files = files_below(tmp_path)
    assert {path.suffix for path in files} == {".npy", ".jsonl", ".json"}
    for path in files:
        if path.suffix == ".npy":
            np.load(path, allow_pickle=False)
        elif path.suffix == ".jsonl":
            for line in path.read_text().splitlines():
                json.loads(line)
        else:
            assert path.name == "manifest.json"
            json.loads(path.read_text())


def test_without_rllib_a_part_can_be_looked_into(tmp_path: Path) -> None:
    buffer = filled("wrapped")
    buffer.save_to_path(tmp_path)
    (part,) = tmp_path.rglob("part-0")
    masses = PrioritizedReplay.load(part).get_priorities()["mass"]
    assert masses.tolist() == buffer.get_priorities()["mass"].tolist()


def test_a_save_takes_the_place_of_the_one_before_it(tmp_path: Path) -> None:
    filled("wrapped").save_to_path(tmp_path)
    (tmp_path / "notes").mkdir()
    number = len(files_below(tmp_path))
    buffer = filled("half full")
    buffer.save_to_path(tmp_path)
    assert len(files_below(tmp_path)) == number
    assert (tmp_path / "notes").is_dir()
    other = make_buffer()
    other.restore_from_path(tmp_path)
    assert masses_of(other) == masses_of(buffer)


def assert_holds(folder: Path, masses: dict, files: list[Path]) -> None:
    assert files_below(folder) == files
    other = make_buffer()
    other.restore_from_path(folder)
    assert masses_of(other) == masses


def test_where_the_disk_is_full_the_old_save_stays_whole(tmp_path: Path) -> None:
    buffer = filled("wrapped")
    buffer.save_to_path(tmp_path)
    before = masses_of(buffer), files_below(tmp_path)
    sizes = sorted({path.stat().st_size for path in files_below(tmp_path)})
    buffer.add([make_episode(900, 30)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for largest in sizes[1:]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, hard))
        try:
            with pytest.raises(OSError, match="too large"):
                buffer.save_to_path(tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert_holds(tmp_path, *before)


@pytest.mark.parametrize("nth", [0, 5, 12, 13])
def test_where_a_file_system_fails_the_old_save_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    filesystem = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    buffer = filled("wrapped")
    buffer.save_to_path("a", filesystem=filesystem)
    before = masses_of(buffer), files_below(tmp_path)
    buffer.add([make_episode(900, 30)])
    calls = itertools.count()

    def close(_self, file) -> None:  # where an object store says that it has no room
        file.close()
        if next(calls) == nth:
            raise OSError("quota exceeded")

    with monkeypatch.context() as patch:
        patch.setattr(ArrowFolder, "close_written", close)
        with pytest.raises(OSError, match="quota"):
            buffer.save_to_path("a", filesystem=filesystem)
    assert_holds(tmp_path / "a", *before)
    buffer.save_to_path("a", filesystem=filesystem)
    assert_holds(tmp_path / "a", masses_of(buffer), files_below(tmp_path / "a"))


def damaged_folders(folder: Path):
    """The folder with one thing wrong after another."""
    manifest = folder / "manifest.json"
    whole = manifest.read_bytes()
    yield "no manifest", manifest.unlink()
    yield "no JSON", manifest.write_text("{")
    yield "a pickle", manifest.write_bytes(b"\x80\x05K\x01.")
    yield "another program's", manifest.write_text('{"format": "other"}')
    yield "changed", manifest.write_bytes(whole.replace(b"0-replay", b"1-replay"))
    (part,) = folder.rglob("part-0/manifest.json")
    manifest.write_bytes(part.read_bytes())
    yield "a part's", None
    manifest.write_bytes(whole)
    for path in files_below(folder):
        whole = path.read_bytes()
        yield f"half of {path.name}", path.write_bytes(whole[: len(whole) // 2])
        path.write_bytes(whole)


def test_a_damaged_folder_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    filled("wrapped").save_to_path(tmp_path)
    other = filled("half full")
    before = masses_of(other)
    for what, _ in damaged_folders(tmp_path):
        with pytest.raises((ValueError, FileNotFoundError), match=str(tmp_path)):
            other.restore_from_path(tmp_path)
        assert masses_of(other) == before, what
    other.restore_from_path(tmp_path)


def test_folders_outside_are_not_read(tmp_path: Path) -> None:
    filled("wrapped").save_to_path(tmp_path / "a")
    (save,) = (p.name for p in (tmp_path / "a").iterdir() if p.is_dir())
    for saved, folder in ((f"../a/{save}", "0-replay"), (save, f"../{save}/0-replay")):
        replays = {"replay": {"folder": folder, "parts": ["part-0"], "steps_sampled": 0}}
        description = {"save": saved, "replays": replays, "more": {}}
        ((_, manifest),) = pieces_of_save(description, {})
        (tmp_path / "a" / "manifest.json").write_bytes(manifest)
        with pytest.raises(ValueError, match=r"expected (16 hex|the name of a folder)"):
            make_buffer().restore_from_path(tmp_path / "a")


def test_a_buffer_with_other_replays_is_refused(tmp_path: Path) -> None:
    class TwoReplays(type(make_buffer())):
        def _replays(self):
            return {"one": self._client, "two": PrioritizedReplay(100)}

    TwoReplays(100, num_shards=0).save_to_path(tmp_path)
    assert len(list(tmp_path.rglob("part-0"))) == 2
    buffer = filled("half full")
    with pytest.raises(ValueError, match=r"\['one', 'two'\], expected \['replay'\]"):
        buffer.restore_from_path(tmp_path)


def test_a_sample_from_before_cannot_be_updated_after(tmp_path: Path) -> None:
    buffer = filled("full")
    buffer.save_to_path(tmp_path)
    buffer.sample(num_items=8)
    buffer.restore_from_path(tmp_path)
    with pytest.raises(RuntimeError, match="sample"):
        buffer.update_priorities(np.ones(8))
