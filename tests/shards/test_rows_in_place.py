"""Rows that are copied once on their way: the arrays that arrive."""

import pickle

import numpy as np
import pytest
from shard_cases import make_replay

from rllib_per_acc import EpisodeChunk, PrioritizedReplay
from rllib_per_acc.changes import Change
from rllib_per_acc.columns import Column
from rllib_per_acc.shards.rows_in_place import LARGE_ROW, RowsInPlace, take_in_place

SHAPES = [((84, 84, 4), np.uint8), ((4099,), np.float32), ((70, 31), "<M8[s]"), ((3, 900), "c16")]


def leaf_of(shape, dtype, n=9):
    random = np.random.default_rng(0).integers(0, 250, (n, *shape))
    return random.astype(dtype)


def sent(value, alignment):
    """Pickled and read again, with buffers laid out in one piece of memory, as Ray does."""
    buffers = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    raws = [buffer.raw() for buffer in buffers]
    starts, end = [], 0
    for raw in raws:
        starts.append(end)
        end = -(-(end + len(raw)) // alignment) * alignment
    memory = np.zeros(end, np.uint8)
    for start, raw in zip(starts, raws, strict=True):
        memory[start : start + len(raw)] = np.frombuffer(raw, np.uint8)
    views = [memory[s : s + len(r)] for s, r in zip(starts, raws, strict=True)]
    return pickle.loads(data, buffers=views), memory


@pytest.mark.parametrize(("shape", "dtype"), SHAPES, ids=str)
@pytest.mark.parametrize("alignment", [1, 64])
@pytest.mark.parametrize("rows", [[3], [0, 1], [5, 2, 2, 8, 0, 5]], ids=str)
def test_they_are_the_same_array_without_a_copy(shape, dtype, alignment, rows):
    leaf = leaf_of(shape, dtype)
    got, memory = sent(RowsInPlace(leaf, np.array(rows, np.int32)), alignment)
    assert got.dtype == leaf.dtype
    np.testing.assert_array_equal(got, leaf[rows])
    assert np.shares_memory(got, memory)
    assert not got.flags.writeable


def test_buffers_that_lie_elsewhere_are_copied_together():
    leaf = leaf_of((84, 84, 4), np.uint8)
    rows = np.array([4, 1, 7, 7, 0], np.int32)
    data = pickle.dumps(RowsInPlace(leaf, rows), protocol=5)  # within the pickle itself
    np.testing.assert_array_equal(pickle.loads(data), leaf[rows])
    buffers = []
    data = pickle.dumps(RowsInPlace(leaf, rows), protocol=5, buffer_callback=buffers.append)
    apart = [np.frombuffer(b.raw(), np.uint8).copy() for b in buffers]
    apart[1] = np.concatenate([np.zeros(100, np.uint8), apart[1]])[100:]
    np.testing.assert_array_equal(pickle.loads(data, buffers=apart), leaf[rows])


def test_only_large_rows_of_numbers_are_left_in_place():
    column = Column("observations")
    n = 3
    values = {
        "image": np.zeros((n, LARGE_ROW), np.uint8),
        "small": np.zeros((n, LARGE_ROW - 1), np.uint8),
        "objects": np.array([{}] * n, object),
    }
    change = Change()
    rows = np.arange(n, dtype=np.int32)
    column.plan(change, rows[:0], rows, column.prepare([values], [n]), n)
    change.make()
    taken = take_in_place(column, np.array([2, 0]))
    assert isinstance(taken["image"], RowsInPlace)
    assert isinstance(taken["small"], np.ndarray)
    assert isinstance(taken["objects"], np.ndarray)
    assert isinstance(take_in_place(column, np.array([], int))["image"], np.ndarray)


def images(number, length=12):
    rng = np.random.default_rng(number)
    frames = {
        "image": rng.integers(0, 255, (length + 1, 84, 84, 4), np.uint8),
        "facts": rng.random((length + 1, 3)),
    }
    return EpisodeChunk(
        f"e{number}", frames, np.zeros(length, np.int64), np.arange(float(length)), terminated=True
    )


def image_of(batch):
    return batch.observations["image"], batch.next_observations["image"]


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("num_shards", [1, 2])
def test_samples_of_images_are_those_of_a_local_replay(num_shards):
    remote = make_replay(num_shards, 60, prefetch=1)
    frames = {}
    for number in range(7):
        chunk = images(number)
        frames |= {(number, t): chunk.observations["image"][t] for t in range(len(chunk) + 1)}
        remote.add([chunk])
    for _ in range(2):
        batch = remote.sample(40, n_step=2, include_episode_ids=True)
        number = [int(id_[1:]) for id_ in batch.episode_id]
        now, then = image_of(batch)
        np.testing.assert_array_equal(
            now, [frames[n, t] for n, t in zip(number, batch.t, strict=True)]
        )
        reached = zip(number, batch.t + batch.n_step, strict=True)
        np.testing.assert_array_equal(then, [frames[key] for key in reached])
        batch.update(np.ones(40))
        remote.set_state(remote.get_state())  # goes on, with another store


@pytest.mark.usefixtures("ray_session")
def test_one_shard_sends_images_without_a_copy_in_between():
    """The rows lie in Ray's store as the reader's array shows them: that is what it points to."""
    remote, local = make_replay(1, 60), PrioritizedReplay(60, alpha=1.0, seed=1)
    for replay in (remote, local):
        replay.add([images(0)])
    ours, theirs = remote.sample(16), local.sample(16)
    for got, expected in zip(image_of(ours), image_of(theirs), strict=True):
        np.testing.assert_array_equal(got, expected)
        base = got
        while isinstance(base.base, np.ndarray):
            base = base.base
        assert type(base.base).__name__ == "_Table"
