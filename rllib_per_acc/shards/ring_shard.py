"""RingShard: parts of prioritized rings as a Ray actor."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

from rllib_per_acc.prioritized_ring import MovedRows, PrioritizedRing
from rllib_per_acc.replay_options import PriorityOptions
from rllib_per_acc.ring_client import RingSample
from rllib_per_acc.row_ring import Counts, RowBatch
from rllib_per_acc.sampling import Floats
from rllib_per_acc.segment_tree import PriorityTree
from rllib_per_acc.shards.lives import Life, Lives
from rllib_per_acc.shards.shard import ReplayShard, own_objects
from rllib_per_acc.structures import map_leaves


class RingTotals(NamedTuple):
    """What the whole has to know of a part of a ring."""

    mass: float
    least: float
    num_rows: int
    steps_added: int
    max_priority: float


class RingCounters(NamedTuple):
    """What does not end with the rows of a ring."""

    max_priority: float
    steps_added: int
    steps_sampled: int


class RingsStatus(NamedTuple):
    """What clients have to know of a shard: rows stored, and the counters of each ring."""

    steps: int
    counters: dict[str, RingCounters]


class RingsPart:
    """Rings by name, each a part of a larger one.

    Every method that is not about all of them takes the name of the ring first.

    Args:
        capacity: Time steps to keep in each ring.
        options: Fields of `PriorityOptions` by name.
    """

    incarnation = 0

    def __init__(self, capacity: Any, options: dict[str, Any]) -> None:
        self._capacity = capacity
        self._options = PriorityOptions(**options)
        self._rings: dict[str, PrioritizedRing] = {}
        self._is_successor = False
        self.tree = PriorityTree(1, self._options.device)  # an error here, not at the first add

    def _ring(self, name: str) -> PrioritizedRing:
        if name not in self._rings:
            self._rings[name] = PrioritizedRing(self._capacity, self._options, name)
        return self._rings[name]

    def status(self) -> RingsStatus:
        """What clients have to know."""
        return RingsStatus(
            sum(ring.num_rows() for ring in self._rings.values()),
            {
                name: RingCounters(
                    ring.sampler.lifetime_max_priority, ring.ring.steps_added, ring.steps_sampled
                )
                for name, ring in self._rings.items()
            },
        )

    def carry_on(self, counters: dict[str, RingCounters]) -> None:
        """Goes on from the counters of a part in whose place this one is."""
        self._is_successor = True
        for name, of_ring in counters.items():
            self._ring(name).take_in(MovedRows({}, *of_ring))

    def read_observations_by(self, take: Any) -> None:
        """Nothing: `ReplayShard` says so before each call, but rings read their rows themselves."""

    def add(self, name: str, batch: RowBatch, weight: Any) -> None:
        """See `PrioritizedRing.add`."""
        # Arrays in objects are views of Ray's object store, which would keep all of it in memory.
        columns = {key: map_leaves(own_objects, value) for key, value in batch.columns.items()}
        self._ring(name).add(replace(batch, columns=columns), weight)

    def update(self, name: str, slots: Counts, priorities: Floats) -> None:
        """See `PrioritizedRing.update`; drops what is for rows that a lost part had."""
        ring = self._ring(name)
        if self._is_successor:
            kept = slots < ring.num_rows()
            slots, priorities = slots[kept], priorities[kept]
        ring.update(slots, priorities)

    def totals(self, name: str) -> RingTotals:
        """What a draw from the whole has to know."""
        ring = self._ring(name)
        return RingTotals(
            ring.sampler.tree.sum(),
            ring.sampler.tree.min(),
            ring.num_rows(),
            ring.ring.steps_added,
            ring.sampler.max_priority,
        )

    def rows_at(self, name: str, fractions: Floats) -> RingSample:
        """The rows at these fractions, in [0, 1), of the part's mass; masses for weights."""
        ring = self._ring(name)
        slots, masses = ring.sampler.tree.draw(fractions)
        return RingSample(ring.take(slots), slots, masses, ring.ring.counts[slots])

    def on_ring(self, name: str, method: str, *arguments: Any) -> Any:
        """Any other method of `PrioritizedRing`."""
        return getattr(self._ring(name), method)(*arguments)

    def drop(self, name: str) -> None:
        """Forgets a ring."""
        self._rings.pop(name, None)

    def set_states(self, name: str, states: list[dict[str, Any]], moved: MovedRows | None) -> None:
        """Starts a ring anew, from its state or from rows that were elsewhere."""
        ring = PrioritizedRing(self._capacity, self._options, name)
        if moved is None:
            ring.set_states(states)
        else:
            ring.take_in(moved)
        self._rings[name] = ring


class RingShard(ReplayShard):
    """A `RingsPart` for use as a Ray actor; see there for the arguments."""

    _replay: Any
    _part: Any

    def _start_empty(self) -> None:
        capacity, options = self._arguments
        self._part = self._replay = RingsPart(capacity, options)
        self._boot = time.time_ns()

    def _go_on_from(self, known: Lives) -> None:
        """Goes on from the counters of the last start that has ended: they are those of all."""
        ended = known.ended(self._boot)
        if ended and not self._lives.ended(self._boot):
            self._replay.carry_on(ended[-1].counters)
        self._lives.merge(known)

    def _life(self) -> Life:
        status = self._replay.status()
        return Life(self._clock, False, status.steps, status.counters, 0)

    def add(self, name: str, batch: RowBatch, weight: Any) -> None:  # type: ignore[override]
        """See `RingsPart.add`."""
        self._replay.add(name, batch, weight)
