"""PrioritizedRing: a `RowRing` whose rows are drawn by priority, by RLlib's old buffers' rules."""

from __future__ import annotations

import copy
import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rllib_per_acc.changes import Change
from rllib_per_acc.joined_columns import placed
from rllib_per_acc.recent_values import RecentValues
from rllib_per_acc.replay_options import PriorityOptions, beta_at
from rllib_per_acc.ring_client import EmptyRingError, RingSample, RingStats
from rllib_per_acc.row_ring import WINDOW, Counts, RowBatch, RowRing, checked_slots
from rllib_per_acc.sampling import (
    Floats,
    PrioritySampler,
    checked_priorities,
    checked_weight,
)
from rllib_per_acc.structures import map_leaves
from rllib_per_acc.threads import AllOrNothing, serialized


def ring_rng(seed: int | None, name: str) -> np.random.Generator:
    """The random numbers of the ring with this name."""
    return np.random.default_rng(None if seed is None else [seed, zlib.crc32(name.encode())])


def checked_positive(priorities: Any, length: int) -> Floats:
    """`priorities` as float64 of shape (length,), all above 0.

    Raises:
        TypeError, ValueError: If they are not.
    """
    array = checked_priorities(priorities, length)
    bad = np.flatnonzero(array <= 0)
    if bad.size:
        raise ValueError(
            f"priorities: got {array[bad[0]]} at position {bad[0]}, expected numbers > 0"
        )
    return array


class MovedRows(NamedTuple):
    """Rows on their way from rings to another one, and the counters to go on from.

    Attributes:
        rows: Nested arrays `columns`, and `counts`, `sizes` and `masses`; {} for no rows.
    """

    rows: dict[str, Any]
    max_priority: float
    steps_added: int
    steps_sampled: int


