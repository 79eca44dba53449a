"""TransitionStore: time steps of episodes, added in chunks, evicted as whole episodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.activity import Counts
from rllib_per_acc.columns import Prepared, Rows
from rllib_per_acc.episode_chunk import EpisodeChunk, checked_chunks
from rllib_per_acc.episode_table import TERMINATED, TRUNCATED, Episode
from rllib_per_acc.memory_estimate import check_capacity
from rllib_per_acc.replay_options import positive_int
from rllib_per_acc.step_columns import ChunkValues
from rllib_per_acc.threads import serialized
from rllib_per_acc.transitions import NEXT, SLOT, LinkedRows, T


@dataclass(slots=True)
class Added:
    """What one `TransitionStore.add` did.

    Attributes:
        rows: Rows of the steps added, in the order they were given, int32 of shape (n,).
        kept: Of the steps given, which were added, bool; None when all were.
        freed: Rows that held evicted steps (some may be in `rows` again), int32 of shape (m,).
        counts: Of this one call: episodes and steps added and evicted.
    """

    rows: Rows
    kept: NDArray[np.bool_] | None
    freed: Rows
    counts: Counts


class PreparedAdd(NamedTuple):
    """Checked chunks, ready to be stored.

    Attributes:
        chunks: Those to store.
        values: What they hold; None if there are none.
        evicted: Ids of the episodes that go before, oldest first; some may not be stored yet.
        new_steps: Steps given, by episode id.
        kept: Of the steps given, which are in `chunks`, bool; None when all are.
    """

    chunks: list[EpisodeChunk]
    values: ChunkValues | None
    evicted: list[str]
    new_steps: dict[str, int]
    kept: NDArray[np.bool_] | None


class TransitionStore(LinkedRows):
    """Episodes as columns of time steps, evicted as whole episodes, oldest first.

    Args:
        capacity: How many steps to keep. The newest episode is kept even if it is longer. None:
            what is evicted is said in `add`.
        frame_stack: See `ReplayOptions`.
    """

    def __init__(self, capacity: int | None, frame_stack: int = 0) -> None:
        self.capacity = None if capacity is None else positive_int("capacity", capacity)
        super().__init__(self.capacity, frame_stack)

    # Adding and evicting

    @serialized
    def add(self, chunks: Sequence[EpisodeChunk], evict: Iterable[str] = ()) -> Added:
        """Stores `chunks`, evicting the oldest episodes first where room is needed.

        See `prepare` for the arguments and errors.
        """
        return self.write(self.prepare(chunks, evict))

    def prepare(self, chunks: Sequence[EpisodeChunk], evict: Iterable[str] = ()) -> PreparedAdd:
        """Checks all that `add` needs, and changes nothing.

        A chunk of a stored episode continues it; one of an unknown episode starts it. Chunks of an
        episode that this very call evicts are dropped (RLlib:
        `PrioritizedEpisodeReplayBuffer.add`).

        Args:
            chunks: What to store.
            evict: Ids of the episodes to evict, in a store without a capacity; those that are not
                stored are ignored.

        Raises:
            TypeError: If a chunk's flags are not bools or its `t_started` is no integer.
            ValueError: If a chunk's lengths, nesting or shapes do not fit, if it does not continue
                its episode where that ended, if there is a capacity and something in `evict`, or
                if this machine has no memory for so many such steps. Nothing is changed in either
                case.
        """
        new_steps: dict[str, int] = {}
        chunks = checked_chunks(chunks)
        for chunk in chunks:
            new_steps[chunk.episode_id] = new_steps.get(chunk.episode_id, 0) + len(chunk)
        evicted = self._to_evict(new_steps, evict)
        dropped = set(evicted)
        keeping = np.array([chunk.episode_id not in dropped for chunk in chunks], np.bool_)
        kept = [chunk for chunk, keep in zip(chunks, keeping, strict=True) if keep]
        values = None
        if kept:
            values = self.columns.prepare(kept)
            if self.capacity is not None and not self.columns.observations.leaves:
                check_capacity(self.capacity, self.columns.bytes_per_step(values))
            values.skip_observations(self._check_continuations(kept, values.observations))
        steps_kept = np.repeat(keeping, [len(chunk) for chunk in chunks]) if dropped else None
        return PreparedAdd(kept, values, evicted, new_steps, steps_kept)

    def write(self, prepared: PreparedAdd) -> Added:
        """Stores what was prepared since the last change of this store."""
        counts = Counts(num_adds=1)
        stored = [id_ for id_ in prepared.evicted if self.episodes.get(id_) is not None]
        freed = self._evict(stored, counts)
        for id_ in prepared.evicted[counts.episodes_evicted :]:  # came and went within this call
            counts.episodes_added += 1
            counts.steps_added += prepared.new_steps[id_]
            counts.episodes_evicted += 1
            counts.steps_evicted += prepared.new_steps[id_]
        rows = np.empty(0, np.int32)
        if prepared.values:
            rows = self._store(prepared.chunks, prepared.values, counts)
        return Added(rows, prepared.kept, freed, counts)

    def _to_evict(self, new_steps: dict[str, int], evict: Iterable[str]) -> list[str]:
        if self.capacity is None:
            return [id_ for id_ in evict if self.episodes.get(id_) is not None]
        if evict := list(evict):
            raise ValueError(
                f"evict: got {len(evict)} episodes in a store with capacity={self.capacity}, "
                "expected none"
            )
        return self.episodes.oldest_beyond(self.capacity, new_steps)

    def _check_continuations(self, chunks: list[EpisodeChunk], observations: Prepared) -> list[int]:
        """Checks that chunks go on where their episodes are.

        Returns:
            Positions in `observations` of those that the episode before them ends with already.
        """
        ends: dict[str, tuple[int, bool, int]] = {}  # id: time step, done, position of last item
        stored_already: list[int] = []
        start = 0
        for chunk in chunks:
            id_ = chunk.episode_id
            stored = self.episodes.get(id_)
            if id_ in ends or stored is not None:
                if stored is None or id_ in ends:
                    t, done, last = ends[id_]
                    previous = [leaf[last] for leaf in observations.leaves]
                else:
                    t, done = stored.t_started + len(stored), self.episodes.is_done(stored)
                    previous = [leaf[stored.rows[-1]] for leaf in self.columns.observations.leaves]
                if done:
                    raise ValueError(f"chunks: got more steps of episode {id_!r}, which has ended")
                if chunk.t_started != t:
                    raise ValueError(
                        f"chunks: got steps of episode {id_!r} from t={chunk.t_started}, "
                        f"expected t={t}, where it left off"
                    )
                given = [leaf[start] for leaf in observations.leaves]
                if not all(map(_same, given, previous)):
                    raise ValueError(
                        f"chunks: got steps of episode {id_!r} whose first observation is not the "
                        f"last one stored (t={t})"
                    )
                stored_already.append(start)
            last = start + len(chunk)
            ends[id_] = (chunk.t_started + len(chunk), chunk.terminated or chunk.truncated, last)
            start = last + 1
        return stored_already

    def _evict(self, episode_ids: list[str], counts: Counts) -> Rows:
        rows = [np.empty(0, np.int32)]
        for id_ in episode_ids:
            episode = self.episodes.remove(id_)
            rows.append(episode.row_array())
            counts.episodes_evicted += 1
            counts.steps_evicted += len(episode)
        freed = np.concatenate(rows)
        if len(freed):
            self.columns.clear(freed)
            self.pool.give_back(freed)
        return freed

    def _store(self, chunks: list[EpisodeChunk], values: ChunkValues, counts: Counts) -> Rows:
        new = self.pool.take(len(values.observations.leaves[0]))
        self._reserve()
        step_rows: list[Rows] = []
        starts = []  # positions of episodes' first steps among these
        taken = num_steps = 0
        for chunk in chunks:
            episode = self.episodes.get(chunk.episode_id)
            if episode is None:
                episode = self.episodes.start(chunk.episode_id, chunk.t_started)
                counts.episodes_added += 1
                starts.append(num_steps)
                path = mine = new[taken : taken + len(chunk) + 1]
            else:
                mine = new[taken : taken + len(chunk)]
                path = np.concatenate([np.array(episode.rows[-1:], np.int32), mine])
            taken += len(mine)
            self.episodes.extend(episode, mine, chunk.terminated, chunk.truncated)
            links = np.empty((len(path), 3), np.int32)
            links[:-1, NEXT] = path[1:]
            links[-1, NEXT] = -1
            links[:, SLOT] = episode.slot
            links[:, T] = np.arange(len(episode) - len(chunk), len(episode) + 1)
            self._links[path] = links
            step_rows.append(path[:-1])
            num_steps += len(chunk)
        rows = np.concatenate(step_rows)
        counts.steps_added += num_steps
        self.columns.write(values, new, rows, starts, self.pool.num_allocated)
        return rows

    def _reserve(self) -> None:
        allocated = self.pool.num_allocated
        if allocated > len(self._links):
            self._links.resize((allocated, 3), refcheck=False)
            self.columns.reserve(allocated)

    # Copies and state

    @serialized
    def chunks(self, start: int, stop: int) -> list[EpisodeChunk]:
        """Copies of the stored episodes number `start` to `stop`, oldest first."""
        return [self._copy(episode) for episode in islice(self.episodes, start, stop)]

    @serialized
    def chunks_of(self, episode_ids: Iterable[Any]) -> list[EpisodeChunk]:
        """Copies of these episodes, without those that are not stored."""
        found = map(self.episodes.get, episode_ids)
        return [self._copy(episode) for episode in found if episode is not None]

    def _copy(self, episode: Episode) -> EpisodeChunk:
        columns = self.columns
        path = episode.row_array()
        steps = path[:-1]
        return EpisodeChunk(
            episode.episode_id,
            columns.observations.take(path),
            columns.actions.take(steps) if len(steps) else [],
            columns.rewards.take(steps) if len(steps) else [],
            bool(self.episodes.flags[episode.slot] & TERMINATED),
            bool(self.episodes.flags[episode.slot] & TRUNCATED),
            episode.t_started,
            columns.take_infos(path).tolist(),
            columns.take_extras(steps),
        )

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Layouts of columns, and arrays (views: copy or write them at once)."""
        layouts, arrays = self.columns.state(self.pool.num_used)
        return layouts, arrays | self.pool.arrays() | self.episodes.arrays()

    def restore(self, layouts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Rows:
        """Takes another store's `state` into this new store, evicting what is too much.

        Arrays are taken out of `arrays`, which `saved_rows` has checked, and kept without a copy.

        Returns:
            Rows of the steps evicted since they do not fit this store's capacity.

        Raises:
            ValueError: If the arrays do not fit each other. This store is not usable then.
        """
        self.pool.restore(arrays)
        self.episodes.restore(arrays)
        used, allocated = self.pool.num_used, self.pool.num_allocated
        rows, num_rows = arrays.pop("episode_rows"), arrays["episode_num_rows"]
        ends = np.cumsum(num_rows)
        self._links = links = np.zeros((allocated, 3), np.int32)
        links[rows[:-1], NEXT] = rows[1:]
        links[rows[ends - 1], NEXT] = -1
        links[rows, SLOT] = np.repeat(np.arange(len(ends), dtype=np.int32), num_rows)
        links[rows, T] = np.arange(len(rows), dtype=np.int32)
        links[rows, T] -= np.repeat((ends - num_rows).astype(np.int32), num_rows)
        self.columns.restore(layouts, arrays, used, allocated)
        return self._evict(self._to_evict({}, ()), Counts())


def _same(a: Any, b: Any) -> bool:
    """Whether two items of an observation leaf are equal, NaNs included."""
    try:
        return bool(np.all((a == b) | ((a != a) & (b != b))))
    except ValueError:  # objects that are arrays of different shapes
        return False
