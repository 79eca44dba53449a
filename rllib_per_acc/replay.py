"""PrioritizedReplay: the store and the sampler together, without Ray and RLlib."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rllib_per_acc.activity import Activity, Counts
from rllib_per_acc.draws import EMPTY, NothingToSampleError, draw
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.replay_batch import ReplayBatch, RowHandle
from rllib_per_acc.replay_folder import SavedFolder, write_folder
from rllib_per_acc.replay_options import (
    BetaSchedule,
    NStep,
    ReplayOptions,
    beta_at,
    n_step_range,
    non_negative,
    non_negative_int,
    positive_int,
)
from rllib_per_acc.sampling import Floats, PrioritySampler, checked_weight
from rllib_per_acc.saved_rows import check_masses, check_rows, leave_out_oldest
from rllib_per_acc.transitions import TransitionStore


class PrioritizedReplay:
    """Prioritized experience replay over columns of transitions.

    Args:
        capacity: How many steps to keep; whole episodes are evicted, oldest first.
        options: See `ReplayOptions`.

    Raises:
        TypeError, ValueError: If an option has a wrong type or value.
    """

    def __init__(self, capacity: int, **options: Any) -> None:
        self.options = ReplayOptions(**options)
        self._store = TransitionStore(capacity)
        self._sampler = PrioritySampler(
            self.options.alpha,
            max_priority=self.options.max_priority,
            sampling=self.options.sampling,
            weight_normalization=self.options.weight_normalization,
            device=self.options.device,
        )
        self.rng = np.random.default_rng(self.options.seed)
        self.incarnation = 0
        self._activity = Activity(self.options.metrics_window)
        self._reported = Counts()  # what `take_activity` gave out so far
        self.num_stale_dropped = 0

    def __len__(self) -> int:
        return self._store.num_steps

    @property
    def capacity(self) -> int:
        """How many steps are kept."""
        return self._store.capacity

    @property
    def tree(self) -> Any:
        """The tree of masses; a row's leaf has the row's number."""
        return self._sampler.tree

    @property
    def max_priority(self) -> float:
        """The priority that new steps get."""
        return self._sampler.max_priority

    def add(self, chunks: Sequence[EpisodeChunk], weight: Any = None) -> None:
        """Stores chunks of episodes with a first priority.

        Args:
            chunks: What to store; see `TransitionStore.add` for the rules of eviction.
            weight: The first priority: one number, one for each step of all chunks in order, or
                None for the maximum priority.

        Raises:
            TypeError, ValueError: If chunks or weights do not fit; nothing is changed.
        """
        chunks = list(chunks)
        first = None
        if weight is not None:
            first = checked_weight(weight, sum(map(len, chunks)))
            self._sampler.check("weight", first)
        added = self._store.add(chunks)
        if first is None:
            priorities = np.full(len(added.rows), self.max_priority)
        else:
            priorities = first if added.kept is None else first[added.kept]
        self._sampler.reserve(self._store.pool.num_used)
        self._sampler.replace(added.freed, added.rows, priorities)
        self._activity.log_add(
            added.counts,
            episodes_stored=self._store.num_episodes,
            steps_stored=self._store.num_steps,
        )

    def sample(
        self,
        num_items: int,
        *,
        n_step: NStep = 1,
        gamma: float = 0.99,
        beta: BetaSchedule | None = None,
        include_infos: bool = False,
        include_extra_model_outputs: bool = False,
        incomplete_n_step: str | None = None,
    ) -> ReplayBatch:
        """Draws transitions with probabilities proportional to their masses, with replacement.

        Args:
            num_items: How many.
            n_step: Steps of each transition, or a closed range `(low, high)` to draw them from.
                A step that its episode cannot serve is drawn again, or its transition is made
                shorter (option `incomplete_n_step`).
            gamma: Discount per step of the summed rewards.
            beta: Exponent of the importance weights, or a schedule of it; None for the option.
            include_infos: Whether to add `infos` and `next_infos`.
            include_extra_model_outputs: Whether to add `extra_model_outputs`.
            incomplete_n_step: In place of the option of this name.

        Raises:
            TypeError, ValueError: If an argument is wrong.
            NothingToSampleError: If the buffer is empty, or no stored episode is long enough for
                `n_step`. It is a `ValueError`.
        """
        num_items = positive_int("num_items", num_items)
        low, high = n_step_range(n_step)
        gamma = non_negative("gamma", gamma)
        exponent = beta_at(
            self.options.beta if beta is None else beta, lambda: self.lifetimes.steps_added
        )
        if not self._store.num_steps:
            raise NothingToSampleError(EMPTY)
        shorten = self.options.shortens(incomplete_n_step)
        drawn, resampled = draw(
            self._store, self._sampler, self.rng, num_items, (low, high), shorten
        )
        columns = self._store.gather(
            drawn, gamma, infos=include_infos, extras=include_extra_model_outputs
        )
        columns["weights"] = self._sampler.weights(drawn.masses, len(self), exponent)
        self._activity.log_sample(
            steps=num_items,
            distinct_steps=drawn.distinct_rows,
            distinct_episodes=drawn.distinct_slots,
            resampled=resampled,
            mean_n_step=float(drawn.n_step.sum()) / num_items,
        )
        handle = RowHandle(drawn.rows, drawn.generations, self.incarnation)
        return ReplayBatch(columns, handle, self)

    def update(self, handle: RowHandle, priorities: Floats) -> None:
        """Gives sampled rows new priorities; those evicted since are skipped and counted.

        Args:
            handle: Of the batch (`ReplayBatch.handle`).
            priorities: Finite numbers, float64 of shape (B,).
        """
        if handle.incarnation != self.incarnation:
            self.num_stale_dropped += len(handle.rows)
            return
        self._sampler.check("priorities", priorities)
        live = self._store.pool.generation.take(handle.rows) == handle.generations
        if live.all():
            self._sampler.update(handle.rows, priorities)
        else:
            self.num_stale_dropped += int(len(live) - live.sum())
            self._sampler.update(handle.rows[live], priorities[live])

    def take_activity(self) -> Activity:
        """What happened since the last call."""
        taken, self._activity = self._activity, Activity(self.options.metrics_window)
        self._reported += taken.counts
        return taken

    @property
    def lifetimes(self) -> Counts:
        """Sums over all calls so far."""
        return self._reported + self._activity.counts

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
            "bytes": self._store.nbytes + self.tree.nbytes,
        }

    def shard_info(self) -> list[dict[str, Any]]:
        """The counters, and the `pid` of this process."""
        return [self.info() | {"pid": os.getpid()}]

    def get_priorities(self) -> dict[str, np.ndarray]:
        """The masses of all stored steps, oldest episode first.

        Returns:
            `episode_id` (object), `t` (int64, the time step in the episode) and `mass` (float64),
            each of shape (steps,).
        """
        rows = self._store.live_rows()
        located = self._store.locate(rows)
        return {
            "episode_id": self._store.episode_ids(located),
            "t": self._store.time_steps(located),
            "mass": self.tree[rows],
        }

    def get_chunks(self, start: int, stop: int) -> list[EpisodeChunk]:
        """Copies of the stored episodes number `start` to `stop`, oldest first."""
        return self._store.chunks(start, stop)

    def state_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything needed to go on: a description for `json_values`, and arrays.

        The arrays are views of what this replay goes on to change: copy or write them at once.
        """
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
        """Goes on from what `state_arrays` returned, perhaps of a replay of another capacity.

        The oldest episodes are evicted where the capacity is less. With another `alpha` the masses
        are computed anew. Batches sampled before are stale from then on.

        Args:
            description: As from `state_arrays`.
            arrays: Likewise. They become this replay's own, without a copy where they can be
                resized, and are taken out of the dict.

        Raises:
            ValueError: If they are not what `state_arrays` returned; the replay is unchanged.
        """
        restored = PrioritizedReplay(self.capacity, **asdict(self.options))
        try:
            check_rows(arrays)
            check_masses(arrays)
            if len(arrays["generation"]) > restored._store.pool.roomy:
                leave_out_oldest(arrays, self.capacity)
            # In this order: masses need the most memory for a moment.
            restored._sampler.restore(description["sampler"], arrays)
            freed = restored._store.restore(description["columns"], arrays)
            restored._sampler.replace(freed, freed[:0], np.zeros(0))
            restored.rng.bit_generator.state = description["rng"]
            restored._reported = Counts.restored(description["lifetimes"])
            dropped = description["stale_priorities_dropped"]
            restored.num_stale_dropped = non_negative_int("stale_priorities_dropped", dropped)
        except _NOT_A_STATE as error:
            raise ValueError(f"state: cannot be restored, {_reason(error)}") from error
        restored.incarnation = self.incarnation + 1
        self.__dict__.update(restored.__dict__)

    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on, as copies: `description` (JSON-able) and `arrays`."""
        description, arrays = self.state_arrays()
        return {
            "description": copy.deepcopy(description),
            "arrays": {name: copy.deepcopy(array) for name, array in arrays.items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what `get_state` returned, which stays as it is; see `restore_arrays`.

        Raises:
            ValueError: If it is not such a state; nothing is changed.
        """
        try:
            description, arrays = state["description"], dict(state["arrays"])
        except _NOT_A_STATE as error:
            raise ValueError(f"state: cannot be restored, {_reason(error)}") from error
        self.restore_arrays(description, {n: copy.deepcopy(a) for n, a in arrays.items()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything needed to go on into a folder: arrays, JSON, no pickle.

        An earlier save in the folder is replaced at once at the end: it stays whole if the disk is
        full or the process dies. Infos, and observations that are not arrays of numbers, are
        written as JSON; they may hold what `json_values.to_json` takes.

        Args:
            path: A folder: a new one, an empty one, or one with an earlier save.

        Raises:
            FileExistsError: If the folder holds something else.
            OSError: If a file cannot be written.
            TypeError: If an object cannot be written as JSON; the message names its column.
        """
        description, arrays = self.state_arrays()
        given = {"capacity": self.capacity, "options": asdict(self.options), "state": description}
        write_folder(path, given, arrays)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], capacity: int | None = None, **options: Any
    ) -> PrioritizedReplay:
        """A replay that goes on from a save: the same masses, the same next sample.

        Nothing in the folder is run; everything in it is checked.

        Args:
            path: The folder.
            capacity: Another capacity than that of the saved replay. If it is less, the oldest
                episodes are left out.
            options: Other options than those of the saved replay; see `ReplayOptions`.

        Raises:
            FileNotFoundError: If there is no save in the folder.
            TypeError, ValueError: If an option has a wrong type or value.
            ValueError: If a file is missing, damaged, foreign or of a newer version; the message
                names it.
        """
        saved = SavedFolder(path)
        try:
            written, state = dict(saved.description["options"]), saved.description["state"]
            capacity = saved.description["capacity"] if capacity is None else capacity
        except _NOT_A_STATE as error:
            raise ValueError(f"{path}: not the save of a replay, {_reason(error)}") from error
        replay = cls(capacity, **written | options)
        try:
            replay.restore_arrays(state, saved.read())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        return replay


_NOT_A_STATE = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)


def _reason(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