class PrioritizedRing(AllOrNothing):
    """Rows in a ring, drawn with probabilities proportional to `priority ** alpha`.

    Args:
        capacity: In time steps.
        options: How rows are prioritized, drawn and weighted.
        name: Of the ring; rings with other names draw other random numbers from one seed.
    """

    def __init__(self, capacity: int, options: PriorityOptions, name: str = "") -> None:
        super().__init__()
        self.options = options
        self.rng = ring_rng(options.seed, name)
        self.ring = RowRing(capacity)
        self.sampler = PrioritySampler(options)
        self.steps_sampled = 0
        self.changes = RecentValues(WINDOW)

    @serialized
    def add(self, batch: RowBatch, weight: Any = None) -> None:
        """Stores rows over the oldest ones.

        Args:
            batch: The rows.
            weight: First priorities: one number, or one for each row; by default the maximum.

        Raises:
            TypeError, ValueError: If columns differ from those stored, or a weight is not a finite
                number >= 0. Nothing is changed.
        """
        weight = self.sampler.max_priority if weight is None else weight
        priorities = checked_weight(weight, len(batch))
        self.sampler.check("weight", priorities)
        change = Change()
        slots, num_rows = self.ring.plan_write(change, batch, self.ring.prepare(batch))
        self.sampler.reserve(max(num_rows, 1))
        self.sampler.plan_replace(change, slots[:0], slots, priorities)
        self._commit(change)

    @serialized
    def sample(self, num_items: int, beta: Any = None) -> RingSample:
        """Draws rows; they may repeat. See `count_hits`.

        Args:
            num_items: How many.
            beta: Exponent of the importance weights, or a schedule; None for the option's.

        Raises:
            EmptyRingError: If no row is stored.
            TypeError, ValueError: If an argument is wrong.
        """
        if not self.ring.num_rows:
            raise EmptyRingError("Trying to sample from an empty buffer.")
        beta = beta_at(self.options.beta if beta is None else beta, lambda: self.ring.steps_added)
        undo = Change()  # of what an error or an interrupt leaves of the draws
        undo.let(self.rng.bit_generator, "state", self.rng.bit_generator.state)
        self._unless_committed(undo)
        slots, masses = self.sampler.draw(num_items, self.rng)
        weights = self.sampler.weights(masses, self.ring.num_rows, beta)
        columns = self.ring.take(slots.astype(np.int32))
        sample = RingSample(columns, slots, weights, self.ring.counts[slots])
        self._commit(Change())
        return sample

    @serialized
    def take(self, slots: Counts) -> dict[str, Any]:
        """The columns of the rows in these slots, copied."""
        return self.ring.take(slots.astype(np.int32))

    @serialized
    def count_hits(self, slots: Counts) -> None:
        """Counts rows as sampled, as often as they occur. Of what is drawn not all may be used."""
        change = Change()
        hit, times = np.unique(slots, return_counts=True)
        change.put(self.ring.hits, hit, self.ring.hits[hit] + times)
        steps = int(self.ring.counts[slots].sum())
        change.let(self, "steps_sampled", self.steps_sampled + steps)
        self._commit(change)

    @serialized
    def update(self, slots: Any, priorities: Any) -> None:
        """Gives rows new priorities; of a row named twice the last one counts.

        Raises:
            TypeError: If slots are not integers or priorities not numbers.
            IndexError: If there is no row in a slot.
            ValueError: If lengths differ, or a priority is not a finite number > 0. In each case
                nothing is changed.
        """
        slots = checked_slots(slots, self.ring.num_rows)
        priorities = checked_positive(priorities, len(slots))
        self.sampler.check("priorities", priorities)
        if not len(slots):
            return
        before = self.sampler.tree[slots]
        change = Change()
        after = self.sampler.plan_update(change, slots.astype(np.int32), priorities)
        order = np.argsort(slots, kind="stable")
        again = np.flatnonzero(np.diff(slots[order]) == 0)
        before[order[again + 1]] = after[order[again]]
        self.changes.plan_extend(change, after - before)
        self._commit(change)

    # Looking at it

    def num_rows(self) -> int:
        """Rows stored."""
        return self.ring.num_rows

    @serialized
    def stats(self) -> RingStats:
        """What RLlib's `stats()` is made of."""
        ring = self.ring
        return RingStats(
            ring.steps_added,
            ring.steps_since_wrap,
            ring.is_evicting,
            self.steps_sampled,
            ring.nbytes,
            ring.num_rows,
            (ring.evicted_hits.count, ring.evicted_hits.last()),
            (self.changes.count, self.changes.last()),
        )

    @serialized
    def hits(self) -> Floats:
        """How often the row in each slot was sampled, float64 of shape (num_rows,)."""
        return self.ring.hits[: self.ring.num_rows].copy()

    @serialized
    def masses(self) -> tuple[Counts, Floats]:
        """The slots of all rows, int64, and their masses (`priority ** alpha`), float64."""
        slots = np.arange(self.ring.num_rows)
        return slots, self.sampler.tree[slots]

    @serialized
    def shard_info(self) -> list[dict[str, Any]]:
        """Counters, the sum of masses, and the device of the tree, in a list of one."""
        info = {
            "rows": self.ring.num_rows,
            "steps_added": self.ring.steps_added,
            "steps_sampled": self.steps_sampled,
            "mass": self.sampler.tree.sum(),
            "max_priority": self.sampler.max_priority,
            "device": self.sampler.tree.device,
            "bytes": self.ring.nbytes + self.sampler.tree.nbytes,
        }
        return [info]

    # State

    @serialized
    def get_states(self) -> list[dict[str, Any]]:
        """Everything needed to go on, as copies, in a list of one."""
        n = self.ring.num_rows
        description, arrays = self.sampler.state(n)
        state = {
            "capacity": self.ring.capacity,
            "ring": self.ring.get_state(),
            "columns": self.ring.take(np.arange(n, dtype=np.int32)),
            "sampler": description,
            "masses": arrays,
            "steps_sampled": self.steps_sampled,
            "rng": self.rng.bit_generator.state,
        }
        return [state]

    @serialized
    def set_states(self, states: Sequence[dict[str, Any]]) -> None:
        """Goes on from what `get_states` returned, also of several rings, or of another capacity.

        A single ring of this capacity is restored slot by slot; else the newest rows are kept.

        Raises:
            ValueError: If the states are not of such rings. Nothing is changed.
        """
        new = PrioritizedRing(self.ring.capacity, self.options)
        new.rng = copy.deepcopy(self.rng)
        if len(states) == 1 and states[0]["capacity"] == self.ring.capacity:
            new._restore(states[0])
        else:
            (moved,) = split_rows(states, self.options, 1)
            new.take_in(moved)
        self._become(new)

    def _restore(self, state: dict[str, Any]) -> None:
        """Takes over the state of a ring of this capacity, into this new one."""
        if state["rng"] is not None:
            self.rng.bit_generator.state = state["rng"]
        counts, sizes = state["ring"]["counts"], state["ring"]["sizes"]
        prepared = self.ring.prepare(RowBatch(state["columns"], counts, sizes))
        self.ring.set_state(state["ring"], prepared)
        self.sampler.restore(state["sampler"], {k: v.copy() for k, v in state["masses"].items()})
        self.steps_sampled = state["steps_sampled"]

    @serialized
    def rows(self) -> dict[str, Any]:
        """All rows, oldest first; see `MovedRows`."""
        slots = self.ring.oldest_first()
        state = self.ring.get_state()
        return {
            "columns": self.ring.take(slots),
            "counts": state["counts"][slots],
            "sizes": state["sizes"][slots],
            "masses": self.sampler.tree[slots],
        }

    def take_in(self, moved: MovedRows) -> None:
        """Stores rows with the masses they had elsewhere, and their counters, in this new ring."""
        masses = np.empty(0)
        if moved.rows:
            batch = RowBatch(*(moved.rows[name] for name in ("columns", "counts", "sizes")))
            change = Change()
            slots, num_rows = self.ring.plan_write(change, batch, self.ring.prepare(batch))
            change.make()
            masses = np.empty(num_rows)
            masses[slots] = moved.rows["masses"]
        description, _ = self.sampler.state(0)
        description["lifetime_max_priority"] = moved.max_priority
        self.sampler.restore(description, {"masses": masses})
        self.ring.steps_added, self.steps_sampled = moved.steps_added, moved.steps_sampled


