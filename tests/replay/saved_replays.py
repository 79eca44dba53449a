"""Replays to save, what they hold after loading, and manifests to tamper with."""

import json
import zlib

import numpy as np

from rllib_per_acc import EpisodeChunk, PrioritizedReplay
from rllib_per_acc.replay_files import MANIFEST

FILLS = {"empty": 0, "half full": 5, "exactly full": 10, "wrapped": 33}


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


NAMES = sorted(filled("wrapped", max_priority="buffer").get_state()["arrays"])
NON_EMPTY = [name for name in NAMES if name != "free_rows"]
