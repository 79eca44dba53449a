"""Replay in Ray actors: an Ape-X-shaped load, the driver's time, large batches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import ray

from rllib_per_acc.bench.buffer import ALPHA, BATCH, BETA, EPISODE_STEPS, N_STEP
from rllib_per_acc.bench.ray_load import Load, OwnSide, RLlibSide, Side
from rllib_per_acc.bench.report import Settings, Table
from rllib_per_acc.bench.timing import interleaved
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.shards import ShardedReplay, ShardOptions
from rllib_per_acc.structures import map_leaves

WRITERS = 4
LEARNER_SECONDS = 0.01
"""What stands in for the learner's work between two training steps of the driver."""


def run(settings: Settings) -> list[Table]:
    """Four tables: load, growth, driver, images."""
    with _local_ray():
        return [
            _load(settings),
            _growth(settings),
            _driver(settings),
            _images(settings),
        ]


@contextmanager
def _local_ray() -> Iterator[None]:
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=1 << 30,
    )
    try:
        yield
    finally:
        ray.shutdown()


def _load(settings: Settings) -> Table:
    """RLlib's buffer class as an actor, and one shard, window by window in turn."""
    capacity = 1 << 15 if settings.quick else 1 << 21
    repeats, seconds = (3, 1.0) if settings.quick else (5, 6.0)
    sides: dict[str, Side] = {
        "rllib": RLlibSide(capacity, settings.progress),
        "ours": OwnSide(capacity, 1, settings.progress),
    }
    loads = {name: Load(side, WRITERS) for name, side in sides.items()}
    rates: dict[str, list[Any]] = {name: [] for name in loads}
    for load in loads.values():
        load.run(seconds / 2)  # actors start, caches fill
    for repeat in range(repeats):
        settings.progress(f"ray: load, {repeat + 1} of {repeats}")
        for name in list(loads)[:: 1 if repeat % 2 else -1]:
            rates[name].append(loads[name].run(seconds))
    rows = []
    for what, at in (("learner batches/s", 0), ("transitions taken in/s", 1)):
        theirs, ours = ([rate[at] for rate in rates[name]] for name in ("rllib", "ours"))
        ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
        rows.append((what, *(statistics.median(values) for values in (theirs, ours, ratios))))
    return Table(
        name="ray_load",
        title=(
            f"One actor with {capacity:,} steps: {WRITERS} writers add {EPISODE_STEPS} steps a "
            f"call, a learner samples and updates {BATCH}"
        ),
        columns=("", "RLlib's buffer as an actor", "one shard", "ratio"),
        rows=rows,
        notes=(
            "Medians over windows of "
            f"{seconds:g} s in turn. RLlib's writers wait for each add, which favours its learner.",
        ),
    )


def _growth(settings: Settings) -> Table:
    """More shards, more writers."""
    capacity = 1 << 15 if settings.quick else 1 << 21
    shards, writers = ((1, 2), (1, 4)) if settings.quick else ((1, 2, 4), (1, 2, 4, 8))
    rows = []
    for num_shards in shards:
        side = OwnSide(capacity, num_shards, settings.progress)
        for num_writers in writers:
            settings.progress(f"ray: {num_shards} shards, {num_writers} writers")
            load = Load(side, num_writers)
            load.run(0.5)
            rates = load.run(1.0 if settings.quick else 4.0)
            rows.append((num_shards, num_writers, rates.batches, rates.transitions))
    return Table(
        name="ray_growth",
        title=f"The same load over more shards and writers, {capacity:,} steps",
        columns=("shards", "writers", "learner batches/s", "transitions taken in/s"),
        rows=rows,
        notes=("All of these processes share the cores of this machine.",),
    )


