"""One array of a saved replay, read from its file piece by piece: all of it, or some rows."""

from __future__ import annotations

import math
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.columns import STORED_KINDS
from rllib_per_acc.json_values import checked_dtype, from_json
from rllib_per_acc.replay_options import non_negative_int

Piece = bytes | memoryview

FILE_NAME = re.compile(r"[0-9a-f]{16}-\d+-[\w.-]{1,80}\.(npy|jsonl)")
"""What the files beside the manifest are called."""


class Into(NamedTuple):
    """Where some rows of a saved array go.

    Attributes:
        array: C-contiguous, of shape (len(rows), ...), of objects or not as the saved one.
        rows: Which rows of the saved array, ascending.
    """

    array: np.ndarray
    rows: NDArray[np.integer[Any]]


class ArrayFile(ABC):
    """What has been read of the file of one array.

    Raises:
        KeyError, TypeError, ValueError: If its entry in the manifest is wrong.
    """

    def __init__(self, name: str, entry: dict[str, Any], into: Into | None) -> None:
        if not FILE_NAME.fullmatch(entry["file"]):
            raise ValueError(f"{name}: got file {entry['file']!r}")
        self.name = name
        self.into = into
        self.size = non_negative_int("bytes", entry["bytes"])
        self.shape = tuple(non_negative_int("shape", n) for n in entry["shape"])
        self.expected_checksum = int(entry["crc32"], 16)
        self.checksum = 0
        self.seen = 0

    def take(self, piece: Piece) -> None:
        """Counts the next piece and reads it."""
        self.checksum = zlib.crc32(piece, self.checksum)
        self._read(piece)
        self.seen += len(piece)

    @abstractmethod
    def _read(self, piece: Piece) -> None:
        """Reads the piece that comes after `self.seen` bytes."""

    @abstractmethod
    def array(self) -> np.ndarray:
        """What was read."""


class NumberFile(ArrayFile):
    """A .npy file."""

    def __init__(self, name: str, entry: dict[str, Any], into: Into | None) -> None:
        super().__init__(name, entry, into)
        self._dtype = checked_dtype(entry["dtype"])
        self._offset = non_negative_int("data_offset", entry["data_offset"])
        nbytes = math.prod(self.shape) * self._dtype.itemsize
        if self._dtype.kind not in STORED_KINDS or self.size != self._offset + nbytes:
            raise ValueError(f"{name}: got {self.size} bytes for {self._dtype} {self.shape}")
        self._array: np.ndarray | None = None
        self._num_rows = 0
        self._rest = b""

    def array(self) -> np.ndarray:  # noqa: D102
        if self.into is not None:
            return self.into.array
        if self._array is None:
            self._array = np.empty(self.shape, self._dtype)
        return self._array

    def _read(self, piece: Piece) -> None:
        start = self.seen - self._offset
        new = np.frombuffer(piece, np.uint8)[max(-start, 0) :]  # without the header
        if self.into is not None:
            self._select(self.into, new)
            return
        data = self.array().reshape(-1).view(np.uint8)
        data[max(start, 0) :][: len(new)] = new

    def _select(self, into: Into, new: NDArray[np.uint8]) -> None:
        width = self._dtype.itemsize * math.prod(self.shape[1:])
        if not width:
            return
        data = self._rest + new.data
        complete = len(data) // width
        self._rest = data[complete * width :]
        block = np.frombuffer(data, self._dtype, complete * width // self._dtype.itemsize)
        block = block.reshape(complete, *self.shape[1:])
        first, self._num_rows = self._num_rows, self._num_rows + complete
        low, high = np.searchsorted(into.rows, [first, self._num_rows])
        into.array[low:high] = block[into.rows[low:high] - first]


class ObjectFile(ArrayFile):
    """JSON lines."""

    def __init__(self, name: str, entry: dict[str, Any], into: Into | None) -> None:
        super().__init__(name, entry, into)
        self._num_items = math.prod(self.shape)
        if self.size < 2 * self._num_items:
            raise ValueError(f"{name}: got {self.size} bytes for {self._num_items} lines")
        self._items: np.ndarray | None = None
        self._wanted: Iterator[int] = iter(range(self._num_items))
        self._next = 0
        self._num_lines = self._num_read = 0
        self._rest = b""

    def array(self) -> np.ndarray:  # noqa: D102
        if self._rest or self._num_lines != self._num_items:
            raise ValueError(f"{self._num_lines} lines, expected {self._num_items}")
        return self.into.array if self.into is not None else self._flat().reshape(self.shape)

    def _flat(self) -> np.ndarray:
        """What is read into, flat."""
        if self._items is None:
            if self.into is None:
                self._items = np.empty(self._num_items, object)
            else:
                self._items = self.into.array.reshape(-1)
                items = np.arange(self._num_items).reshape(self.shape)
                self._wanted = iter(items[self.into.rows].reshape(-1).tolist())
            self._next = next(self._wanted, -1)
        return self._items

    def _read(self, piece: Piece) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if self._num_lines + len(lines) > self._num_items:
            raise ValueError(f"more than {self._num_items} lines")
        items = self._flat()
        for number, line in enumerate(lines, self._num_lines):
            if number == self._next:
                items[self._num_read] = from_json(line)
                self._num_read += 1
                self._next = next(self._wanted, -1)
        self._num_lines += len(lines)
