"""PrioritizedReplay: the store and the sampler together, without Ray and RLlib."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rllib_per_acc.activity import Activity, Counts
from rllib_per_acc.changes import Change
from rllib_per_acc.descriptions import anything, dict_of, integer, or_none, random_state, record
from rllib_per_acc.draws import EMPTY, NothingToSampleError, Steps, draw
from rllib_per_acc.episode_chunk import EpisodeChunk, checked_chunks
from rllib_per_acc.local_folder import Folder
from rllib_per_acc.parts_on_file import LocalPart, Prepared, prepare_parts, save_parts
from rllib_per_acc.replay_batch import ReplayBatch, RowHandle
from rllib_per_acc.replay_files import kinds_of
from rllib_per_acc.replay_options import (
    BetaSchedule,
    NStep,
    ReplayOptions,
    SequenceShape,
    beta_at,
    non_negative,
    positive_int,
)
from rllib_per_acc.resumable import NOT_A_STATE, Resumable, not_a_state
from rllib_per_acc.sampling import Floats, PrioritySampler, checked_weight
from rllib_per_acc.saved_rows import (
    check_layouts,
    check_masses,
    check_rows,
    check_shapes,
    leave_out_oldest,
)
from rllib_per_acc.sequences import gather, num_steps
from rllib_per_acc.threads import AllOrNothing, PreparedChange, serialized
from rllib_per_acc.transition_store import TransitionStore

_check_state = record(
    {
        "columns": dict_of(anything),
        "sampler": dict_of(anything),
        "rng": or_none(random_state),
        "lifetimes": dict_of(integer()),
        "stale_priorities_dropped": integer(),
    }
)


class PrioritizedReplay(Resumable):
    """Prioritized experience replay over columns of transitions.

    Several threads may use it: calls wait for each other. A batch belongs to one thread.

    Args:
        capacity: How many steps to keep; whole episodes are evicted, oldest first. None: what is
            evicted is said in `add`.
        options: See `ReplayOptions`.

    Raises:
        TypeError, ValueError: If an option has a wrong type or value.
    """

    holds = "episodes"
    options_class = ReplayOptions
    check_kinds = staticmethod(check_shapes)

    def __init__(self, capacity: int | None, **options: Any) -> None:
        AllOrNothing.__init__(self)
        self.options: ReplayOptions = ReplayOptions(**options)
        self._store = TransitionStore(capacity, self.options.frame_stack)
        self._sampler = PrioritySampler(self.options)
        self.rng = np.random.default_rng(self.options.seed)
        self.incarnation = 0
        self._activity = Activity(self.options.metrics_window)
        self._reported = Counts()  # what `take_activity` gave out so far
        self.num_stale_dropped = 0

    def __len__(self) -> int:
        return self._store.num_steps

    @property
    def capacity(self) -> int | None:
        """How many steps are kept; None where `add` is told what to evict."""
        return self._store.capacity

    @property
    def tree(self) -> Any:
        """The tree of masses; a row's leaf has the row's number."""
        return self._sampler.tree

    @property
    def max_priority(self) -> float:
        """The priority that new steps get."""
        return self._sampler.max_priority

    @serialized
    def add(
        self, chunks: Sequence[EpisodeChunk], weight: Any = None, evict: Iterable[str] = ()
    ) -> None:
        """Stores chunks of episodes with a first priority.

        Args:
            chunks: What to store; see `TransitionStore.add` for the rules of eviction.
            weight: The first priority: one number, one for each step of all chunks in order, or
                None for the maximum priority.
            evict: Ids of the episodes to evict, where there is no capacity.

        Raises:
            TypeError, ValueError: If chunks or weights do not fit; nothing is changed.
        """
        change, _ = self._plan_add(chunks, weight, evict)
        self._commit(change)

    @serialized
    def prepare_add(
        self, chunks: Sequence[EpisodeChunk], weight: Any = None, evict: Iterable[str] = ()
    ) -> Callable[[], None]:
        """Checks what `add` checks, and returns what then adds, however often it is called.

        So several replays can be added to, or none of them. If this replay has changed in the
        meantime, everything is checked anew.
        """
        chunks, evict = checked_chunks(chunks), list(evict)
        return PreparedChange(self, lambda: self._plan_add(chunks, weight, evict)[0])

    def _plan_add(
        self,
        chunks: Sequence[EpisodeChunk],
        weight: Any,
        evict: Iterable[str],
        *,
        counted: bool = True,
    ) -> tuple[Change, int]:
        """Checks and plans an `add`, which is perhaps not counted; and how many steps it adds."""
        change = Change()
        added = self._store.plan_add(change, chunks, evict)
        if weight is None:
            priorities = np.full(len(added.rows), self.max_priority)
        else:
            priorities = checked_weight(weight, added.num_given)
            self._sampler.check("weight", priorities)
            priorities = priorities if added.kept is None else priorities[added.kept]
        self._sampler.reserve(added.num_rows)
        self._sampler.plan_replace(change, added.freed, added.rows, priorities)
        num_steps = added.counts.steps_added
        self._activity.plan_add(
            change,
            added.counts if counted else added.counts - added.counts.arrivals(),
            episodes_stored=added.num_episodes,
            steps_stored=added.num_steps,
        )
        return change, num_steps

    @serialized
    def sample(
        self,
        num_items: int,
        *,
        n_step: NStep = 1,
        gamma: float = 0.99,
        beta: BetaSchedule | None = None,
        include_infos: bool = False,
        include_extra_model_outputs: bool = False,
        include_episode_ids: bool = False,
        incomplete_n_step: str | None = None,
        sequences: SequenceShape | None = None,
    ) -> ReplayBatch:
        """Draws transitions with probabilities proportional to their masses, with replacement.

        Or sequences of steps: each begins at a step that is drawn by its mass, and a priority that
        it gets is that of this step.

        Args:
            num_items: How many.
            n_step: Steps of each transition, or a closed range `(low, high)` to draw them from.
                A step that its episode cannot serve is drawn again, or its transition is made
                shorter (option `incomplete_n_step`).
            gamma: Discount per step of the summed rewards.
            beta: Exponent of the importance weights, or a schedule of it; None for the option.
            include_infos: Whether to add `infos` and `next_infos`.
            include_extra_model_outputs: Whether to add `extra_model_outputs`.
            include_episode_ids: Whether to add `episode_id`.
            incomplete_n_step: In place of the option of this name.
            sequences: None for transitions, or the shape of sequences (then `n_step` is 1); see
                `gather_sequences` for what the batch holds.

        Raises:
            TypeError, ValueError: If an argument is wrong.
            NothingToSampleError: If the buffer is empty, or no stored episode is long enough. It
                is a `ValueError`.
        """
        num_items = positive_int("num_items", num_items)
        steps, least = self.options.steps_to_read(n_step, incomplete_n_step, sequences)
        gamma = non_negative("gamma", gamma)
        exponent = beta_at(
            self.options.beta if beta is None else beta, lambda: self.lifetimes.steps_added
        )
        if not self._store.num_steps:
            raise NothingToSampleError(EMPTY)
        undo = Change()  # of what an error or an interrupt leaves of the draws
        undo.let(self.rng.bit_generator, "state", self.rng.bit_generator.state)
        self._unless_committed(undo)
        drawn, resampled = draw(self._store, self._sampler, self.rng, num_items, steps, least)
        columns = gather(
            self._store,
            drawn,
            gamma,
            sequences,
            infos=include_infos,
            extras=include_extra_model_outputs,
            ids=include_episode_ids,
        )
        columns["weights"] = self._sampler.weights(drawn.masses, len(self), exponent)
        change = Change()
        self._activity.plan_sample(
            change,
            steps=num_steps(columns),
            distinct_steps=drawn.distinct_rows,
            distinct_episodes=drawn.distinct_slots,
            resampled=resampled,
            mean_n_step=float(columns["n_step"].sum()) / num_items,
        )
        handle = RowHandle(drawn.rows, drawn.generations, self.incarnation)
        batch = ReplayBatch(columns, handle, self)
        self._commit(change)
        return batch

    @serialized
    def update(self, handle: RowHandle, priorities: Floats) -> None:
        """Gives sampled rows new priorities; those evicted since are skipped and counted.

        Args:
            handle: Of the batch (`ReplayBatch.handle`).
            priorities: Finite numbers, float64 of shape (B,).
        """
        change = Change()
        stale = 0
        if handle.incarnation != self.incarnation:
            stale = len(handle.rows)
        else:
            live = self._store.pool.generation.take(handle.rows) == handle.generations
            if live.all():
                self._sampler.plan_update(change, handle.rows, priorities)
            else:
                self._sampler.check("priorities", priorities)
                stale = int(len(live) - live.sum())
                self._sampler.plan_update(change, handle.rows[live], priorities[live])
        if stale:
            change.let(self, "num_stale_dropped", self.num_stale_dropped + stale)
        self._commit(change)

    @serialized
    def take_activity(self) -> Activity:
        """What happened since the last call."""
        return self._take_activity()

    def _take_activity(self, *, samples: bool = True) -> Activity:
        """What happened since the last call; the samples in it stay this replay's, or do not."""
        taken = self._activity
        change = Change()
        change.let(self, "_activity", Activity(self.options.metrics_window))
        reported = taken.counts if samples else taken.counts.of_adds()
        change.let(self, "_reported", self._reported + reported)
        self._commit(change)
        return taken

    @property
    def lifetimes(self) -> Counts:
        """Sums over all calls so far."""
        return self._reported + self._activity.counts

    @property
    def nbytes(self) -> int:
        """Memory that the rows and the tree take."""
        nbytes: int = self._store.nbytes + self.tree.nbytes
        return nbytes

    @serialized
    def info(self) -> dict[str, Any]:
        """Counters: what is stored, what came, went and was sampled so far, bytes."""
        lifetimes = self.lifetimes
        return {
            "steps": self._store.num_steps,
            "episodes": self._store.num_episodes,
            "mass": self.tree.sum(),
            "device": self.tree.device,
            "incarnation": self.incarnation,
            "steps_added": lifetimes.steps_added,
            "episodes_added": lifetimes.episodes_added,
            "steps_evicted": lifetimes.steps_evicted,
            "episodes_evicted": lifetimes.episodes_evicted,
            "steps_sampled": lifetimes.steps_sampled,
            "stale_priorities_dropped": self.num_stale_dropped,
            "masses_lifted": self._sampler.num_lifted,
            "bytes": self.nbytes,
        }

    @serialized
    def shard_info(self) -> list[dict[str, Any]]:
        """The counters, and the `pid` of this process."""
        return [self.info() | {"pid": os.getpid()}]

    @serialized
    def shard_metrics(self) -> list[dict[str, float]]:
        """Numbers to follow over time, for the one place where the rows are."""
        return [
            {
                "steps": self._store.num_steps,
                "mass": self.tree.sum(),
                "bytes": self.nbytes,
                "stale_priorities_dropped": self.num_stale_dropped,
            }
        ]

    @serialized
    def get_priorities(self) -> dict[str, np.ndarray]:
        """The masses of all stored steps, oldest episode first.

        Returns:
            `episode_id` (object), `t` (int64, the time step in the episode) and `mass` (float64),
            each of shape (steps,).
        """
        rows = self._store.live_rows()
        located = self._store.locate(rows)
        return {
            "episode_id": self._store.episodes.ids_at(located.slots),
            "t": self._store.time_steps(located),
            "mass": self.tree[rows],
        }

    @serialized
    def read(
        self,
        episode_ids: Sequence[str],
        t: Steps,
        n_step: Steps,
        *,
        gamma: float = 0.99,
        include_infos: bool = False,
        include_extra_model_outputs: bool = False,
    ) -> list[tuple[dict[str, Any], Steps]]:
        """The transitions that begin at these steps; nothing is drawn or counted.

        Args:
            episode_ids: Of their episodes.
            t: Their time steps in the episodes, int64 of shape (B,).
            n_step: Steps of each transition, int64 of shape (B,).
            gamma: As in `sample`; so the rest.
            include_infos: Likewise.
            include_extra_model_outputs: Likewise.

        Returns:
            Columns, and which of the transitions asked for these are, int64: those that are not
            stored, or longer than what is left of their episode, are left out.
        """
        rows = self._store.rows_at(episode_ids, t)
        stored = np.flatnonzero(rows >= 0)
        rows = rows[stored]
        read = self._store.serve(rows, self.tree[rows], n_step[stored])
        if not len(read.rows):
            return []
        include = {"infos": include_infos, "extras": include_extra_model_outputs}
        return [(self._store.gather(read, gamma, **include), stored[read.positions])]

    @serialized
    def get_chunks(self, start: int, stop: int) -> list[EpisodeChunk]:
        """Copies of the stored episodes number `start` to `stop`, oldest first."""
        return self._store.chunks(start, stop)

    @serialized
    def get_chunks_of(self, episode_ids: Sequence[Any]) -> list[EpisodeChunk]:
        """Copies of these episodes, without those that are not stored."""
        return self._store.chunks_of(episode_ids)

    @serialized
    def episode_ids(self) -> list[Any]:
        """The ids of the stored episodes, oldest first."""
        return [episode.episode_id for episode in self._store.episodes]

    @serialized
    def state_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See `Resumable.state_arrays`."""
        columns, arrays = self._store.state()
        sampler, masses = self._sampler.state(self._store.pool.num_used)
        description = {
            "columns": columns,
            "sampler": sampler,
            "rng": self.rng.bit_generator.state,
            "lifetimes": asdict(self.lifetimes),
            "stale_priorities_dropped": self.num_stale_dropped,
        }
        return description, arrays | masses

    def restore_arrays(self, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """See `Resumable.restore_arrays`; whole episodes are evicted."""
        self.become(self.restored(description, arrays))

    @serialized
    def become(self, restored: PrioritizedReplay) -> None:
        """Takes over what `restored` returned."""
        self._become(restored)

    @serialized
    def restored(
        self, description: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> PrioritizedReplay:
        """What this replay would be after `restore_arrays`.

        Args:
            description: As from `state_arrays`; where `rng` is None there, the random numbers go on
                as they are here.
            arrays: See `restore_arrays`.

        Raises:
            ValueError: As `restore_arrays`.
        """
        restored = PrioritizedReplay(self.capacity, **asdict(self.options))
        try:
            _check_state("", description)
            check_shapes(kinds_of(arrays))
            check_rows(arrays)
            check_layouts(description["columns"], arrays)
            check_masses(arrays)
            if self.capacity and len(arrays["generation"]) > restored._store.pool.roomy:
                leave_out_oldest(arrays, self.capacity)
            # In this order: masses need the most memory for a moment.
            restored._sampler.restore(description["sampler"], arrays)
            freed = restored._store.restore(description["columns"], arrays)
            change = Change()
            restored._sampler.plan_replace(change, freed, freed[:0], np.zeros(0))
            change.make()
            rng = description["rng"] or self.rng.bit_generator.state
            restored.rng.bit_generator.state = rng
            restored._reported = Counts.restored(description["lifetimes"])
            restored.num_stale_dropped = description["stale_priorities_dropped"]
        except NOT_A_STATE as error:
            raise not_a_state(error) from error
        restored.incarnation = self.incarnation + 1
        return restored

    @serialized
    def save_in(self, folder: Folder) -> dict[str, Any]:
        """See `ReplayClient.save_in`."""
        return {"parts": save_parts(folder, [LocalPart(self)]), "steps_sampled": 0}

    def prepare_restore(self, folder: Folder, saved: dict[str, Any]) -> Prepared:
        """See `ReplayClient.prepare_restore`."""

        def count() -> None:
            self._reported.steps_sampled += saved["steps_sampled"]

        return prepare_parts(folder, saved["parts"], [LocalPart(self)], count)
