"""AccPrioritizedReplayBuffer: RLlib's old prioritized buffer over rows of columns and our tree."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import ray
from ray.rllib.utils.annotations import OldAPIStack, override
from ray.rllib.utils.metrics.window_stat import WindowStat
from ray.rllib.utils.replay_buffers.prioritized_replay_buffer import PrioritizedReplayBuffer
from ray.rllib.utils.replay_buffers.replay_buffer import (
    ReplayBuffer,
    StorageUnit,
    warn_replay_capacity,
)
from ray.rllib.utils.typing import SampleBatchType

from rllib_per_acc.copies import IndependentCopies
from rllib_per_acc.ray_versions import warn_if_newer
from rllib_per_acc.replay_options import positive_int
from rllib_per_acc.resumable import NOT_A_STATE
from rllib_per_acc.ring_client import RingClient
from rllib_per_acc.rllib.client import close_client
from rllib_per_acc.rllib.closed import Closed
from rllib_per_acc.rllib.compat import ApplyMixin, EpisodeBufferMeta
from rllib_per_acc.rllib.old_stack.buffer_state import from_rllib, to_rllib
from rllib_per_acc.rllib.old_stack.options import OldStackOptions, split_options
from rllib_per_acc.rllib.old_stack.rings import RingMaker, ring_maker
from rllib_per_acc.rllib.old_stack.sample_batches import ItemFormat, TimestepFormat, is_plain
from rllib_per_acc.rllib.old_stack.single_items import SingleItems
from rllib_per_acc.row_ring import WINDOW
from rllib_per_acc.sampling import Floats

_OWN_KEYS = ("capacity", "storage_unit", "alpha", "beta")


@OldAPIStack
class AccPrioritizedReplayBuffer(
    ApplyMixin, IndependentCopies, PrioritizedReplayBuffer, metaclass=EpisodeBufferMeta
):
    """RLlib's `PrioritizedReplayBuffer` (old API stack), fast.

    It does what RLlib's class does under the same names. With the storage unit `timesteps` steps
    are rows of columns, in this process or in actors, and a sample is one gather; sequences,
    episodes, fragments and whatever is no plain row are kept as RLlib's items.

    Made into an actor by hand (`ray.remote(AccPrioritizedReplayBuffer)`), it keeps its rows in
    itself. Not for use by several threads.
    """

    stands_for = ("rllib_per_acc.AccPrioritizedReplayBuffer",)

    def __init__(
        self,
        capacity: int = 10000,
        storage_unit: str | StorageUnit = "timesteps",
        alpha: float = 1.0,
        beta: Any = None,
        **options: Any,
    ) -> None:
        """Builds the buffer; its actors are started when it is first used.

        Args:
            capacity: Time steps to keep.
            storage_unit: What an item is: `timesteps`, `sequences`, `episodes` or `fragments`.
            alpha: Exponent of the priorities, >= 0; 0 draws uniformly.
            beta: Exponent of the importance weights where `sample` is given none, or a schedule
                of it.
            **options: The fields of `PriorityOptions`, `ShardOptions` and `CallOptions`.

        Raises:
            TypeError, ValueError: If a key is unknown (the nearest known one is named) or a value
                is wrong.
        """
        warn_if_newer(ray.__version__)
        capacity = positive_int("capacity", capacity)
        split = split_options(options, _OWN_KEYS, alpha, beta)
        maker = ring_maker(type(self), capacity, split.replay, split.shards)
        self._set_up(capacity, checked_unit(storage_unit), split, maker)

    def _set_up(
        self,
        capacity: int,
        storage_unit: StorageUnit,
        options: OldStackOptions,
        maker: RingMaker,
        name: str = "",
    ) -> None:
        """What the constructor does once everything is checked; rows go to the ring `name`."""
        self.capacity = capacity
        self.storage_unit = storage_unit
        self.batch_size = None
        self._options = options
        self._maker = maker
        self._name = name
        self._format: TimestepFormat | ItemFormat | None = None
        self._singles = SingleItems()

    @cached_property
    def _ring(self) -> RingClient:
        return self._maker(self._name)

    @override(PrioritizedReplayBuffer)
    def __len__(self) -> int:
        """How many items are stored."""
        return self._ring.num_rows()

    @property
    def _storage(self) -> Sequence[SampleBatchType]:
        """The items by index, read only; RLlib's own code looks at its length."""
        return _StoredItems(self)

    # Adding

    @override(PrioritizedReplayBuffer)
    def add(self, batch: SampleBatchType, **kwargs: Any) -> None:
        """Stores the items of a batch, over the oldest ones when the buffer is full.

        Args:
            batch: A `SampleBatch`, or a `MultiAgentBatch` (lockstep: not prioritized).
            **kwargs: `weight`: the first priority, one number or one for each item; by default the
                highest one that there was.

        Raises:
            TypeError, ValueError: If it does not fit what is stored, or the weight is wrong.
                Nothing is changed. With the rows in an actor a later call raises this.
        """
        if not batch.count > 0:
            return
        warn_replay_capacity(item=batch, num_items=self.capacity / batch.count)
        if self.storage_unit is not StorageUnit.TIMESTEPS or not is_plain(batch):
            ReplayBuffer.add(self, batch, **kwargs)  # cuts it into items
            return
        format_ = self._format or TimestepFormat(batch)
        if not isinstance(format_, TimestepFormat):
            raise ValueError("batch: got plain time steps, expected items like those stored")
        self._forget_singles()
        self._ring.add(format_.rows_of(batch), kwargs.get("weight"))
        self._format = format_

    @override(PrioritizedReplayBuffer)
    def _add_single_batch(self, item: SampleBatchType, **kwargs: Any) -> None:
        """Stores one item as it is."""
        format_ = self._format or ItemFormat()
        if not isinstance(format_, ItemFormat):
            raise ValueError(f"batch: got {item}, expected plain time steps like those stored")
        if item.count:
            self._forget_singles()
            self._ring.add(format_.rows_of([item]), kwargs.get("weight"))
            self._format = format_

    # Sampling

    @override(PrioritizedReplayBuffer)
    def sample(self, num_items: int, beta: Any = None, **kwargs: Any) -> SampleBatchType:
        """Draws items with probabilities proportional to `priority ** alpha`; they may repeat.

        Args:
            num_items: How many; with the key `items_per_sample_call` 1 stands for that number.
            beta: Exponent of the importance weights, or a schedule of it; None for the buffer's.
            **kwargs: Kept for RLlib.

        Returns:
            The items in one batch, with `weights` (float64) and `batch_indexes` (int64), the index
            of its item for each time step.

        Raises:
            TypeError, ValueError: If an argument is wrong or the buffer is empty.
        """
        if positive_int("num_items", num_items) == 1:
            num_items = self._options.calls.items_per_sample_call
        format_ = self._format
        if num_items == 1 and isinstance(format_, TimestepFormat) and self._draws_are_independent:
            draw = partial(self._ring.sample, beta=beta)
            return self._singles.next(beta, lambda n: format_.drawn(draw(n)))
        drawn = self._ring.sample(num_items, beta)
        if format_ is None:  # filled by others: `ring.sample` raises when it is empty
            raise ValueError("Trying to sample from a buffer that nothing was added to.")
        self._ring.count_hits(drawn.slots)
        return format_.sample_of(drawn)

    @property
    def _draws_are_independent(self) -> bool:
        """Whether n items drawn at once are like n items drawn one after the other."""
        options = self._options.replay
        return options.sampling == "proportional" and options.weight_normalization == "buffer"

    def _forget_singles(self) -> None:
        """Before the tree changes, or counters are read."""
        served = self._singles.drop()
        if len(served):
            self._ring.count_hits(served)

    @override(PrioritizedReplayBuffer)
    def update_priorities(self, idxes: Any, priorities: Any) -> None:
        """Gives items new priorities; of an item named twice the last one counts.

        Args:
            idxes: Of the items, from `batch_indexes`: integers of shape (n,).
            priorities: Numbers > 0, of shape (n,).

        Raises:
            TypeError, IndexError, ValueError: If they are not. Nothing is changed.
        """
        self._forget_singles()
        self._ring.update(idxes, priorities)

    # Looking at it

    @override(PrioritizedReplayBuffer)
    def stats(self, debug: bool = False) -> dict[str, Any]:
        """RLlib's counters.

        Args:
            debug: Whether to add how often items were sampled before they were overwritten, and by
                how much `priority ** alpha` changed in updates.
        """
        self._forget_singles()
        stats = self._ring.stats()
        data = {
            "added_count": stats.steps_added,
            "added_count_wrapped": stats.steps_since_wrap,
            "eviction_started": stats.is_evicting,
            "sampled_count": stats.steps_sampled,
            "est_size_bytes": stats.nbytes,
            "num_entries": stats.num_rows,
        }
        if debug:
            data |= _window_stats("evicted_hit", *stats.evicted_hits)
            data |= _window_stats("reprio", *stats.changes)
        return data

    @property
    def _hit_count(self) -> Floats:
        """How often each item was sampled, float64 of shape (capacity,), as in RLlib."""
        self._forget_singles()
        hits = self._ring.hits()
        return np.pad(hits, (0, max(self.capacity - len(hits), 0)))

    def get_priorities(self) -> dict[str, np.ndarray]:
        """`priority ** alpha` of every item.

        Returns:
            `batch_indexes` (int64) and `mass` (float64), each of shape (n,).
        """
        indexes, masses = self._ring.masses()
        return {"batch_indexes": indexes, "mass": masses}

    def get_shard_info(self) -> list[dict[str, Any]]:
        """For each actor where it runs (`pid`, `node`), its `device`, and its counters.

        With the rows in this process: one entry without the former.
        """
        self._forget_singles()
        return self._ring.shard_info()

    def close(self) -> None:
        """Ends the buffer: its items are gone, and its actors with them. Again: does nothing.

        Every later call raises a `ReplayClosedError`.
        """
        ring = vars(self).get("_ring")
        self.__dict__["_ring"] = Closed()
        self._singles = SingleItems()
        if ring is not None and not isinstance(ring, Closed):
            close_client(ring)

    # State

    @override(PrioritizedReplayBuffer)
    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on, as copies, under RLlib's keys and `more` of our own.

        `_storage` is a list of items, or for time steps one `SampleBatch` of them all. With several
        actors there is one such state for each, under `shards`.
        """
        self._forget_singles()
        states = [to_rllib(state, self._format) for state in self._ring.get_states()]
        return copy.deepcopy(states[0] if len(states) == 1 else {"shards": states})

    @override(PrioritizedReplayBuffer)
    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what `get_state` returned, here or in RLlib's class.

        A buffer of another capacity, or with another number of actors, takes the newest items.

        Raises:
            ValueError: If it is not such a state. Nothing is changed.
        """
        try:
            states, formats = zip(
                *(
                    from_rllib(
                        part,
                        self.capacity,
                        self._options.replay.alpha,
                        self.storage_unit is StorageUnit.TIMESTEPS,
                    )
                    for part in copy.deepcopy(state.get("shards", [state]))
                ),
                strict=True,
            )
            self._forget_singles()
            self._ring.set_states(list(states))
        except NOT_A_STATE as error:
            raise ValueError(
                f"state: got something else than what get_state returns ({error!r})"
            ) from error
        self._format = next((f for f in formats if f is not None), None)


