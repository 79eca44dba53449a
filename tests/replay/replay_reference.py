"""The replay in plain Python lists, and chunks whose numbers say where they come from.

`NaiveReplay` does what `PrioritizedReplay` must do, one step at a time and with no index to get
wrong: episodes are lists of steps, a mass is an attribute of its step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rllib_per_acc import EpisodeChunk

FLOOR = 1e-12


def observation_of(number: int, t: int) -> np.ndarray:
    """The observation at time `t` of episode `number`: it names both."""
    return np.array([number, t, math.sin(number + 7 * t)], np.float32)


def action_of(number: int, t: int) -> int:
    return (3 * number + t) % 5


def reward_of(number: int, t: int) -> float:
    """The reward of the step that leaves time `t`; no two steps share one."""
    return math.sin(12.9898 * number + 78.233 * t) * 100.0


def make_chunk(
    number: int, start: int, length: int, end: str = "", episode_id: str | None = None
) -> EpisodeChunk:
    """The `length` steps of episode `number` from `start` on.

    `end` is how the last of them ends the episode: "", "terminated" or "truncated".
    """
    times = range(start, start + length)
    return EpisodeChunk(
        episode_id if episode_id is not None else f"episode-{number}",
        np.stack([observation_of(number, t) for t in range(start, start + length + 1)]),
        np.array([action_of(number, t) for t in times], np.int64),
        np.array([reward_of(number, t) for t in times], np.float64),
        terminated=end == "terminated",
        truncated=end == "truncated",
        t_started=start,
    )


def discounted(rewards: Sequence[float], gamma: float) -> float:
    """The n-step reward, summed from the last step back as RLlib's filter does."""
    total = 0.0
    for reward in reversed(rewards):
        total = reward + gamma * total
    return total


def tree_sum(leaves: np.ndarray) -> float:
    """The root of a sum tree over `leaves`: pairs are added level by level."""
    size = 1 << max(0, len(leaves) - 1).bit_length()
    level = np.zeros(size)
    level[: len(leaves)] = leaves
    while len(level) > 1:
        level = level[0::2] + level[1::2]
    return float(level[0])


@dataclass(eq=False)
class Step:
    """One stored step; two steps are the same only if they are the same object."""

    number: int
    t: int
    mass: float
    live: bool = True


@dataclass(eq=False)
class Episode:
    """One stored episode, from the first step that is still known."""

    steps: list[Step] = field(default_factory=list)
    end: str = ""


@dataclass(frozen=True)
class Arrival:
    """What `make_chunk` is called with."""

    number: int
    start: int
    length: int
    end: str = ""

    @property
    def episode_id(self) -> str:
        return f"episode-{self.number}"

    def chunk(self) -> EpisodeChunk:
        return make_chunk(self.number, self.start, self.length, self.end)


class NaiveReplay:
    """RLlib's rules for episodes, eviction and priorities over lists."""

    def __init__(self, capacity: int, alpha: float = 0.6) -> None:
        self.capacity = capacity
        self.alpha = alpha
        self.episodes: dict[str, Episode] = {}
        self.max_priority = 1.0
        self.evicted_ids: list[str] = []
        self.stale_dropped = 0

    def steps(self) -> list[Step]:
        return [step for episode in self.episodes.values() for step in episode.steps]

    def add(self, arrivals: Sequence[Arrival], weight: float | None = None) -> None:
        """Evicts the oldest episodes until the new total fits, but never the only one.

        A chunk whose episode is evicted by its own call is dropped.
        """
        new_lengths: dict[str, int] = {}
        for arrival in arrivals:
            held = new_lengths.get(arrival.episode_id, 0)
            new_lengths[arrival.episode_id] = held + arrival.length
        total = len(self.steps()) + sum(new_lengths.values())
        waiting = list(dict.fromkeys([*self.episodes, *new_lengths]))  # oldest first
        dropped = set()
        while total > self.capacity and len(waiting) > 1:
            gone = waiting.pop(0)
            dropped.add(gone)
            total -= new_lengths.get(gone, 0)
            if gone in self.episodes:
                episode = self.episodes.pop(gone)
                total -= len(episode.steps)
                for step in episode.steps:
                    step.live = False
                self.evicted_ids.append(gone)
        mass = (self.max_priority if weight is None else weight) ** self.alpha
        for arrival in arrivals:
            if arrival.episode_id in dropped:
                continue
            episode = self.episodes.setdefault(arrival.episode_id, Episode())
            for t in range(arrival.start, arrival.start + arrival.length):
                episode.steps.append(Step(arrival.number, t, mass))
            episode.end = arrival.end

    def find(self, number: int, t: int) -> tuple[Episode, int]:
        """The episode that holds the step, and its place in it."""
        episode = self.episodes[f"episode-{number}"]
        return episode, t - episode.steps[0].t

    def update(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        for step, priority in zip(steps, priorities, strict=True):
            if not step.live:
                self.stale_dropped += 1
                continue
            raised = max(priority, FLOOR)
            step.mass = raised**self.alpha
            self.max_priority = max(self.max_priority, raised)

    def can_serve(self, number: int, t: int, n: int) -> bool:
        episode, place = self.find(number, t)
        return place + n <= len(episode.steps)

    def transition(self, number: int, t: int, n: int, gamma: float) -> dict[str, object]:
        """Columns of the `n`-step transition that starts at `t`."""
        episode, place = self.find(number, t)
        rewards = [reward_of(number, s.t) for s in episode.steps[place : place + n]]
        assert len(rewards) == n
        at_end = place + n == len(episode.steps)
        return {
            "observation": observation_of(number, t),
            "action": action_of(number, t),
            "reward": discounted(rewards, gamma),
            "next_observation": observation_of(number, t + n),
            "terminated": at_end and episode.end == "terminated",
            "truncated": at_end and episode.end == "truncated",
        }

    def weight_of(self, step: Step, beta: float) -> float:
        """Eq. 1 and section 3.4 of the paper, normalised by the buffer's largest weight."""
        masses = [s.mass for s in self.steps()]
        total, size = math.fsum(masses), len(masses)
        largest = (min(masses) / total * size) ** -beta
        return (step.mass / total * size) ** -beta / largest
