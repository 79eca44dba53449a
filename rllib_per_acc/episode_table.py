"""The stored episodes: their order, their rows, and which of them have to go."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sized
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.columns import Rows

TERMINATED, TRUNCATED = np.uint8(1), np.uint8(2)


class Episode:
    """A stored episode: its rows in order, the last of which (the tail) holds no step."""

    __slots__ = ("episode_id", "rows", "slot", "t_started")

    def __init__(self, episode_id: str, slot: int, t_started: int) -> None:
        self.episode_id = episode_id
        self.slot = slot
        self.t_started = t_started
        self.rows = array("i")

    def __len__(self) -> int:
        return max(len(self.rows) - 1, 0)

    def row_array(self) -> Rows:
        """The rows, tail included, as a copy: int32 of shape (len(self) + 1,)."""
        return np.array(self.rows, np.int32)


def oldest_beyond(
    stored: Mapping[str, Sized], num_steps: int, capacity: int, new_steps: Mapping[str, int]
) -> list[str]:
    """Ids of the episodes to evict before `new_steps` more steps come in, oldest first.

    Whole episodes go, oldest first, until the new total fits; the last one always stays
    (RLlib: `PrioritizedEpisodeReplayBuffer.add`). Episodes that only `new_steps` names count as
    the newest, in its order, and can be among those to go.

    Args:
        stored: The stored episodes, oldest first; their lengths are their steps.
        num_steps: The sum of their lengths.
        capacity: The number of steps that may be stored.
        new_steps: The number of steps to come, by episode id.
    """
    total = num_steps + sum(new_steps.values())
    if total <= capacity:
        return []
    new_ids = [id_ for id_ in new_steps if id_ not in stored]
    remaining = len(stored) + len(new_ids)
    evicted: list[str] = []
    for id_ in chain(stored, new_ids):
        if total <= capacity or remaining == 1:
            break
        episode = stored.get(id_)
        total -= (len(episode) if episode is not None else 0) + new_steps.get(id_, 0)
        remaining -= 1
        evicted.append(id_)
    return evicted


class EpisodeTable:
    """Episodes by id, oldest first, with length and end flags in arrays by slot.

    Attributes:
        lengths: Steps per slot, int32.
        flags: `TERMINATED | TRUNCATED` bits per slot, uint8.
        t_started: The time step of the first stored step per slot, int32.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Episode] = {}
        self._by_slot: list[Episode | None] = []
        self._free_slots: list[int] = []
        self.num_steps = 0
        self.lengths = np.zeros(64, np.int32)
        self.flags = np.zeros(64, np.uint8)
        self.t_started = np.zeros(64, np.int32)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Episode]:
        return iter(self._by_id.values())

    def get(self, episode_id: str) -> Episode | None:
        """The episode with this id, if it is stored."""
        return self._by_id.get(episode_id)

    def ids_at(self, slots: NDArray[np.int32]) -> NDArray[np.object_]:
        """The ids of the episodes in `slots`, which must be taken, as an object array."""
        episodes = self._by_slot
        ids = [episodes[slot].episode_id for slot in slots.tolist()]
        return np.fromiter(ids, object, len(ids))

    def rows_at(self, slot: int, start: int, stop: int) -> array[int]:
        """Rows number `start` to `stop` of the episode in `slot`, which must be taken."""
        episode = self._by_slot[slot]
        if episode is None:
            raise IndexError(f"slot: got {slot}, expected one that holds an episode")
        return episode.rows[start:stop]

    def is_done(self, episode: Episode) -> bool:
        """Whether it was terminated or truncated."""
        return bool(self.flags[episode.slot])

    def oldest_beyond(self, capacity: int, new_steps: dict[str, int]) -> list[str]:
        """See the function `oldest_beyond`."""
        return oldest_beyond(self._by_id, self.num_steps, capacity, new_steps)

    def start(self, episode_id: str, t_started: int) -> Episode:
        """A new, empty episode."""
        slot = self._free_slots.pop() if self._free_slots else len(self._by_slot)
        episode = Episode(episode_id, slot, t_started)
        if slot == len(self._by_slot):
            self._by_slot.append(episode)
        else:
            self._by_slot[slot] = episode
        if slot == len(self.lengths):
            for per_slot in (self.lengths, self.flags, self.t_started):
                per_slot.resize(2 * slot, refcheck=False)
        self._by_id[episode_id] = episode
        self.lengths[slot] = 0
        self.flags[slot] = 0
        self.t_started[slot] = t_started
        return episode

    def extend(self, episode: Episode, rows: Rows, terminated: bool, truncated: bool) -> None:
        """Appends `rows` (the last one is the new tail) and sets the end flags."""
        self.num_steps -= len(episode)
        episode.rows.frombytes(rows.tobytes())
        self.num_steps += len(episode)
        self.lengths[episode.slot] = len(episode)
        self.flags[episode.slot] = TERMINATED * terminated | TRUNCATED * truncated

    def remove(self, episode_id: str) -> Episode:
        """Takes the episode out and frees its slot."""
        episode = self._by_id.pop(episode_id)
        self.num_steps -= len(episode)
        self._by_slot[episode.slot] = None
        self.lengths[episode.slot] = 0
        self._free_slots.append(episode.slot)
        return episode

    def arrays(self) -> dict[str, np.ndarray]:
        """What `restore` needs, oldest episode first."""
        slots = [episode.slot for episode in self]
        return {
            "episode_ids": np.fromiter((episode.episode_id for episode in self), object),
            "episode_t_started": np.array([episode.t_started for episode in self], np.int64),
            "episode_flags": self.flags[slots],
            "episode_num_rows": self.lengths[slots] + np.int64(1),
            "episode_rows": np.frombuffer(b"".join([e.rows for e in self]), np.int32),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Takes what another table's `arrays` returned, checked, into this empty table."""
        names = ("episode_ids", "episode_t_started", "episode_flags", "episode_num_rows")
        all_rows, end = arrays["episode_rows"], 0
        columns = (arrays[name].tolist() for name in names)
        for id_, t_started, flag, num_rows in zip(*columns, strict=True):
            episode = self.start(id_, t_started)
            start, end = end, end + num_rows
            self.extend(
                episode, all_rows[start:end], bool(flag & TERMINATED), bool(flag & TRUNCATED)
            )

    def longest(self) -> int:
        """Steps of the longest episode."""
        return int(self.lengths.max())

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and of the arrays by slot."""
        rows = sum(len(episode.rows) for episode in self) * 4
        return rows + self.lengths.nbytes + self.flags.nbytes + self.t_started.nbytes
