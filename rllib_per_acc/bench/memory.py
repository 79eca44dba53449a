"""Prints the resident bytes per step of one full buffer: `python -m ...memory rllib|ours N`."""

from __future__ import annotations

import gc
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import (
    PrioritizedEpisodeReplayBuffer,
)

from rllib_per_acc.bench.buffer import ALPHA, episodes
from rllib_per_acc.rllib.episode_buffer import AccPrioritizedEpisodeReplayBuffer


def resident_bytes() -> int:
    """Of this process, now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmRSS: resident memory is read on Linux only")


def main(side: str, capacity: int) -> None:
    """Fills a buffer one episode at a time and prints what it takes per step."""
    incoming = episodes(np.random.default_rng(0))
    warm: list[Any] = [
        PrioritizedEpisodeReplayBuffer(2_000),
        AccPrioritizedEpisodeReplayBuffer(2_000, num_shards=0),
    ]
    for episode in itertools.islice(incoming, 200):
        for buffer in warm:
            buffer.add(episode)
    del warm, buffer, episode
    gc.collect()
    before = resident_bytes()
    buffer = (
        PrioritizedEpisodeReplayBuffer(capacity, alpha=ALPHA)
        if side == "rllib"
        else AccPrioritizedEpisodeReplayBuffer(capacity, alpha=ALPHA, num_shards=0)
    )
    for episode in itertools.takewhile(lambda _: buffer.get_num_timesteps() < capacity, incoming):
        buffer.add(episode)
    gc.collect()
    print((resident_bytes() - before) / buffer.get_num_timesteps())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