def _driver(settings: Settings) -> Table:
    """What add, sample and update take of the driver's time."""
    settings.progress("ray: the driver's time")
    rng = np.random.default_rng(0)
    replays = {
        f"add + sample + update, prefetch={prefetch}": _filled(prefetch, rng) for prefetch in (1, 0)
    }
    idle = ray.remote(num_cpus=0)(_Idle).remote()
    contenders: dict[str, Callable[[Any], object]] = {
        name: _step(replay) for name, replay in replays.items()
    }
    contenders["one call of an actor, not waited for"] = lambda _: idle.nothing.remote()
    contenders["a round trip to an actor"] = lambda _: ray.get(idle.nothing.remote())
    batch = next(iter(replays.values())).sample(BATCH, n_step=N_STEP)
    contenders["copying a batch"] = lambda _: map_leaves(np.copy, batch.columns)
    numbers = iter(range(1 << 30))

    def fresh() -> EpisodeChunk:
        chunk = _chunk(f"new {next(numbers)}", rng)
        time.sleep(LEARNER_SECONDS)
        return chunk

    timings = interleaved(contenders, fresh, repeats=20 if settings.quick else 200)
    return Table(
        name="ray_driver",
        title=(
            f"The driver's time: one shard, {EPISODE_STEPS} steps added, {BATCH} sampled and "
            "updated"
        ),
        columns=("", "ms"),
        rows=[(name, 1e3 * timing.median) for name, timing in timings.items()],
        notes=(f"{1e3 * LEARNER_SECONDS:g} ms in between stand for the learner.",),
    )


class _Idle:
    def nothing(self) -> None:
        """Does nothing."""


def _chunk(episode_id: str, rng: np.random.Generator) -> EpisodeChunk:
    n = EPISODE_STEPS
    return EpisodeChunk(
        episode_id, rng.random((n + 1, 4), np.float32), rng.integers(0, 2, n), rng.random(n),
        terminated=True,
    )  # fmt: skip


def _filled(prefetch: int, rng: np.random.Generator) -> ShardedReplay:
    replay = ShardedReplay(50_000, {"alpha": ALPHA, "beta": BETA}, ShardOptions(prefetch=prefetch))
    replay.add([_chunk(f"episode {i}", rng) for i in range(1_000)])
    return replay


def _step(replay: ShardedReplay) -> Callable[[EpisodeChunk], None]:
    def step(chunk: EpisodeChunk) -> None:
        replay.add([chunk])
        batch = replay.sample(BATCH, n_step=N_STEP)
        batch.update(batch.weights)

    return step


class _Holder:
    """Gives out the same bytes again and again."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self._arrays = [array.copy() for array in arrays]

    def get(self) -> list[np.ndarray]:
        """The arrays: Ray copies them into its store."""
        return self._arrays


def _images(settings: Settings) -> Table:
    """Batches of images through Ray's object store."""
    settings.progress("ray: images")
    rng = np.random.default_rng(0)
    shape = (84, 84, 4)
    capacity = 1_000 if settings.quick else 4_000
    replay = ShardedReplay(capacity)
    for number in range(capacity // 100):
        frames = rng.integers(0, 256, (101, *shape), np.uint8)
        replay.add([EpisodeChunk(f"{number}", frames, np.zeros(100, np.int64), np.zeros(100))])
    here = [rng.integers(0, 256, (BATCH, *shape), np.uint8) for _ in range(2)]
    holder = ray.remote(num_cpus=0)(_Holder).remote(here)
    timings = interleaved(
        {
            "sample": lambda _: replay.sample(BATCH),
            "bytes": lambda _: ray.get(holder.get.remote()),
            "put": lambda _: ray.get(ray.put(here)),
        },
        lambda: None,
        repeats=5 if settings.quick else 30,
    )
    size = 2 * BATCH * int(np.prod(shape))
    names = {
        "sample": f"sample({BATCH}) from a shard",
        "bytes": "the same bytes, ready, from an actor",
        "put": "ray.put and ray.get of the same bytes, in this process",
    }
    return Table(
        name="ray_images",
        title=f"{BATCH} transitions of 84x84x4 uint8 ({size / 1e6:.0f} MB) to the driver",
        columns=("", "ms", "GB/s", "times the time of the bytes alone"),
        rows=[
            (
                names[name],
                1e3 * timing.median,
                size / timing.median / 1e9,
                timings["bytes"].times_faster_than(timing),
            )
            for name, timing in timings.items()
        ],
    )
