"""TransitionReplay: prioritized replay of single transitions, without episodes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.changes import Change
from rllib_per_acc.columns import NOTHING, Column, NumberColumn, Prepared, Rows
from rllib_per_acc.descriptions import anything, dict_of, integer, random_state, record, wrong
from rllib_per_acc.draws import NothingToSampleError
from rllib_per_acc.replay_batch import ReplayBatch
from rllib_per_acc.replay_files import Kinds, kinds_of
from rllib_per_acc.replay_options import (
    BetaSchedule,
    PriorityOptions,
    beta_at,
    positive_int,
)
from rllib_per_acc.resumable import NOT_A_STATE, Resumable, not_a_state
from rllib_per_acc.sampling import PrioritySampler, checked_priorities
from rllib_per_acc.saved_rows import check_masses_at
from rllib_per_acc.structures import map_leaves
from rllib_per_acc.threads import AllOrNothing, serialized

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TransitionOptions(PriorityOptions):
    """`PriorityOptions` with other defaults: the proportional variant as it is mostly written."""

    alpha: float = 0.4
    min_priority: float | None = 1e-5
    sampling: Literal["proportional", "stratified"] = "stratified"
    weight_normalization: Literal["buffer", "batch"] = "batch"


_check_state = record(
    {
        "columns": dict_of(anything),
        "sampler": dict_of(anything),
        "rng": random_state,
        "num_added": integer(),
        "first": integer(),
        "num_stale_dropped": integer(),
    }
)


class TransitionReplay(Resumable):
    """Prioritized experience replay of single transitions, the oldest of which is replaced.

    For loops that have a state, an action, a reward, a next state and perhaps a TD error at a time.
    It knows no episodes: both observations of a transition are stored. `PrioritizedReplay`
    stores each observation once and sums n-step rewards, but wants to know the episodes.

    Several threads may use it: calls wait for each other. A batch belongs to one thread.

    Transitions are named by their *index*: how many were added before. An index is never used
    twice, so a late TD error cannot reach a transition that has replaced the one it is for.

    Args:
        capacity: How many transitions to keep.
        options: See `TransitionOptions`.

    Raises:
        TypeError, ValueError: If an option has a wrong type or value.
    """

    holds = "transitions"
    options_class = TransitionOptions

    def __init__(self, capacity: int = 600_000, **options: Any) -> None:
        AllOrNothing.__init__(self)
        self._capacity = positive_int("capacity", capacity)
        self.options = TransitionOptions(**options)
        self.rng = np.random.default_rng(self.options.seed)
        self.num_added = 0
        """Transitions added so far: the index that the next one gets."""
        self.num_stale_dropped = 0
        """TD errors dropped since their transitions were gone."""
        self._first: int
        self._sampler: PrioritySampler
        self._columns: tuple[Column, ...]
        vars(self).update(self._nothing())

    def _nothing(self) -> dict[str, Any]:
        """What this replay consists of while there is nothing in it."""
        return {
            "_first": self.num_added,  # the index whose row is 0
            "_sampler": PrioritySampler(self.options),
            "_columns": (
                Column("observations"),
                Column("actions"),
                NumberColumn("rewards", np.float64),
                Column("next_observations"),
                NumberColumn("terminateds", np.bool_),
            ),
        }

    @serialized
    def clear(self) -> None:
        """Takes everything out. Indices go on, and the random numbers of draws do."""
        change = Change()
        for name, value in self._nothing().items():
            change.let(self, name, value)
        self._commit(change)

    def __len__(self) -> int:
        return min(self.num_added - self._first, self._capacity)

    @property
    def capacity(self) -> int:
        """How many transitions are kept."""
        return self._capacity

    @property
    def tree(self) -> Any:
        """The tree of masses; the leaf of a transition is `(index - those cleared) % capacity`."""
        return self._sampler.tree

    @property
    def max_priority(self) -> float:
        """What transitions without a TD error get: the highest absolute one so far."""
        return self._sampler.max_priority

    @property
    def nbytes(self) -> int:
        """Bytes allocated; the system gives memory for transitions as they come."""
        return sum(column.nbytes for column in self._columns) + int(self.tree.nbytes)

    @serialized
    def total_priority(self) -> float:
        """The sum of all masses."""
        return float(self.tree.sum())

    def add(
        self,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        terminated: bool,
        td_error: float | None = None,
    ) -> None:
        """Stores one transition; see `add_batch`."""
        values = (observation, action, reward, next_observation, terminated)
        one: list[Any] = [map_leaves(lambda leaf: [leaf], value) for value in values]
        one.append(None if td_error is None else [td_error])
        self.add_batch(*one)

    @serialized
    def add_batch(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        next_observations: Any,
        terminateds: Any,
        td_errors: Any = None,
    ) -> None:
        """Stores n transitions, in the place of the oldest where there is no room.

        Nesting, shapes and dtypes are those of the first transitions stored.

        Args:
            observations: Nested arrays of n items.
            actions: Likewise.
            rewards: n numbers.
            next_observations: As `observations`.
            terminateds: n bools: whether nothing comes after, so that the value of the next
                observation counts nothing. An episode that was cut off (truncated) goes on.
            td_errors: n finite numbers, whose absolute values are the priorities; None for the
                highest so far.

        Raises:
            TypeError, ValueError: If something does not fit; nothing is changed.
        """
        if np.ndim(rewards) == 0:
            raise TypeError(f"rewards: got {rewards!r:.80}, expected n numbers")
        n = len(rewards)
        if not n:
            return
        given = (observations, actions, rewards, next_observations, terminateds)
        if td_errors is None:
            priorities = np.full(n, self.max_priority)
        else:
            priorities = np.abs(checked_priorities(td_errors, n, "td_errors"))
            self._sampler.check("td_errors", priorities)
        prepared = [c.prepare([v], [n]) for c, v in zip(self._columns, given, strict=True)]
        _check_alike(prepared[0], prepared[3])
        indices = np.arange(self.num_added, self.num_added + n)
        passing = range(n - self._capacity)  # more than there is room for: they come and go
        rows = self._rows_of(indices[len(passing) :])
        change = Change()
        for column, values in zip(self._columns, prepared, strict=True):
            column.plan(change, rows[:0], rows, values.without(passing), self._capacity)
        self._sampler.reserve(min(self.num_added + n - self._first, self._capacity))
        self._sampler.plan_update(change, rows, priorities[len(passing) :])
        change.let(self, "num_added", self.num_added + n)
        self._commit(change)

    def _rows_of(self, indices: Indices) -> Rows:
        return ((indices - self._first) % self._capacity).astype(np.int32)

    @serialized
    def sample(self, batch_size: int, *, beta: BetaSchedule | None = None) -> ReplayBatch:
        """Draws transitions with probabilities proportional to their masses, with replacement.

        Args:
            batch_size: How many, at most as many as are stored.
            beta: Exponent of the importance weights, or a schedule of it over the transitions
                added; None for the option.

        Returns:
            A batch of `observations`, `actions`, `rewards` (float64), `next_observations`,
            `terminateds` (bool), `weights` (float64) and `indices` (int64). `batch.update(
            td_errors)` is `update(batch.indices, td_errors)`.

        Raises:
            TypeError, ValueError: If an argument is wrong.
            NothingToSampleError: If less than `batch_size` are stored. It is a `ValueError`.
        """
        batch_size = positive_int("batch_size", batch_size)
        exponent = beta_at(self.options.beta if beta is None else beta, lambda: self.num_added)
        if batch_size > len(self):
            raise NothingToSampleError(
                f"batch_size: got {batch_size}, expected at most the {len(self)} transitions stored"
            )
        undo = Change()  # of what an error or an interrupt leaves of the draws
        undo.let(self.rng.bit_generator, "state", self.rng.bit_generator.state)
        self._unless_committed(undo)
        rows, masses = self._sampler.draw(batch_size, self.rng)
        columns = {column.name: column.take(rows.astype(np.int32)) for column in self._columns}
        columns["weights"] = self._sampler.weights(masses, len(self), exponent)
        newest = self.num_added - 1
        age = (newest - self._first - rows) % self._capacity
        columns["indices"] = newest - age
        batch = ReplayBatch(columns, columns["indices"], self)
        self._commit(Change())
        return batch

    @serialized
    def update(self, indices: Any, td_errors: Any) -> None:
        """Gives transitions new priorities; those that are gone are skipped and counted.

        Args:
            indices: Of transitions, integers of shape (n,); of one named twice the last counts.
            td_errors: Finite numbers of shape (n,), whose absolute values count.

        Raises:
            TypeError: If the indices are not integers or the TD errors not real numbers.
            ValueError: If shapes differ, a TD error is not finite, or an index has not been used.
                Nothing is changed.
        """
        named = np.asarray(indices)
        if named.dtype.kind not in "iu":
            raise TypeError(f"indices: got {named.dtype} items, expected integers")
        if named.ndim != 1:
            raise ValueError(f"indices: got shape {named.shape}, expected (n,)")
        priorities = np.abs(checked_priorities(td_errors, len(named), "td_errors"))
        self._sampler.check("td_errors", priorities)
        unused = np.flatnonzero((named < 0) | (named >= self.num_added))
        if unused.size:
            raise ValueError(
                f"indices: got {named[unused[0]]} at position {unused[0]}, expected indices from 0 "
                f"to {self.num_added - 1}, those of the transitions added"
            )
        stored = named >= self.num_added - len(self)
        dropped = int(len(named) - stored.sum())
        change = Change()
        change.let(self, "num_stale_dropped", self.num_stale_dropped + dropped)
        self._sampler.plan_update(change, self._rows_of(named[stored]), priorities[stored])
        self._commit(change)

    @staticmethod
    def check_kinds(kinds: Kinds) -> None:
        """See `Resumable.check_kinds`."""
        lengths = {name: shape[:1] for name, (_, shape) in kinds.items()}
        expected = lengths.get("masses", ())
        for name, length in lengths.items():
            if not expected or length != expected:
                raise ValueError(f"{name}: got {length} items, expected {expected}, as of masses")

    @serialized
    def state_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See `Resumable.state_arrays`."""
        sampler, arrays = self._sampler.state(len(self))
        layouts: dict[str, Any] = {}
        for column in self._columns:
            layouts[column.name], of_column = column.state(len(self))
            arrays |= of_column
        description = {
            "columns": layouts,
            "sampler": sampler,
            "rng": self.rng.bit_generator.state,
            "num_added": self.num_added,
            "first": self._first,
            "num_stale_dropped": self.num_stale_dropped,
        }
        return description, arrays

    @serialized
    def restore_arrays(self, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """See `Resumable.restore_arrays`. Indices go on from where the saved replay was."""
        restored = TransitionReplay(self._capacity, **asdict(self.options))
        try:
            restored._restore(description, arrays)
        except NOT_A_STATE as error:
            raise not_a_state(error) from error
        self._become(restored)

    def _restore(self, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        _check_state("", description)
        self.check_kinds(kinds_of(arrays))
        self.num_added = description["num_added"]
        self._first = description["first"]
        self.num_stale_dropped = description["num_stale_dropped"]
        self.rng.bit_generator.state = description["rng"]
        n = len(arrays["masses"])
        added = self.num_added - self._first
        if not n <= added or (added > 0) != (n > 0):
            raise ValueError(f"masses: got {n} of {added} transitions added")
        check_masses_at(arrays, np.ones(n, np.bool_))
        if n and n != self._capacity and (added > n or n > self._capacity):
            # The rows are a ring of another size: the newest that fit, in order.
            order = (added + np.arange(max(n - self._capacity, 0), n)) % n
            for name in arrays:
                arrays[name] = arrays[name][order]
            n = len(order)
            self._first = self.num_added - n
        self._sampler.restore(description["sampler"], arrays)
        for column in self._columns:
            layout = description["columns"][column.name]
            if n and layout == NOTHING:
                raise wrong(f"columns.{column.name}", layout, f"the layout of {n} items")
            column.restore(layout, arrays, n, self._capacity if n else 0)


def _check_alike(observations: Prepared, next_observations: Prepared) -> None:
    """Checks that what comes after is like what was before."""
    got, expected = (
        (values.layout, [(leaf.shape[1:], leaf.dtype.kind == "O") for leaf in values.leaves])
        for values in (next_observations, observations)
    )
    if got != expected:
        shapes = [
            ", ".join(str(leaf.shape[1:]) for leaf in values.leaves)
            for values in (next_observations, observations)
        ]
        raise ValueError(
            f"next_observations: got items of shape {shapes[0]}, expected {shapes[1]}, "
            "nested as observations are"
        )
