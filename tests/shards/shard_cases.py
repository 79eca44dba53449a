"""Episodes for the tests of shards, replays over them, and waiting with a bound."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import ray

from rllib_per_acc import EpisodeChunk
from rllib_per_acc.shards import ReplayShard, ShardedReplay, ShardOptions

MEGABYTE = 1 << 20


def bytes_stored():
    """What lies in the object store of this node; Ray learns of a change within a second."""
    name = "object_store_memory"
    return ray.cluster_resources()[name] - ray.available_resources().get(name, 0)


def chunk(number, length=10, t=0, done=True):
    """Steps of an episode whose observations and rewards tell which step they are of."""
    return EpisodeChunk(
        episode_id=f"e{number}",
        observations=np.array([[number, t + i] for i in range(length + 1)], np.float32),
        actions=np.zeros(length, np.int64),
        rewards=np.arange(t, t + length, dtype=np.float64),
        terminated=done,
        t_started=t,
    )


def make_replay(num_shards=1, capacity=10_000, shard_class=ReplayShard, options=None, **shards):
    """A replay over shards; keywords are `ShardOptions`."""
    return ShardedReplay(
        capacity,
        {"alpha": 1.0, "seed": 1} | (options or {}),
        ShardOptions(num_shards=num_shards, **shards),
        shard_class=shard_class,
    )


def steps_of(batch):
    """For each row (episode number, time step, n)."""
    columns = batch.observations[:, 0], batch.t, batch.n_step
    return list(zip(*(np.asarray(c).astype(int).tolist() for c in columns), strict=True))


def masses_of(replay):
    """The mass of each stored step."""
    held = replay.get_priorities()
    keys = zip(held["episode_id"], held["t"].tolist(), strict=True)
    masses = dict(zip(keys, held["mass"].tolist(), strict=True))
    assert len(masses) == len(held["mass"])
    return masses


def kill(replay, shard=0):
    """SIGKILLs a shard's process."""
    os.kill(replay.shard_info()[shard]["pid"], signal.SIGKILL)


def comes_true(condition, seconds=60.0):
    """Waits until it does; the bound is for a failure only."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def runs(pid):
    """Whether the process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class SlowShard(ReplayShard):
    """Takes its time."""

    def call(self, method, *arguments):
        if method in ("add", "update"):
            time.sleep(0.02)
        return super().call(method, *arguments)


class FailingShard(ReplayShard):
    """Cannot add what has the number 13."""

    def add(self, chunks, *more):
        if any(chunk.episode_id == "e13" for chunk in chunks):
            raise OSError("no room for e13")
        super().add(chunks, *more)


class ShowingShard(ReplayShard):
    """Tells which arrays it holds."""

    def arrays_held(self):
        columns = self._replay._store.columns
        leaves = [
            columns.observations.leaves[0],
            columns.actions.leaves[0],
            *columns.rewards.leaves,
        ]
        leaves += [leaf for column in columns.extras.values() for leaf in column.leaves]
        for info in columns.infos.leaves[0]:
            if info:
                leaves += [info["image"], *info["list"]]
        return {
            "writeable": sum(leaf.flags.writeable for leaf in leaves),
            "read-only": sum(not leaf.flags.writeable for leaf in leaves),
        }
