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
from rllib_per_acc.descriptions import anything, dict_of, integer, list_of, record, text
from rllib_per_acc.json_values import checked_dtype, from_json

Piece = bytes | memoryview

FILE_NAME = re.compile(r"[0-9a-f]{16}-\d+-[\w.-]{1,80}\.(npy|jsonl)", re.ASCII)
"""What the files beside the manifest are called."""
_CHECKSUM = re.compile(r"[0-9a-f]{8}")

check_entries = dict_of(
    record(
        {
            "file": text(FILE_NAME, "the name of a file of a save"),
            "bytes": integer(),
            "crc32": text(_CHECKSUM, "8 hexadecimal digits"),
            "dtype": anything,
            "shape": list_of(integer()),
            "data_offset": integer(),
        }
    )
)
"""Checks what a manifest says of files, by the names of their arrays."""


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

    Args:
        name: Of the array.
        entry: What the manifest says of it, checked by `check_entries`.
        into: Where it goes; None: all of it into a new array.

    Raises:
        ValueError: If what the entry says does not fit together.
    """

    def __init__(self, name: str, entry: dict[str, Any], into: Into | None) -> None:
        self.name = name
        self.into = into
        self.size: int = entry["bytes"]
        self.shape = tuple(entry["shape"])
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
        self._offset: int = entry["data_offset"]
        nbytes = math.prod(self.shape) * self._dtype.itemsize
        if self._dtype.kind not in STORED_KINDS or self.size != self._offset + nbytes:
            raise ValueError(
                f"{name}: got {self.size} bytes, expected {self._offset} and {nbytes} for "
                f"{self._dtype} of shape {self.shape}"
            )
        self._array: np.ndarray | None = None
        self._num_items = 0
        self._rest = b""

    def array(self) -> np.ndarray:  # noqa: D102
        if self.into is not None:
            return self.into.array
        if self._array is None:
            self._array = np.zeros(self.shape, self._dtype)
        return self._array

    def _read(self, piece: Piece) -> None:
        start = self.seen - self._offset
        new = np.frombuffer(piece, np.uint8)[max(-start, 0) :]  # without the header
        if self.into is not None:
            self._select(self.into, new)
            return
        data = self.array().reshape(-1).view(np.uint8)
        if not _is_zero(new):
            data[max(start, 0) :][: len(new)] = new

    def _select(self, into: Into, new: NDArray[np.uint8]) -> None:
        width = math.prod(self.shape[1:])
        data = self._rest + new.data if self._rest else new.data
        n = len(data) // self._dtype.itemsize
        self._rest = bytes(data[n * self._dtype.itemsize :])
        items = np.frombuffer(data, self._dtype, n)
        first, self._num_items = self._num_items, self._num_items + n
        if not n or _is_zero(items.view(np.uint8)):
            return
        target = into.array.reshape(len(into.rows), width)
        # The end of a row, whole rows, and the beginning of one.
        start, stop = -(-first // width), (first + n) // width
        for row in {first // width, (first + n - 1) // width}:
            place = np.searchsorted(into.rows, row)
            if not start <= row < stop and into.rows[place : place + 1].tolist() == [row]:
                low, high = max(first, row * width), min(first + n, (row + 1) * width)
                target[place, low - row * width : high - row * width] = items[
                    low - first : high - first
                ]
        if start < stop:
            block = items[start * width - first : stop * width - first].reshape(-1, width)
            low, high = np.searchsorted(into.rows, [start, stop])
            target[low:high] = block[into.rows[low:high] - start]


def _is_zero(data: NDArray[np.uint8]) -> bool:
    """Whether there are only zeros in `data`: new arrays take no memory where nothing is written.

    So a file that claims to be large, and takes no room, takes no memory until it is refused.
    """
    return not (len(data) and (data[0] or data[-1])) and not data.any()


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
        self._rest: list[bytes] = []

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
        given = bytes(piece)
        *lines, rest = given.split(b"\n")
        if b"\0" in given:  # also where a file of any size takes no room
            raise ValueError("a byte 0")
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest = []
        if rest:
            self._rest.append(rest)
        if self._num_lines + len(lines) > self._num_items:
            raise ValueError(f"more than {self._num_items} lines")
        items = self._flat()
        for number, line in enumerate(lines, self._num_lines):
            if number == self._next:
                items[self._num_read] = from_json(line)
                self._num_read += 1
                self._next = next(self._wanted, -1)
        self._num_lines += len(lines)
