"""Large rows on their way to another process: copied once, from the store into Ray's.

To gather sampled rows into an array, and to have Ray copy that into its object store, touches every
byte twice. Here pickle gets each row as a buffer of its own, which Ray copies to where the reader
finds it. Ray lays the buffers of an object out one after the other, so that to the reader they are
one array again, without a copy.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from rllib_per_acc.columns import Column, Rows
from rllib_per_acc.structures import unflatten

LARGE_ROW = 1 << 14
"""Bytes from which on a row is worth a buffer of its own."""


class RowsInPlace:
    """Stands for `leaf[rows]`; pickled and read again it is that array, read-only.

    Args:
        leaf: Rows of numbers, without gaps. They must not change before this is pickled.
        rows: Which of them.
    """

    def __init__(self, leaf: np.ndarray, rows: Rows) -> None:
        self._leaf = leaf
        self._rows = rows

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        leaf = self._leaf
        flat = leaf.reshape(len(leaf), -1).view(np.uint8)
        buffers = [pickle.PickleBuffer(flat[row]) for row in self._rows.tolist()]
        return joined, (leaf.dtype, leaf.shape[1:], buffers)


def take_in_place(column: Column, rows: Rows) -> Any:
    """As `column.take`, but large leaves are not copied yet."""
    if type(column) is not Column:  # it does not keep whole rows
        return column.take(rows)
    leaves = [
        RowsInPlace(leaf, rows)
        if leaf.dtype != object and leaf[:1].nbytes >= LARGE_ROW and len(rows)
        else leaf.take(rows, axis=0)
        for leaf in column.leaves
    ]
    return unflatten(leaves, column.layout)


class _Table:
    """Buffers at equal distances as one array, which keeps all of them."""

    def __init__(self, rows: Sequence[np.ndarray], address: int, distance: int) -> None:
        self._rows = rows
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "data": (address, True),
            "shape": (len(rows), len(rows[0])),
            "strides": (distance, 1),
        }


def joined(dtype: np.dtype[Any], shape: tuple[int, ...], buffers: Sequence[Any]) -> np.ndarray:
    """The array of shape (len(buffers), *shape) whose rows are in the buffers.

    It is a view where they lie at equal distances, one after the other, and a copy elsewhere.
    """
    rows = [np.frombuffer(buffer, np.uint8) for buffer in buffers]
    addresses = [row.__array_interface__["data"][0] for row in rows]
    distances = {int(distance) for distance in np.diff(addresses)} or {len(rows[0])}
    table = (
        np.stack(rows)
        if len(distances) > 1
        else np.asarray(_Table(rows, addresses[0], distances.pop()))
    )
    return table.view(dtype).reshape(len(rows), *shape)
