"""An Ape-X-shaped load for replay buffers in Ray actors: writers that add, one learner."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
import ray
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import (
    PrioritizedEpisodeReplayBuffer,
)

from rllib_per_acc.bench.buffer import (
    ALPHA,
    BATCH,
    BETA,
    EPISODE_STEPS,
    GAMMA,
    N_STEP,
    episodes,
)
from rllib_per_acc.rllib.batch import row_groups
from rllib_per_acc.rllib.episode_chunks import chunk_of
from rllib_per_acc.shards import ShardedReplay, ShardOptions

_FILL_AT_ONCE = 200
_PREFETCH = 2


class Rates(NamedTuple):
    """What a buffer did per second."""

    batches: float
    transitions: float


class Side(Protocol):
    """A buffer under load."""

    def sink(self) -> Any:
        """Something picklable with `add(episode)` and `flush()`."""

    def learn(self, td_errors: np.ndarray) -> None:
        """Samples a batch of as many transitions and gives it these priorities."""


class _RLlibSink:
    """Waits for each add: with more of them under way the learner would wait for all of them."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def add(self, episode: SingleAgentEpisode) -> None:
        ray.get(self._actor.add.remote([episode]))

    def flush(self) -> None:
        pass


class RLlibSide:
    """RLlib's own buffer, made into an actor."""

    def __init__(self, capacity: int, progress: Callable[[str], None]) -> None:
        make = ray.remote(num_cpus=0)(PrioritizedEpisodeReplayBuffer)
        self._actor = make.remote(capacity, alpha=ALPHA)
        for some in _filling(capacity, "RLlib's buffer", progress):
            ray.get(self._actor.add.remote(some))

    def sink(self) -> _RLlibSink:
        """See `Side`."""
        return _RLlibSink(self._actor)

    def learn(self, td_errors: np.ndarray) -> None:
        """See `Side`; the update is not waited for."""
        ray.get(
            self._actor.sample.remote(
                num_items=len(td_errors), n_step=N_STEP, gamma=GAMMA, beta=BETA
            )
        )
        self._actor.update_priorities.remote(td_errors)


class _OwnSink:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def add(self, episode: SingleAgentEpisode) -> None:
        self._writer.add([chunk_of(episode)])

    def flush(self) -> None:
        self._writer.flush()


class OwnSide:
    """This package's replay in shards; a sample ends as RLlib's learner takes it."""

    def __init__(self, capacity: int, num_shards: int, progress: Callable[[str], None]) -> None:
        self.replay = ShardedReplay(
            capacity,
            {"alpha": ALPHA, "beta": BETA},
            ShardOptions(num_shards=num_shards, prefetch=_PREFETCH),
        )
        for some in _filling(capacity, f"{num_shards} shard(s)", progress):
            self.replay.add([chunk_of(episode) for episode in some], weight=1.0)

    def sink(self) -> _OwnSink:
        """See `Side`."""
        return _OwnSink(self.replay.writer())

    def learn(self, td_errors: np.ndarray) -> None:
        """See `Side`."""
        batch = self.replay.sample(len(td_errors), n_step=N_STEP, gamma=GAMMA)
        row_groups(batch)
        batch.update(td_errors)


def _filling(
    capacity: int, name: str, progress: Callable[[str], None]
) -> Iterable[list[SingleAgentEpisode]]:
    incoming = episodes(np.random.default_rng(0))
    for filled in range(0, capacity, _FILL_AT_ONCE * EPISODE_STEPS):
        progress(f"ray: filling {name}, {filled:,} of {capacity:,}")
        yield list(itertools.islice(incoming, _FILL_AT_ONCE))


class Writer:
    """Adds episodes of `EPISODE_STEPS` steps as fast as it can, with content made before.

    Args:
        sink: Of a `Side`.
    """

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._pool = list(itertools.islice(episodes(np.random.default_rng(os.getpid())), 64))

    def run(self, seconds: float) -> float:
        """Adds for some time; how many transitions per second arrived."""
        started = time.perf_counter()
        added = 0
        for episode in itertools.cycle(self._pool):
            episode.id_ = os.urandom(12).hex()
            self._sink.add(episode)
            added += EPISODE_STEPS
            if time.perf_counter() - started >= seconds:
                break
        self._sink.flush()
        return added / (time.perf_counter() - started)


class Load:
    """Writers for one side, ready to start.

    Args:
        side: What to load.
        num_writers: How many actors add to it.
    """

    def __init__(self, side: Side, num_writers: int) -> None:
        self._side = side
        make = ray.remote(num_cpus=0)(Writer)
        self._writers = [make.remote(side.sink()) for _ in range(num_writers)]
        self._rng = np.random.default_rng(0)

    def run(self, seconds: float) -> Rates:
        """The learner here and the writers there, all at once."""
        running = [writer.run.remote(seconds) for writer in self._writers]
        started = time.perf_counter()
        batches = 0
        while (taken := time.perf_counter() - started) < seconds:
            self._side.learn(self._rng.exponential(size=BATCH))
            batches += 1
        return Rates(batches / taken, sum(ray.get(running)))
