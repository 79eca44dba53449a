"""TransitionStore: time steps of episodes, added in chunks, evicted as whole episodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.activity import Counts
from rllib_per_acc.changes import Change, grow
from rllib_per_acc.columns import Prepared, Rows
from rllib_per_acc.episode_chunk import EpisodeChunk, checked_chunks
from rllib_per_acc.episode_table import TERMINATED, TRUNCATED, Episode, Growing
from rllib_per_acc.memory_estimate import check_capacity
from rllib_per_acc.replay_options import positive_int
from rllib_per_acc.step_columns import ChunkValues
from rllib_per_acc.threads import serialized
from rllib_per_acc.transitions import NEXT, SLOT, LinkedRows, T

_NO_ROWS = np.zeros(0, np.int32)


@dataclass(slots=True)
class Added:
    """What one `TransitionStore.add` does.

    Attributes:
        rows: Rows of the steps added, in the order they were given, int32 of shape (n,).
        kept: Of the steps given, which are added, bool; None when all are.
        freed: Rows that held evicted steps (some may be in `rows` again), int32 of shape (m,).
        counts: Of this one call: episodes and steps added and evicted.
        num_rows: Rows in use afterwards: all numbers are below that.
        num_episodes: Episodes stored afterwards.
        num_steps: Steps stored afterwards.
        num_given: Steps given.
    """

    rows: Rows
    kept: NDArray[np.bool_] | None
    freed: Rows
    counts: Counts
    num_rows: int
    num_episodes: int
    num_steps: int
    num_given: int


class PreparedAdd(NamedTuple):
    """Checked chunks.

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

        A chunk of a stored episode continues it; one of an unknown episode starts it, with its
        first step. Chunks of an episode that this very call evicts are dropped (RLlib:
        `PrioritizedEpisodeReplayBuffer.add`).

        Args:
            chunks: What to store.
            evict: Ids of the episodes to evict, in a store without a capacity; those that are not
                stored are ignored.

        Raises:
            TypeError: If there is something else than chunks, a chunk's flags are not bools, or
                its `t_started` is no integer.
            ValueError: If a chunk's lengths, nesting, shapes or dtypes do not fit, if it does not
                continue its episode where that ended, if there is a capacity and something in
                `evict`, or if this machine has no memory for so many such steps.
            MemoryError: If there is no memory now. Nothing is changed in each case.
        """
        change = Change()
        added = self.plan_add(change, chunks, evict)
        self._commit(change)
        return added

    def plan_add(
        self, change: Change, chunks: Sequence[EpisodeChunk], evict: Iterable[str] = ()
    ) -> Added:
        """Checks all that `add` needs, allocates, and plans the rest; see there."""
        kept, values, evicted, new_steps, steps_kept = self.prepare(chunks, evict)
        counts = Counts(num_adds=1)
        going = [self.episodes[id_] for id_ in evicted if id_ in self.episodes]
        for id_ in evicted:
            counts.episodes_evicted += 1
            if id_ in self.episodes:
                counts.steps_evicted += len(self.episodes[id_])
            else:  # comes and goes within this call
                counts.episodes_added += 1
                counts.steps_added += new_steps[id_]
                counts.steps_evicted += new_steps[id_]
        freed = np.concatenate([_NO_ROWS, *(episode.row_array() for episode in going)])
        num_new = len(values.observations.leaves[0]) if values else 0
        rows = self._plan_rows(change, going, freed, num_new, kept, values, counts)
        return Added(
            rows,
            steps_kept,
            freed,
            counts,
            self.pool.num_used + max(num_new - self.pool.num_free - len(freed), 0),
            self.num_episodes + counts.episodes_added - counts.episodes_evicted,
            self.num_steps + counts.steps_added - counts.steps_evicted,
            sum(new_steps.values()),
        )

    def prepare(self, chunks: Sequence[EpisodeChunk], evict: Iterable[str] = ()) -> PreparedAdd:
        """Checks all that `add` needs; see there."""
        chunks = [chunk for chunk in checked_chunks(chunks) if self._has_steps(chunk)]
        new_steps: dict[str, int] = {}
        for chunk in chunks:
            new_steps[chunk.episode_id] = new_steps.get(chunk.episode_id, 0) + len(chunk)
        evicted = self._to_evict(new_steps, evict)
        dropped = set(evicted)
        keeping = np.array([chunk.episode_id not in dropped for chunk in chunks], np.bool_)
        steps_kept = np.repeat(keeping, [len(chunk) for chunk in chunks]) if dropped else None
        kept = [chunk for chunk, keep in zip(chunks, keeping, strict=True) if keep]
        values = None
        if kept:
            values = self.columns.prepare(kept)
            if self.capacity is not None and not self.columns.observations.leaves:
                check_capacity(self.capacity, self.columns.bytes_per_step(values))
            values.skip_observations(self._check_continuations(kept, values.observations))
        return PreparedAdd(kept, values, evicted, new_steps, steps_kept)

    def _has_steps(self, chunk: EpisodeChunk) -> bool:
        """Whether there is something to store: more than what an episode begins with."""
        told = self.capacity is None  # who says what goes counts what came
        return len(chunk) > 0 or told or chunk.episode_id in self.episodes

    def _to_evict(self, new_steps: dict[str, int], evict: Iterable[str]) -> list[str]:
        if self.capacity is None:
            return [id_ for id_ in dict.fromkeys(evict) if id_ in self.episodes]
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

    def _plan_rows(
        self,
        change: Change,
        evicted: list[Episode],
        freed: Rows,
        num_new: int,
        chunks: list[EpisodeChunk],
        values: ChunkValues | None,
        counts: Counts,
    ) -> Rows:
        """Plans to free rows, and to link others and write them; counts what is added.

        Returns:
            The rows of the steps.
        """
        new = self.pool.exchange(change, freed, num_new)
        allocated = self.pool.num_allocated
        if allocated > len(self._links):
            self.columns.reserve(allocated)
            grow(self._links, allocated)  # at last: now there is room in all columns
        growing: dict[str, Growing] = {}
        starting = {c.episode_id for c in chunks if c.episode_id not in self.episodes}
        slots = iter(self.episodes.slots(change, evicted, len(starting)))
        num_steps = sum(map(len, chunks))
        step_rows, path = np.empty(num_steps, np.int32), np.empty(num_steps + len(chunks), np.int32)
        links = np.empty((len(path), 3), np.int32)
        starts = []  # positions of episodes' first steps among these
        taken = at = done = 0
        for chunk in chunks:
            n = len(chunk)
            grown = growing.get(chunk.episode_id)
            if grown is None:
                grown = growing[chunk.episode_id] = self._growing(chunk, slots)
            end = at + n + 1
            if grown.is_new and not grown.rows:
                starts.append(done)
                mine = path[at:end] = new[taken : taken + n + 1]
            else:
                mine = new[taken : taken + n]
                path[at], path[at + 1 : end] = grown.last, mine
            links[at : end - 1, NEXT], links[end - 1, NEXT] = path[at + 1 : end], -1
            links[at:end, SLOT] = grown.episode.slot
            links[at:end, T] = np.arange(grown.length, grown.length + n + 1)
            step_rows[done : done + n] = path[at : end - 1]
            if len(mine):
                grown.rows.append(mine)
            grown.length += n
            grown.flags = int(TERMINATED) * chunk.terminated | int(TRUNCATED) * chunk.truncated
            taken, at, done = taken + len(mine), end, done + n
        counts.episodes_added += len(starts)
        counts.steps_added += num_steps
        self.episodes.plan(change, evicted, list(growing.values()))
        self.columns.plan(change, freed, values, new, step_rows, starts, allocated)
        change.put(self._links, path, links)
        return step_rows

    def _growing(self, chunk: EpisodeChunk, slots: Iterator[int]) -> Growing:
        episode = self.episodes.get(chunk.episode_id)
        if episode is not None:
            return Growing(episode, is_new=False)
        return Growing(Episode(chunk.episode_id, next(slots), chunk.t_started), is_new=True)

    # Copies and state

    @serialized
    def chunks(self, start: int, stop: int) -> list[EpisodeChunk]:
        """Copies of the stored episodes number `start` to `stop`, oldest first."""
        return [self._copy(episode) for episode in self.episodes.between(start, stop)]

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
        self.columns.observations.check_rows(rows)
        change = Change()
        freed = self.plan_add(change, ()).freed
        change.make()
        return freed


def _same(a: Any, b: Any) -> bool:
    """Whether two items of an observation leaf are equal, NaNs included, also inside objects."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(value, b[key]) for key, value in a.items())
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(_same, a, b))
    try:
        if np.shape(a) != np.shape(b):
            return False
        if isinstance(a, np.ndarray) and a.dtype == object:
            return all(map(_same, a.flat, np.asarray(b).flat))
        return bool(np.all((a == b) | ((a != a) & (b != b))))
    except (TypeError, ValueError):  # objects that numbers or arrays cannot be compared with
        return False
