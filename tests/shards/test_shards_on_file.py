"""Shards in folders: written and read by themselves, or streamed through the client."""

import itertools
import os
import resource
import signal

import numpy as np
import pyarrow.fs
import pytest
import ray
from shard_cases import chunk, comes_true, make_replay, masses_of, steps_of

from rllib_per_acc import EpisodeChunk, PrioritizedReplay
from rllib_per_acc.local_folder import LocalFolder
from rllib_per_acc.replay_checkpoint import SavedReplays, save_replays
from rllib_per_acc.rllib.arrow_folder import folder_at
from rllib_per_acc.shards import ReplayShard
from rllib_per_acc.shards.connection import MAX_WRITES_IN_FLIGHT
from rllib_per_acc.shards.shard_states import ShardOnFile

pytestmark = pytest.mark.usefixtures("ray_session")


def folder_of(kind, path):
    """The same folder, as the shards find it too, or only through the client."""
    if kind == "local":
        return LocalFolder(path)
    return folder_at("a", pyarrow.fs.SubTreeFileSystem(str(path), pyarrow.fs.LocalFileSystem()))


def filled(num_shards, capacity=200, **options):
    replay = make_replay(num_shards, capacity, **options)
    for number in range(30):
        replay.add([chunk(number, 5 + number % 7)])
        batch = replay.sample(20)
        batch.update(batch.rewards + 0.1)
    replay.add([chunk(99, 6, done=False)])
    return replay


def saved_of(kind, path, replay):
    folder = folder_of(kind, path)
    save_replays(folder, {"replay": replay}, {"note": 1})
    return SavedReplays(folder)


def masses(replay):
    """The mass of each shard: the roots of their trees."""
    return [info["mass"] for info in replay.shard_info()]


KINDS = ["local", "streamed"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_shard_goes_on_the_same(tmp_path, kind):
    old = filled(1)
    saved = saved_of(kind, tmp_path, old)
    assert (saved.names, saved.more) == (["replay"], {"note": 1})
    new = make_replay(1, 200, options={"seed": 77})
    saved.restore({"replay": new})
    assert masses(new) == masses(old)
    for _ in range(3):
        batches = [replay.sample(30, n_step=(1, 2)) for replay in (old, new)]
        assert steps_of(batches[0]) == steps_of(batches[1])
        np.testing.assert_array_equal(batches[0].weights, batches[1].weights)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_two_shards_go_to_any_number(tmp_path, kind, after):
    old = filled(2, prefetch=2)
    saved = saved_of(kind, tmp_path, old)
    held, info = masses_of(old), old.info()
    if after:
        new = make_replay(after, 200 if after == 2 else 400, options={"seed": 77}, prefetch=2)
        new.add([chunk(500, 3)])
    else:
        new = PrioritizedReplay(400, alpha=1.0)
    saved.restore({"replay": new})
    assert masses_of(new) == held
    for name in ("steps_added", "steps_sampled", "steps_evicted", "steps", "episodes"):
        assert new.info()[name] == info[name], name
    if after == 2:
        assert masses(new) == masses(old)
        first = [replay.sample(30, n_step=(1, 2)) for replay in (old, new)]
        assert steps_of(first[0]) == steps_of(first[1])
    new.add([chunk(99, 4, 6)])  # goes on where it was
    assert len([key for key in masses_of(new) if key[0] == "e99"]) == 10
    assert new.sample(10).rewards.shape == (10,)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_part_changes_no_shard(tmp_path, kind):
    saved = saved_of(kind, tmp_path, filled(2))
    (rewards,) = (p for p in tmp_path.rglob("*rewards*") if p.parent.name == "part-1")
    rewards.write_bytes(rewards.read_bytes()[:-1] + b"!")
    for number in (2, 3):
        replay = filled(number)
        held = masses_of(replay)
        with pytest.raises(ValueError, match=r"part-1.*damaged"):
            saved.restore({"replay": replay})
        assert masses_of(replay) == held
        replay.add([chunk(600)])
        assert replay.sample(10).rewards.shape == (10,)


class ShardOfASmallDisk(ReplayShard):
    """Cannot write files of more than 1 kB when it has the steps of episode 600."""

    def add(self, chunks, *more):
        super().add(chunks, *more)
        if any(chunk.episode_id == "e600" for chunk in chunks):
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))


