"""The stored episodes: their order, their rows, and which of them have to go."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence, Sized
from itertools import chain, islice
from sys import getsizeof

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.changes import Change, grow
from rllib_per_acc.columns import Rows

TERMINATED, TRUNCATED = np.uint8(1), np.uint8(2)

_NO_ROWS = np.zeros(0, np.int32)
_PER_EPISODE = 320
"""Bytes that an episode takes beside its rows and its id: objects, and its places in tables."""


class Episode:
    """A stored episode: its rows in order, the last of which (the tail) holds no step."""

    __slots__ = ("episode_id", "rows", "slot", "t_started")

    def __init__(self, episode_id: str, slot: int, t_started: int, rows: Rows = _NO_ROWS) -> None:
        self.episode_id = episode_id
        self.slot = slot
        self.t_started = t_started
        self.rows = array("i", rows.tobytes())

    def __len__(self) -> int:
        return max(len(self.rows) - 1, 0)

    def row_array(self) -> Rows:
        """The rows, tail included, as a copy: int32 of shape (len(self) + 1,)."""
        return np.array(self.rows, np.int32)


class Growing:
    """An episode and what is to come to it.

    Attributes:
        episode: The episode; a new one is not stored yet.
        is_new: Whether it is one.
        length: Steps, those to come included.
        rows: Those to come.
        flags: Those of its end.
    """

    __slots__ = ("episode", "flags", "is_new", "length", "rows")

    def __init__(self, episode: Episode, is_new: bool) -> None:
        self.episode = episode
        self.is_new = is_new
        self.length = len(episode)
        self.rows: list[Rows] = []
        self.flags = 0

    @property
    def last(self) -> int:
        """The row that is the tail."""
        return int(self.rows[-1][-1]) if self.rows else self.episode.rows[-1]


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
        self._by_id: OrderedDict[str, Episode] = OrderedDict()
        self._by_slot: list[Episode | None] = []
        self._free_slots: list[int] = []
        self._num_slots = 0
        self._id_bytes = 0
        self.num_steps = 0
        self.lengths = np.zeros(0, np.int32)
        self.flags = np.zeros(0, np.uint8)
        self.t_started = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Episode]:
        return iter(self._by_id.values())

    def __contains__(self, episode_id: object) -> bool:
        return episode_id in self._by_id

    def __getitem__(self, episode_id: str) -> Episode:
        return self._by_id[episode_id]

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

    def between(self, start: int, stop: int) -> list[Episode]:
        """Episodes number `start` to `stop`, oldest first; from the nearer end."""
        n = len(self)
        start, stop, _ = slice(start, stop).indices(n)
        if start + stop <= n:
            return list(islice(self._by_id.values(), start, stop))
        return list(islice(reversed(self._by_id.values()), n - stop, n - start))[::-1]

    def slots(self, change: Change, evicted: Sequence[Episode], num_new: int) -> list[int]:
        """Plans to free the slots of these episodes; slots for so many new ones."""
        free = self._free_slots
        kept = max(min(len(free), len(free) + len(evicted) - num_new), 0)
        moving = free[kept:] + [episode.slot for episode in evicted]
        left = max(len(moving) - num_new, 0)
        slots, back = moving[left:], moving[:left]
        used = self._num_slots + num_new - len(slots)
        slots += range(self._num_slots, used)
        if used > len(self._by_slot):
            allocated = max(used, 2 * len(self._by_slot), 64)
            for per_slot in (self.lengths, self.flags, self.t_started):
                grow(per_slot, allocated)
            self._by_slot += [None] * (allocated - len(self._by_slot))
        if kept < len(free) or back:
            change.put(free, slice(kept, None), back)
        change.let(self, "_num_slots", used)
        return slots

    def plan(self, change: Change, evicted: Sequence[Episode], growing: Sequence[Growing]) -> None:
        """Plans to take episodes out, whose slots are free, and to let others grow.

        Args:
            change: Gets what is to be done.
            evicted: Those to take out.
            growing: Others, which grow or are new.
        """
        new = [grown.episode for grown in growing if grown.is_new]
        num_steps = self.num_steps - sum(map(len, evicted))
        for grown in growing:
            num_steps += grown.length - (0 if grown.is_new else len(grown.episode))
            rows = array("i", b"".join([rows.tobytes() for rows in grown.rows]))
            if grown.is_new:
                grown.episode.rows = rows
            else:
                change.put(grown.episode.rows, slice(len(grown.episode.rows), None), rows)
        change.call(self._replace, evicted, growing)
        change.let(self, "num_steps", num_steps)
        ids = sum(map(_id_bytes, new)) - sum(map(_id_bytes, evicted))
        change.let(self, "_id_bytes", self._id_bytes + ids)

    def _replace(self, evicted: Sequence[Episode], growing: Sequence[Growing]) -> None:
        for episode in evicted:
            self._by_id.pop(episode.episode_id, None)
            self._by_slot[episode.slot] = None
            self.lengths[episode.slot] = 0
        for grown in growing:
            episode = grown.episode
            if grown.is_new:
                self._by_id[episode.episode_id] = episode
                self._by_slot[episode.slot] = episode
                self.t_started[episode.slot] = episode.t_started
            self.lengths[episode.slot] = grown.length
            self.flags[episode.slot] = grown.flags

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
        change = Change()
        names = ("episode_ids", "episode_t_started", "episode_flags", "episode_num_rows")
        columns = [arrays[name].tolist() for name in names]
        slots = self.slots(change, (), len(columns[0]))
        all_rows, end = arrays["episode_rows"], 0
        growing = []
        for slot, id_, t_started, flags, num_rows in zip(slots, *columns, strict=True):
            growing.append(grown := Growing(Episode(id_, slot, t_started), is_new=True))
            start, end = end, end + num_rows
            grown.rows.append(all_rows[start:end])
            grown.length, grown.flags = num_rows - 1, flags
        self.plan(change, (), growing)
        change.make()

    def longest(self) -> int:
        """Steps of the longest episode."""
        return int(self.lengths.max(initial=0))

    @property
    def nbytes(self) -> int:
        """Bytes of rows, ids and arrays by slot, about: no look at every episode."""
        rows = 4 * (self.num_steps + len(self))
        per_slot = self.lengths.nbytes + self.flags.nbytes + self.t_started.nbytes
        return rows + self._id_bytes + _PER_EPISODE * len(self) + per_slot


def _id_bytes(episode: Episode) -> int:
    return getsizeof(episode.episode_id)
