"""ShardedRing: one prioritized ring whose rows are in one or several Ray actors."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from rllib_per_acc.copies import NoCopies
from rllib_per_acc.joined_columns import Positions, placed
from rllib_per_acc.prioritized_ring import checked_positive, ring_rng, split_rows
from rllib_per_acc.replay_options import beta_at
from rllib_per_acc.ring_client import EmptyRingError, RingSample, RingStats
from rllib_per_acc.row_ring import WINDOW, Counts, RowBatch, checked_slots
from rllib_per_acc.sampling import Floats, fractions, importance_weights
from rllib_per_acc.shards.connection import ShardLostError
from rllib_per_acc.shards.frozen import Frozen
from rllib_per_acc.shards.owned_shards import OwnedShards, ReplayClosedError
from rllib_per_acc.shards.recent_adds import RecentAdds
from rllib_per_acc.shards.ring_shard import RingTotals
from rllib_per_acc.shards.shard_group import ShardGroup
from rllib_per_acc.structures import map_leaves

logger = logging.getLogger(__name__)


class ShardedRing(NoCopies):
    """A `RingClient` whose rows are in actors; draws and weights are those of one ring.

    A batch goes to the shard that is filled least, in turn when all are full; each shard overwrites
    its own oldest rows. Row `s` of shard `i` has the slot `s` plus the capacities of the shards
    before. Adds and updates are sent and not waited for, a bounded number at a time; an error in
    one is raised by a later call.

    A shard that dies loses its rows; it is started again and filled first. When nothing at all is
    left to draw from, the batch added last is added again.

    Args:
        shards: The actors.
        name: Of the ring.
    """

    def __init__(self, shards: OwnedShards, name: str) -> None:
        self._shards = shards  # which end with the last ring
        shards.num_users += 1
        self._is_closed = False
        self._name = name
        self._rng = ring_rng(shards.options.seed, name)
        self._capacities = [n for n in shards.capacities if n is not None]  # rings have one each
        self._offsets = np.cumsum([0, *self._capacities])
        self._max_priority = 1.0
        self._steps_sent = [0] * len(self._group)
        self._last_turn = [0] * len(self._group)
        self._losses_seen = [0] * len(self._group)
        self._losses_at_draw = [0] * len(self._group)
        self._recent = RecentAdds(self._group.connections)

    @property
    def _group(self) -> ShardGroup:
        if self._is_closed:
            raise ReplayClosedError(f"got a call after close() of the ring {self._name!r}")
        return self._shards.group

    def close(self) -> None:
        """Forgets its rows; the actors end with the last of their rings. Again: does nothing."""
        if self._is_closed or self._shards.is_closed:
            self._is_closed = True
            return
        self._shards.num_users -= 1
        if self._shards.num_users:
            for i in range(len(self._group)):
                self._send(i, 0, "drop", self._name)
        else:
            self._shards.close()
        self._recent.clear()
        self._is_closed = True

    # Adding

    def add(self, batch: RowBatch, weight: Any = None) -> None:
        """Sends rows; see `PrioritizedRing.add`.

        Raises:
            Exception: What a call before this one raised in its shard; this one is sent.
        """
        if weight is None and len(self._group) > 1:
            weight = self._find_max_priority()
        up = self._group.outlive(self._make_room)
        for piece, own_weight in self._pieces(batch, weight):
            shard = min(up, key=self._fill)
            self._last_turn[shard] = max(self._last_turn) + 1
            self._steps_sent[shard] += int(piece.counts.sum())
            part = Frozen((self._name, piece, own_weight))
            number = self._group.next_number()
            self._recent.note(number, {shard: part})
            with contextlib.suppress(ShardLostError):  # it is counted, as what is under way
                connection = self._group.connections[shard]
                connection.make_room()
                connection.send("add", part, size=len(piece), number=number)
        self._group.raise_earlier()

    def _find_max_priority(self) -> float:
        """The maximum priority over all shards."""
        if self._shards.options.max_priority == "lifetime":
            return self._max_priority
        stored = [totals for totals in self._totals().values() if totals.num_rows]
        return max((totals.max_priority for totals in stored), default=1.0)

    def _pieces(self, batch: RowBatch, weight: Any) -> Iterator[tuple[RowBatch, Any]]:
        """The batch in pieces that do not overwrite themselves."""
        longest = min(self._capacities)
        for start in range(0, len(batch), longest):
            part = slice(start, start + longest)

            def cut(leaf: Any, part: slice = part) -> Any:
                return leaf[part]

            columns = {name: map_leaves(cut, values) for name, values in batch.columns.items()}
            own = weight if np.ndim(weight) == 0 else weight[part]
            yield RowBatch(columns, batch.counts[part], batch.sizes[part]), own

    def _make_room(self, up: list[int]) -> list[int]:
        for i in up:
            self._group.connections[i].make_room()
        for i, connection in enumerate(self._group.connections):
            if connection.num_losses != self._losses_seen[i]:
                self._losses_seen[i] = connection.num_losses
                self._steps_sent[i] = 0
        return up

    def _fill(self, shard: int) -> tuple[float, int]:
        capacity = self._capacities[shard]
        return min(self._steps_sent[shard] / capacity, 1.0), self._last_turn[shard]

    # Sampling

    def sample(self, num_items: int, beta: Any = None) -> RingSample:
        """Draws rows; see `PrioritizedRing.sample`."""
        draw = self._draw_from_one if len(self._group) == 1 else self._draw_from_all
        try:
            drawn = self._group.outlive(lambda up: draw(up, num_items, beta))
        except EmptyRingError as error:
            self._group.raise_earlier(error)
            if not self._group.is_recovering or not self._add_again():
                raise
            drawn = self._group.outlive(lambda up: draw(up, num_items, beta))
        self._group.raise_earlier()
        self._group.is_recovering = False
        self._losses_at_draw = [c.num_losses for c in self._group.connections]
        return drawn

    def _add_again(self) -> bool:
        """Adds again what came last; whether there was something."""
        self._group.wait_for_all()
        last = self._recent.last()
        if last is None:
            return False
        logger.warning("All replay shards are empty: the batch added last is added again")
        for part in last.parts.values():
            _, batch, weight = part.thaw()
            self.add(batch, weight)
        return True

    def _draw_from_one(self, up: list[int], num_items: int, beta: Any) -> RingSample:
        connection = self._group.connections[0]
        call = connection.ask("on_ring", self._name, "sample", num_items, beta)
        drawn: RingSample = connection.answer(call).result
        return drawn

    def _draw_from_all(self, up: list[int], num_items: int, beta: Any) -> RingSample:
        options = self._shards.options
        totals = self._ask(up, "totals")
        size = sum(part.num_rows for part in totals.values())
        if not size:
            raise EmptyRingError("Trying to sample from an empty buffer.")
        steps_added = sum(part.steps_added for part in totals.values())
        beta = beta_at(options.beta if beta is None else beta, lambda: steps_added)
        filled = [i for i in up if totals[i].num_rows]
        ends = np.cumsum([totals[i].mass for i in filled])
        masses = fractions(num_items, self._rng, options.sampling == "stratified") * ends[-1]
        chosen = np.minimum(np.searchsorted(ends, masses, side="right"), len(filled) - 1)
        asked, positions = [], []
        for k, i in enumerate(filled):
            own = np.flatnonzero(chosen == k)
            if len(own):
                within = (masses[own] - (ends[k - 1] if k else 0.0)) / totals[i].mass
                within = np.clip(within, 0.0, np.nextafter(1.0, 0.0))
                connection = self._group.connections[i]
                asked.append((i, connection.ask("rows_at", self._name, within)))
                positions.append(own)
        parts = [(i, self._group.connections[i].answer(call).result) for i, call in asked]
        drawn = RingSample(
            *placed(
                [
                    (tuple(part._replace(slots=part.slots + self._offsets[i])), own)
                    for (i, part), own in zip(parts, positions, strict=True)
                ]
            )
        )
        by_batch = options.weight_normalization == "batch"
        least = None if by_batch else min(totals[i].least for i in filled)
        weights = importance_weights(drawn.weights, float(ends[-1]), least, size, beta)
        return drawn._replace(weights=weights)

    def _ask(self, up: list[int], method: str, *arguments: Any) -> dict[int, Any]:
        connections = self._group.connections
        calls = {i: connections[i].ask(method, self._name, *arguments) for i in up}
        return {i: connections[i].answer(call).result for i, call in calls.items()}

    def _totals(self) -> dict[int, RingTotals]:
        return self._group.outlive(lambda up: self._ask(up, "totals"))

    def count_hits(self, slots: Counts) -> None:
        """See `PrioritizedRing.count_hits`."""
        for shard, _, own in self._by_shard(slots):
            self._send(shard, len(own), "on_ring", self._name, "count_hits", own)

    # Updating

    def update(self, slots: Any, priorities: Any) -> None:
        """Sends priorities; see `PrioritizedRing.update`.

        Those of rows that a shard had lost since the last sample are dropped.
        """
        slots = checked_slots(slots, int(self._offsets[-1]))
        priorities = checked_positive(priorities, len(slots))
        self._max_priority = max(self._max_priority, float(priorities.max(initial=0.0)))
        for shard, positions, own in self._by_shard(slots):
            connection = self._group.connections[shard]
            is_same = connection.num_losses == self._losses_at_draw[shard]
            arguments = self._name, own, priorities[positions]
            if not is_same or not self._send(shard, len(own), "update", *arguments):
                connection.dropped_priorities += len(own)
        self._group.raise_earlier()

    def _by_shard(self, slots: Counts) -> Iterator[tuple[int, Positions, Counts]]:
        """For each shard which of the slots are there, and what they are called there."""
        shards = np.searchsorted(self._offsets, slots, side="right") - 1
        for shard in np.unique(shards):
            positions = np.flatnonzero(shards == shard)
            yield int(shard), positions, slots[positions] - self._offsets[shard]

    def _send(self, shard: int, size: int, method: str, *arguments: Any) -> bool:
        """Whether the shard is there to be sent something."""
        connection = self._group.connections[shard]
        try:
            if connection.is_up():
                connection.make_room()
                number = self._group.next_number()
                connection.send(method, Frozen(arguments), size=size, number=number)
                return True
        except ShardLostError:
            pass
        return False

    # Looking at it

    def _ask_rings(self, method: str) -> dict[int, Any]:
        return self._group.outlive(lambda up: self._ask(up, "on_ring", method))

    def take(self, slots: Counts) -> dict[str, Any]:
        """The columns of the rows in these slots, copied."""

        def take(up: list[int]) -> dict[str, Any]:
            pieces = []
            for shard, positions, own in self._by_shard(slots):
                taken = self._ask([shard], "on_ring", "take", own)[shard]
                pieces.append((taken, positions))
            found: dict[str, Any] = placed(pieces)
            return found

        return self._group.outlive(take)

    def num_rows(self) -> int:
        """Rows stored."""
        return sum(self._ask_rings("num_rows").values())

    def stats(self) -> RingStats:
        """The sums over all shards; `is_evicting` once all are."""
        parts: list[RingStats] = list(self._ask_rings("stats").values())

        def joined(windows: list[tuple[int, Floats]]) -> tuple[int, Floats]:
            counts, values = zip(*windows, strict=True)
            return sum(counts), np.concatenate(values)[-WINDOW:]

        return RingStats(
            steps_added=sum(part.steps_added for part in parts),
            steps_since_wrap=sum(part.steps_since_wrap for part in parts),
            is_evicting=all(part.is_evicting for part in parts),
            steps_sampled=sum(part.steps_sampled for part in parts),
            nbytes=sum(part.nbytes for part in parts),
            num_rows=sum(part.num_rows for part in parts),
            evicted_hits=joined([part.evicted_hits for part in parts]),
            changes=joined([part.changes for part in parts]),
        )

    def hits(self) -> Floats:
        """How often the row in each slot was sampled, float64 of shape (capacity,)."""
        hits = np.zeros(self._offsets[-1])
        for shard, own in self._ask_rings("hits").items():
            hits[self._offsets[shard] :][: len(own)] = own
        return hits

    def masses(self) -> tuple[Counts, Floats]:
        """See `PrioritizedRing.masses`."""
        parts = self._ask_rings("masses")
        slots = [own + self._offsets[shard] for shard, (own, _) in parts.items()]
        return np.concatenate(slots), np.concatenate([masses for _, masses in parts.values()])

    def shard_info(self) -> list[dict[str, Any]]:
        """For each shard its counters, where it runs, and what was lost with it."""
        infos = self._ask_rings("shard_info")
        return [
            (infos[c.index][0] if c.index in infos else {"rows": 0, "mass": 0.0})
            | c.where
            | {
                "is_up": c.index in infos,
                "lost_steps": c.lost_steps,
                "dropped_priorities": c.dropped_priorities,
                "restarts": c.num_restarts,
            }
            for c in self._group.connections
        ]

    # State

    def get_states(self) -> list[dict[str, Any]]:
        """One state for each shard."""
        states = [states[0] for states in self._ask_rings("get_states").values()]
        if len(states) > 1:  # draws are made here
            for state in states:
                state["rng"] = self._rng.bit_generator.state
        return states

    def set_states(self, states: list[dict[str, Any]]) -> None:
        """See `PrioritizedRing.set_states`; shard by shard where there are as many, as large.

        Raises:
            ValueError: If the states are not of such rings. Nothing is changed.
            ShardLostError: If a shard is not up.
        """
        moved: list[Any] = split_rows(states, self._shards.options, len(self._group))
        if len(up := self._group.wait_for_all()) < len(self._group):
            raise ShardLostError(f"of {len(self._group)} replay shards only {up} are up")
        max_priority = moved[0].max_priority
        if [state["capacity"] for state in states] == self._capacities:
            moved = [None] * len(states)
        calls = []
        for i, connection in enumerate(self._group.connections):
            own = (states[i : i + 1], None) if moved[i] is None else ([], moved[i])
            calls.append(connection.ask("set_states", self._name, *own))
        for connection, call in zip(self._group.connections, calls, strict=True):
            connection.answer(call)
        if states[0]["rng"] is not None:
            self._rng.bit_generator.state = states[0]["rng"]
        self._max_priority = max_priority
        self._steps_sent = [int(self._ask([i], "totals")[i].num_rows) for i in up]
        self._recent.clear()
