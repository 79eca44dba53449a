"""A replay that holds some of the rows of a larger one, and draws what the whole one decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.activity import Activity, Counts
from rllib_per_acc.changes import Change
from rllib_per_acc.columns import Column, Rows
from rllib_per_acc.draws import FittingRows, Steps
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.replay import PrioritizedReplay
from rllib_per_acc.replay_batch import RowHandle
from rllib_per_acc.replay_options import SequenceShape
from rllib_per_acc.sampling import Floats
from rllib_per_acc.sequences import gather
from rllib_per_acc.threads import serialized
from rllib_per_acc.transitions import Transitions


class PartCounters(NamedTuple):
    """What does not end with the rows of a part.

    Attributes:
        lifetimes: Sums over all calls.
        max_priority: The highest priority ever seen.
        num_lifted: Masses lifted from zero.
        num_stale_dropped: Priorities dropped because their rows were gone.
    """

    lifetimes: Counts
    max_priority: float
    num_lifted: int
    num_stale_dropped: int


def added_up(counters: Iterable[PartCounters]) -> PartCounters:
    """What several parts counted together; the highest of their maximum priorities."""
    total = PartCounters(Counts(), 1.0, 0, 0)
    for one in counters:
        total = PartCounters(
            total.lifetimes + one.lifetimes,
            max(total.max_priority, one.max_priority),
            total.num_lifted + one.num_lifted,
            total.num_stale_dropped + one.num_stale_dropped,
        )
    return total


def minus(counters: PartCounters, others: PartCounters) -> PartCounters:
    """What was counted beside `others`; the maximum priority is that of all."""
    return PartCounters(
        counters.lifetimes - others.lifetimes,
        counters.max_priority,
        counters.num_lifted - others.num_lifted,
        counters.num_stale_dropped - others.num_stale_dropped,
    )


class PartStatus(NamedTuple):
    """What the whole has to know of a part.

    Attributes:
        steps: Steps stored.
        episodes: Episodes stored.
        total: The sum of their masses.
        least: The least mass, +inf when there is none.
        max_priority: What new steps would get here.
        nbytes: Memory that the rows and the tree take.
        counters: What goes on when an empty part takes its place.
    """

    steps: int
    episodes: int
    total: float
    least: float
    max_priority: float
    nbytes: int
    counters: PartCounters


class GatherOptions(NamedTuple):
    """How transitions are read; see `PrioritizedReplay.sample`, and `draws.draw` for `least`."""

    gamma: float
    least: int
    infos: bool
    extras: bool
    ids: bool = False
    sequences: SequenceShape | None = None


class Proposal(NamedTuple):
    """Transitions drawn by a part, those left out that their episodes cannot serve.

    Attributes:
        columns: As of a `ReplayBatch` (none if no transition is left), but `mass` (float64) in
            place of `weights`, and `slot` (int32), which tells episodes apart.
        handle: Names the rows.
        positions: Which of the draws asked for these are, int64.
    """

    columns: dict[str, Any]
    handle: RowHandle
    positions: NDArray[np.int64]


class ReplayPart(PrioritizedReplay):
    """A `PrioritizedReplay` that can also be one of several; see there for the arguments."""

    def read_observations_by(self, take: Callable[[Column, Rows], Any]) -> None:
        """See `TransitionStore.take_observations`; for the rows that are stored now."""
        self._store.take_observations = take

    @serialized
    def status(self) -> PartStatus:
        """What the whole has to know."""
        return PartStatus(
            self._store.num_steps,
            self._store.num_episodes,
            self.tree.sum(),
            self.tree.min(),
            self.max_priority,
            self.nbytes,
            self.counters(),
        )

    @serialized
    def add_again(self, chunks: Sequence[EpisodeChunk], weight: Any) -> int:
        """Adds what was counted as added before, and has gone since, without counting it again.

        Returns:
            How many steps.
        """
        change, num_steps = self._plan_add(chunks, weight, (), counted=False)
        self._commit(change)
        return num_steps

    @serialized
    def draw_alone(
        self, num_items: int, options: dict[str, Any]
    ) -> tuple[dict[str, Any], RowHandle, Activity]:
        """Columns and handle of a batch, and what happened since the last report.

        The sample is in that report only: who uses it counts it.
        """
        batch = self.sample(num_items, **options)
        return batch.columns, batch.handle, self._take_activity(samples=False)

    @serialized
    def propose(self, fractions: Floats, steps: Steps, options: GatherOptions) -> Proposal:
        """The transitions at these fractions, in [0, 1), of the part's mass.

        Args:
            fractions: Where, float64 of shape (n,).
            steps: How many steps each transition is to have, int64 of shape (n,).
            options: How to read them.
        """
        rows, masses = self.tree.draw(fractions)
        some = self._store.serve(rows, masses, steps, least=options.least)
        return self._proposal(some, options)

    @serialized
    def fitting(self, low: int, high: int, least: int) -> tuple[float, int]:
        """The mass of what can serve `low` to `high` steps, and the length of the longest episode.

        Costs time in proportion to the rows stored, as `propose_fitting` does.
        """
        mass = FittingRows.of(self._store, self._sampler, low, high, least).mass
        return mass, self._store.episodes.longest()

    @serialized
    def propose_fitting(
        self, fractions: Floats, choices: Floats, low: int, high: int, options: GatherOptions
    ) -> Proposal:
        """The transitions at these fractions of the mass that `fitting` returns: all can serve."""
        fitting = FittingRows.of(self._store, self._sampler, low, high, options.least)
        found = fitting.at(fractions, choices, low)
        return self._proposal(self._store.serve(*found, least=options.least), options)

    def _proposal(self, drawn: Transitions, options: GatherOptions) -> Proposal:
        columns: dict[str, Any] = {}
        if len(drawn.rows):
            columns = gather(
                self._store,
                drawn,
                options.gamma,
                options.sequences,
                infos=options.infos,
                extras=options.extras,
                ids=options.ids,
            )
            columns["mass"] = drawn.masses
            columns["slot"] = drawn.slots
        handle = RowHandle(drawn.rows, drawn.generations, self.incarnation)
        return Proposal(columns, handle, drawn.positions)

    @serialized
    def episode_ids(self) -> list[str]:
        """The ids of all stored episodes, oldest first."""
        return [episode.episode_id for episode in self._store.episodes]

    @serialized
    def counters(self) -> PartCounters:
        """What does not end with the rows."""
        return PartCounters(
            self.lifetimes,
            self._sampler.lifetime_max_priority,
            self._sampler.num_lifted,
            self.num_stale_dropped,
        )

    @serialized
    def carry_on(self, counters: PartCounters) -> None:
        """Goes on from the counters of a part in whose place this one is."""
        sampler = self._sampler
        change = Change()
        change.let(self, "_reported", self._reported + counters.lifetimes)
        highest = max(sampler.lifetime_max_priority, counters.max_priority)
        change.let(sampler, "lifetime_max_priority", highest)
        change.let(sampler, "num_lifted", sampler.num_lifted + counters.num_lifted)
        dropped = self.num_stale_dropped + counters.num_stale_dropped
        change.let(self, "num_stale_dropped", dropped)
        self._commit(change)