def split_rows(
    states: Sequence[dict[str, Any]], options: PriorityOptions, num_parts: int
) -> list[MovedRows]:
    """The rows of rings dealt out to `num_parts` others, in the order in which they were added.

    Args:
        states: What `get_states` returned.
        options: How masses are made of priorities; those of another alpha are computed anew.
        num_parts: How many rings there are to be. Counters go to the first.

    Raises:
        ValueError: If the states are not of such rings.
    """
    options = dataclasses.replace(options, device="cpu")
    rings = []
    for state in states:
        ring = PrioritizedRing(state["capacity"], options)
        ring._restore(state)
        rings.append(ring)
    lengths = [ring.num_rows() for ring in rings]
    ages = np.concatenate([np.arange(n) / n for n in lengths if n] or [np.zeros(0)])
    order = np.argsort(np.argsort(ages, kind="stable"), kind="stable")
    places = np.split(order, np.cumsum(lengths)[:-1])
    filled = [(ring.rows(), at) for ring, at in zip(rings, places, strict=True) if len(at)]
    rows = placed(filled) if filled else {}
    return [
        MovedRows(
            map_leaves(_every(part, num_parts), rows),
            max(ring.sampler.lifetime_max_priority for ring in rings),
            0 if part else sum(ring.ring.steps_added for ring in rings),
            0 if part else sum(ring.steps_sampled for ring in rings),
        )
        for part in range(num_parts)
    ]


def _every(part: int, num_parts: int) -> Callable[[Any], Any]:
    return lambda leaf: leaf[part::num_parts]
