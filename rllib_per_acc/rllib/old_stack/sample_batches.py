"""Between RLlib's `SampleBatch` and rows: one row for each time step, or for each item as it is."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from ray.rllib.policy.sample_batch import SampleBatch, concat_samples
from ray.rllib.utils.typing import SampleBatchType

from rllib_per_acc.ring_client import RingSample
from rllib_per_acc.rllib.old_stack.single_items import DrawnItems
from rllib_per_acc.row_ring import RowBatch
from rllib_per_acc.sampling import Floats
from rllib_per_acc.structures import flatten, layout_of

_GRAD_UPDATES = "<num_grad_updates>"
"""The column of the batches' attribute with this name; NaN where it is None."""
_ITEM = "item"
_COMPRESSIBLE = (SampleBatch.OBS, SampleBatch.NEXT_OBS)


def is_plain(batch: SampleBatchType) -> bool:
    """Whether row i of every column of a batch is its time step i."""
    return (
        isinstance(batch, SampleBatch)
        and dict.get(batch, SampleBatch.SEQ_LENS) is None
        and not batch.zero_padded
        and not batch.time_major
    )


class RowFormat(ABC):
    """How batches are kept in rows."""

    @abstractmethod
    def batch_of(self, columns: dict[str, Any]) -> SampleBatchType:
        """The rows with these columns as one batch, decompressed."""

    @abstractmethod
    def items_of(self, columns: dict[str, Any]) -> SampleBatchType | list[SampleBatchType]:
        """The rows with these columns as they were added."""

    def sample_of(self, sample: RingSample) -> SampleBatchType:
        """A sample as RLlib's `PrioritizedReplayBuffer.sample` returns it."""
        batch = self.batch_of(sample.columns)
        if isinstance(batch, SampleBatch):  # RLlib: no priorities in lockstep
            repeats = self.repeats_of(sample)
            batch["weights"] = np.repeat(sample.weights, repeats)
            batch["batch_indexes"] = np.repeat(sample.slots, repeats)
        return batch

    @abstractmethod
    def repeats_of(self, sample: RingSample) -> Any:
        """How many rows of the batch each row of the sample becomes."""


class TimestepFormat(RowFormat):
    """A row is a time step, a column is a column of the batch.

    Args:
        batch: The first one; how infos and strings come says how they are given back.
    """

    def __init__(self, batch: SampleBatch) -> None:
        self._lists = [name for name, value in dict.items(batch) if isinstance(value, list)]
        self._strings = {
            name: value.dtype.kind
            for name, value in dict.items(batch)
            if isinstance(value, np.ndarray) and value.dtype.kind in "US"
        }

    @staticmethod
    def grad_updates_of(columns: dict[str, Any]) -> Floats | None:
        """The `num_grad_updates` of each row, float64, NaN for none; None if rows are items."""
        return columns.get(_GRAD_UPDATES)

    def rows_of(self, batch: SampleBatch, grad_updates: Floats | None = None) -> RowBatch:
        """The time steps of a plain batch as rows, not copied but for infos.

        Args:
            batch: The time steps.
            grad_updates: See `grad_updates_of`; by default the batch's attribute for all.
        """
        n = batch.count
        columns: dict[str, Any] = {}
        for name, values in dict.items(batch):
            if name == SampleBatch.INFOS:
                if not isinstance(values, list | np.ndarray):
                    continue  # as `SampleBatch._slice`
                # Arrays in them may be views of Ray's object store, which would keep all of it.
                values = _objects(copy.deepcopy(list(values)))
            columns[name] = values
        if grad_updates is None:
            updates = batch.num_grad_updates
            grad_updates = np.full(n, np.nan if updates is None else float(updates))
        columns[_GRAD_UPDATES] = grad_updates
        return RowBatch(columns, np.ones(n, np.int64), np.full(n, batch.size_bytes() // n))

    def batch_of(self, columns: dict[str, Any]) -> SampleBatch:
        batch = self.items_of(columns)
        values = [dict.get(batch, name) for name in _COMPRESSIBLE]
        leaves = [leaf for value in values for leaf in flatten(value, layout_of(value), "obs")]
        if any(isinstance(leaf, np.ndarray) and leaf.dtype == object for leaf in leaves):
            batch.decompress_if_needed()
        return batch

    def items_of(self, columns: dict[str, Any]) -> SampleBatch:
        columns = dict(columns)
        updates = columns.pop(_GRAD_UPDATES)
        updates = updates[~np.isnan(updates)]
        for name in self._lists:
            columns[name] = list(columns[name])
        for name, kind in self._strings.items():
            if name not in _COMPRESSIBLE:
                columns[name] = columns[name].astype(kind)
        return SampleBatch(columns, _num_grad_updates=float(updates.sum()) / max(len(updates), 1))

    def repeats_of(self, sample: RingSample) -> int:
        return 1

    def drawn(self, sample: RingSample) -> DrawnItems:
        """A sample to be handed out item by item."""
        return DrawnItems(self.sample_of(sample), sample.slots, sample.columns[_GRAD_UPDATES])


class ItemFormat(RowFormat):
    """A row is an item as RLlib stores it: a sequence, an episode, a fragment."""

    def rows_of(self, items: Sequence[SampleBatchType]) -> RowBatch:
        """The items as rows."""
        counts = np.array([item.count for item in items], np.int64)
        sizes = np.array([item.size_bytes() for item in items], np.int64)
        return RowBatch({_ITEM: _objects(items)}, counts, sizes)

    def batch_of(self, columns: dict[str, Any]) -> SampleBatchType:
        batch = concat_samples(self.items_of(columns))
        batch.decompress_if_needed()
        return batch

    def items_of(self, columns: dict[str, Any]) -> list[SampleBatchType]:
        return list(columns[_ITEM])

    def repeats_of(self, sample: RingSample) -> list[int]:
        return [
            item.max_seq_len if isinstance(item, SampleBatch) and item.zero_padded else item.count
            for item in self.items_of(sample.columns)
        ]


def _objects(values: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array
