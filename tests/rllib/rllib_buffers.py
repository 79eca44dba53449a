"""Buffers as the tests of counts, states and saves fill and read them."""

import itertools

import numpy as np
from rllib_episodes import play
from rllib_oracle import read_rows

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer

COUNTERS = (
    "get_num_episodes",
    "get_num_episodes_evicted",
    "get_num_timesteps",
    "get_added_timesteps",
    "get_sampled_timesteps",
)


def masses_of(buffer: AccPrioritizedEpisodeReplayBuffer) -> dict[tuple[int, int], float]:
    """The mass of each (episode number, time)."""
    held = buffer.get_priorities()
    numbers = [int(str(i).removeprefix("episode-")) for i in held["episode_id"]]
    masses = dict(zip(zip(numbers, held["t"].tolist(), strict=True), held["mass"], strict=True))
    assert len(masses) == len(numbers)
    return masses


FILLS = {"empty": 0, "half full": 5, "full": 10, "wrapped": 40}


def make_buffer(capacity: int = 100, **options) -> AccPrioritizedEpisodeReplayBuffer:
    return AccPrioritizedEpisodeReplayBuffer(
        capacity, **({"alpha": 0.6, "beta": 0.4, "num_shards": 0, "seed": 1} | options)
    )


def filled(fill: str, **options) -> AccPrioritizedEpisodeReplayBuffer:
    buffer = make_buffer(**options)
    for episodes in itertools.islice(play(2, 5, seed=1), FILLS[fill]):
        use(buffer, episodes)
    return buffer


def use(buffer: AccPrioritizedEpisodeReplayBuffer, episodes: list) -> list:
    buffer.add(episodes)
    rows = read_rows(buffer.sample(num_items=16, gamma=0.9))
    buffer.update_priorities(np.abs([row.reward for row in rows]))
    return rows
