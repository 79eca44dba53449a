"""What a prioritized ring of rows does for a buffer, here or in another process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from rllib_per_acc.row_ring import Counts, RowBatch
from rllib_per_acc.sampling import Floats


class RingSample(NamedTuple):
    """Rows drawn.

    Attributes:
        columns: By name, nested arrays of n items.
        slots: Where they are, int64 of shape (n,).
        weights: Their importance weights, float64 of shape (n,).
        counts: How many time steps each stands for, int64 of shape (n,).
    """

    columns: dict[str, Any]
    slots: Counts
    weights: Floats
    counts: Counts


@dataclass
class RingStats:
    """What RLlib's `stats()` is made of; see `RowRing`.

    Attributes:
        steps_sampled: Time steps ever sampled.
        evicted_hits: How often rows were sampled that were overwritten: how many such rows there
            were, and the last values.
        changes: The same of changes of masses by `update`.
    """

    steps_added: int
    steps_since_wrap: int
    is_evicting: bool
    steps_sampled: int
    nbytes: int
    num_rows: int
    evicted_hits: tuple[int, Floats]
    changes: tuple[int, Floats]


class EmptyRingError(ValueError):
    """There is nothing to draw from."""


class RingClient(Protocol):
    """A `PrioritizedRing`, here or elsewhere; see there."""

    def add(self, batch: RowBatch, weight: Any = None) -> None:
        """Stores rows over the oldest ones."""

    def sample(self, num_items: int, beta: Any = None) -> RingSample:
        """Draws rows."""

    def count_hits(self, slots: Counts) -> None:
        """Counts rows as sampled."""

    def update(self, slots: Any, priorities: Any) -> None:
        """Gives rows new priorities."""

    def take(self, slots: Counts) -> dict[str, Any]:
        """The columns of rows."""

    def num_rows(self) -> int:
        """Rows stored."""

    def stats(self) -> RingStats:
        """What RLlib's `stats()` is made of."""

    def hits(self) -> Floats:
        """How often each row was sampled."""

    def masses(self) -> tuple[Counts, Floats]:
        """The slots and masses of all rows."""

    def get_states(self) -> list[dict[str, Any]]:
        """Everything needed to go on: one state for each ring."""

    def set_states(self, states: list[dict[str, Any]]) -> None:
        """Goes on from there."""

    def shard_info(self) -> list[dict[str, Any]]:
        """Where the rows are, and counters."""
