"""The plain replay: against other libraries' buffers, a bare gather, and itself at other sizes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from rllib_per_acc.bench.peers import noting_absence
from rllib_per_acc.bench.report import Settings, Table
from rllib_per_acc.bench.timing import interleaved
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.replay import PrioritizedReplay

BATCH = 512
ALPHA, BETA = 0.6, 0.4


def run(settings: Settings) -> list[Table]:
    """Three tables: other libraries, images, scaling."""
    return [_others(settings), _images(settings), _scaling(settings)]


def _filled(capacity: int, episode_steps: int, rng: np.random.Generator) -> PrioritizedReplay:
    """A full replay of CartPole-sized steps with spread priorities."""
    replay = PrioritizedReplay(capacity, alpha=ALPHA, beta=BETA, seed=0)
    number = 0
    while len(replay) + episode_steps <= capacity:
        replay.add(
            [
                EpisodeChunk(
                    f"episode-{number}",
                    rng.random((episode_steps + 1, 4), np.float32),
                    rng.integers(0, 2, episode_steps),
                    rng.random(episode_steps),
                    terminated=True,
                )
            ],
            weight=rng.exponential(size=episode_steps),
        )
        number += 1
    return replay


def _others(settings: Settings) -> Table:
    """`sample` of other prioritized buffers, where they are installed."""
    capacity = 50_000 if settings.quick else 500_000
    rng = np.random.default_rng(0)
    contenders: dict[str, Callable[[Any], object]] = {}
    notes = ["Milliseconds, medians. Ours also sums n-step rewards when it samples."]
    settings.progress("replay: filling")
    ours = _filled(capacity, 50, rng)
    contenders["ours"] = lambda _: ours.sample(BATCH, n_step=3)
    missing: dict[str, str] = {}
    for name, make in (("cpprb", _cpprb), ("torchrl", _torchrl)):
        settings.progress(f"replay: filling {name}")
        with noting_absence(name, missing):
            contenders[name] = make(capacity, rng)
    notes += (f"Not compared: {name} ({reason})." for name, reason in missing.items())
    settings.progress("replay: sampling")
    timings = interleaved(contenders, lambda: None, repeats=10 if settings.quick else 50)
    return Table(
        name="replay_others",
        title=f"sample({BATCH}) of {capacity:,} CartPole-sized transitions, n_step 3",
        columns=("buffer", "ms", "ours is times faster"),
        rows=[
            (name, 1e3 * timing.median, timings["ours"].times_faster_than(timing))
            for name, timing in timings.items()
        ],
        notes=notes,
    )


def _cpprb(capacity: int, rng: np.random.Generator) -> Callable[[Any], object]:
    """The buffer of cpprb; it sums n-step rewards when it adds."""
    buffer = importlib.import_module("cpprb").PrioritizedReplayBuffer(
        capacity,
        {
            "obs": {"shape": 4},
            "act": {"dtype": np.int64},
            "rew": {},
            "next_obs": {"shape": 4},
            "done": {},
        },
        alpha=ALPHA,
        Nstep={"size": 3, "gamma": 0.99, "rew": "rew", "next": "next_obs"},
    )
    buffer.add(
        obs=rng.random((capacity, 4), np.float32),
        act=rng.integers(0, 2, capacity),
        rew=rng.random(capacity),
        next_obs=rng.random((capacity, 4), np.float32),
        done=np.zeros(capacity),
        priorities=rng.exponential(size=capacity),
    )
    return lambda _: buffer.sample(BATCH, beta=BETA)


def _torchrl(capacity: int, rng: np.random.Generator) -> Callable[[Any], object]:
    """The buffer of torchrl; n-step rewards are summed before it adds."""
    importlib.import_module("torchrl._torchrl")  # without it torchrl imports, and fails later
    torch = importlib.import_module("torch")
    data = importlib.import_module("torchrl.data")
    tensordict = importlib.import_module("tensordict").TensorDict
    buffer = data.TensorDictPrioritizedReplayBuffer(
        alpha=ALPHA, beta=BETA, storage=data.LazyTensorStorage(capacity), batch_size=BATCH
    )
    observations = torch.from_numpy(rng.random((capacity, 4), np.float32))
    buffer.extend(
        tensordict(
            {
                "observation": observations,
                "action": torch.from_numpy(rng.integers(0, 2, capacity)),
                "reward": torch.from_numpy(rng.random(capacity)),
                "next_observation": observations.clone(),
                "done": torch.zeros(capacity, dtype=torch.bool),
                "td_error": torch.from_numpy(rng.exponential(size=capacity).astype(np.float32)),
            },
            [capacity],
        )
    )
    return lambda _: buffer.sample()


def _images(settings: Settings) -> Table:
    """Images: what there is beside copying them."""
    capacity, steps = (1_000, 100) if settings.quick else (10_000, 500)
    rng = np.random.default_rng(0)
    settings.progress("replay: images")
    replay = PrioritizedReplay(capacity, alpha=ALPHA, beta=BETA, seed=0)
    compressed = PrioritizedReplay(capacity, alpha=ALPHA, beta=BETA, seed=0, frame_stack=4)
    for number in range(capacity // steps):
        frames = rng.integers(0, 256, (steps + 4, 84, 84), np.uint8)
        stacks = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0)
        chunk = EpisodeChunk(
            f"episode-{number}", stacks, rng.integers(0, 6, steps), rng.random(steps)
        )
        replay.add([chunk])
        compressed.add([chunk])
    frames = rng.integers(0, 256, (capacity, 84, 84, 4), np.uint8)
    timings = interleaved(
        {
            "sample": lambda _: replay.sample(BATCH),
            "compressed": lambda _: compressed.sample(BATCH),
            "bare gather": lambda rows: (frames[rows], frames[np.minimum(rows + 1, capacity - 1)]),
        },
        lambda: rng.integers(0, capacity, BATCH),
        repeats=5 if settings.quick else 20,
    )
    gather, sample = timings["bare gather"], timings["sample"]
    kept_once = timings["compressed"]
    per_step = [round(side.info()["bytes"] / len(side)) for side in (replay, compressed)]
    return Table(
        name="replay_images",
        title=f"sample({BATCH}) of 84x84x4 uint8 images, and NumPy's gather of as many alone",
        columns=("", "ms", "ratio"),
        rows=[
            ("bare gather of observations and next ones", 1e3 * gather.median, 1.0),
            ("sample", 1e3 * sample.median, gather.times_faster_than(sample)),
            (
                "sample, frame_stack=4, against sample",
                1e3 * kept_once.median,
                sample.times_faster_than(kept_once),
            ),
        ],
        notes=(f"{per_step[0]:,} bytes a step; with frame_stack=4 {per_step[1]:,}.",),
    )


def _scaling(settings: Settings) -> Table:
    """The cost of `sample` at other capacities and episode lengths."""
    rng = np.random.default_rng(0)
    largest = 5 if settings.quick else 7
    sizes = [(10**k, 100) for k in range(4, largest + 1)] + [
        (10**k, 10_000) for k in range(5, largest + 1)
    ]
    rows = []
    for capacity, steps in sizes:
        settings.progress(f"replay: {capacity:,} steps in episodes of {steps:,}")
        replay = _filled(capacity, steps, rng)

        def call(_: None, replay: PrioritizedReplay = replay) -> object:
            return replay.sample(BATCH, n_step=3)

        timing = interleaved({"sample": call}, lambda: None, repeats=10 if settings.quick else 50)[
            "sample"
        ]
        rows.append((f"{capacity:,}", f"{steps:,}", 1e3 * timing.median))
    return Table(
        name="replay_scaling",
        title=f"sample({BATCH}), n_step 3, CartPole-sized steps",
        columns=("capacity", "steps per episode", "ms"),
        rows=rows,
    )