@pytest.mark.slow
def test_where_a_shard_finds_the_disk_full_the_old_save_stays(tmp_path):
    replay = make_replay(2, 2000, ShardOfASmallDisk)
    for number in range(20):
        replay.add([chunk(number, 20)])
    saved = saved_of("local", tmp_path, replay)
    held, files = masses_of(replay), sorted(tmp_path.rglob("*"))
    replay.add([chunk(600, 200)])
    with pytest.raises(OSError, match="File too large"):
        save_replays(LocalFolder(tmp_path), {"replay": replay})
    assert sorted(tmp_path.rglob("*")) == files
    other = make_replay(1, 2000)
    saved.restore({"replay": other})
    assert masses_of(other) == held
    assert len(masses_of(replay)) == len(held) + 200


class AddsMeanwhile(LocalFolder):
    """A folder that shards do not find, while whose first files are written others add."""

    is_local = False
    numbers = iter(range(701, 701 + MAX_WRITES_IN_FLIGHT))

    def __init__(self, path, writer):
        super().__init__(path)
        self.writer = writer

    def below(self, name):
        return AddsMeanwhile(super().below(name).path, self.writer)

    def open_to_write(self, file):
        # Not while the journal is written, which is before the shard begins.
        for number in itertools.islice(self.numbers, int(file.endswith(".npy"))):
            self.writer.add([chunk(number, 3)])  # not waited for: the shard is busy
        return super().open_to_write(file)


@pytest.mark.slow
def test_what_others_add_meanwhile_is_not_in_the_save(tmp_path):
    replay = filled(1, 5000)
    writer = replay.writer()
    writer.add([chunk(700, 3)])
    writer.flush()
    before = masses_of(replay)
    save_replays(AddsMeanwhile(str(tmp_path), writer), {"replay": replay})
    writer.flush()
    assert len(masses_of(replay)) == len(before) + 3 * MAX_WRITES_IN_FLIGHT
    other = make_replay(1, 5000)
    SavedReplays(LocalFolder(tmp_path)).restore({"replay": other})
    assert masses_of(other) == before


@pytest.mark.slow
def test_a_shard_that_dies_does_not_keep_the_others_from_being_saved(tmp_path, monkeypatch):
    replay = filled(3)
    save, killed = ShardOnFile.save, []

    def dies(self, folder):
        if not killed and folder.path.endswith("part-1"):
            killed.append(replay.shard_info()[1]["pid"])
            os.kill(killed[0], signal.SIGKILL)
        save(self, folder)

    monkeypatch.setattr(ShardOnFile, "save", dies)
    saved = saved_of("local", tmp_path, replay)
    assert killed
    held = masses_of(replay)
    assert replay.shard_info()[1]["lost_steps"] > 0
    other = make_replay(2, 400)
    saved.restore({"replay": other})
    assert masses_of(other) == held
    monkeypatch.undo()
    replay.add([chunk(number) for number in range(200, 230)])
    saved_of("local", tmp_path, replay).restore({"replay": other})
    held = masses_of(replay)
    assert held.items() >= masses_of(other).items()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_do_not_stay_in_the_object_store(tmp_path, kind):
    replay = make_replay(1, 10_000)
    observations = np.zeros((5001, 8192), np.uint8)  # 40 MB, of 200 that there are
    for number in range(2):
        replay.add([EpisodeChunk(f"{number}", observations, np.zeros(5000, int), np.zeros(5000))])
    replay.sample(1)
    before = used_object_store()
    for _ in range(4):
        saved = saved_of(kind, tmp_path, replay)
        saved.restore({"replay": replay})
    assert comes_true(lambda: used_object_store() <= before + 2**20)
    assert replay.info()["steps"] == 10_000


def used_object_store():
    """Bytes in use on this node."""
    have = ray.cluster_resources()["object_store_memory"]
    return have - ray.available_resources().get("object_store_memory", 0)