class _StoredItems(Sequence[SampleBatchType]):
    """The items of a buffer by index."""

    def __init__(self, buffer: AccPrioritizedReplayBuffer) -> None:
        self._buffer = buffer

    def __len__(self) -> int:
        return len(self._buffer)

    def __getitem__(self, index: Any) -> Any:
        slots = np.arange(len(self))[index]
        format_ = self._buffer._format
        if format_ is None:
            return []
        found = format_.items_of(self._buffer._ring.take(np.atleast_1d(slots)))
        items = found if isinstance(found, list) else found.timeslices(1)
        return items if np.ndim(slots) else items[0]


def checked_unit(storage_unit: str | StorageUnit) -> StorageUnit:
    """The storage unit with this name.

    Raises:
        ValueError: If there is none.
    """
    try:
        return StorageUnit(storage_unit)
    except ValueError:
        names = ", ".join(repr(unit.value) for unit in StorageUnit)
        raise ValueError(f"storage_unit: got {storage_unit!r}, expected one of {names}") from None


def _window_stats(name: str, count: int, last: Floats) -> dict[str, Any]:
    """What RLlib's `WindowStat` says; of no values without its warnings and random numbers."""
    if not count:
        nothing = {"mean": math.nan, "std": math.nan, "quantiles": []}
        return {f"{name}_count": 0} | {f"{name}_{key}": value for key, value in nothing.items()}
    window = WindowStat(name, WINDOW)
    for value in last:
        window.push(float(value))
    window.count = count
    return window.stats()
