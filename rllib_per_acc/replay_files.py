"""The files of a saved replay: arrays as .npy, objects as JSON lines, and one manifest.

The manifest (JSON) is written last and names the other files with their checksums: what it does not
name does not count, so a save is complete or it is not there. No pickle is written, and none is
read. What is written comes as an iterator of small pieces, and what is read goes into a
`SaveReader` piece by piece: neither knows where the files are (`replay_folder`: in a local folder).
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rllib_per_acc._version import __version__
from rllib_per_acc.array_files import Into, NumberFile, ObjectFile, Piece, check_entries
from rllib_per_acc.descriptions import wrong
from rllib_per_acc.json_values import from_plain, to_json

FORMAT = "rllib_per_acc replay"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
Kinds = Mapping[str, tuple[str, tuple[int, ...]]]
"""Of each array the dtype, as text, and the shape."""
PIECE_BYTES = 1 << 22
"""The largest piece of a file that is written or read at a time."""


def pieces_of_save(
    description: dict[str, Any], arrays: dict[str, np.ndarray], save: str | None = None
) -> Iterator[tuple[str, Piece]]:
    """The files of a save as (file name, next piece of the file), one file after the other.

    File names are new in every save but for that of the manifest, which is the last piece.

    Args:
        description: What `json_values.to_json` takes.
        arrays: Of numbers, or of objects that `json_values.to_json` takes. They must not change
            before the last piece is taken; beside them, only small pieces are in memory.
        save: 16 hexadecimal digits that the names of the files begin with; by default random ones.

    Raises:
        TypeError, ValueError: If an object cannot be written; the message names the array.
    """
    save = save or secrets.token_hex(8)
    files: dict[str, dict[str, Any]] = {}
    for i, (name, array) in enumerate(arrays.items()):
        objects = array.dtype == object
        readable = re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII)[:80]
        file = f"{save}-{i}-{readable}.{'jsonl' if objects else 'npy'}"
        start = b"" if objects else _npy_header(array)
        size, checksum = len(start), zlib.crc32(start)
        if start:
            yield file, start
        for piece in _object_pieces(name, array) if objects else _number_pieces(array):
            size, checksum = size + len(piece), zlib.crc32(piece, checksum)
            yield file, piece
        files[name] = {
            "file": file,
            "bytes": size,
            "crc32": f"{checksum:08x}",
            "dtype": "object" if objects else array.dtype.str,
            "shape": list(array.shape),
            "data_offset": len(start),
        }
    yield (
        MANIFEST,
        _manifest({"files": files, "description": json.loads(to_json(description, "description"))}),
    )


def _npy_header(array: np.ndarray) -> bytes:
    header = io.BytesIO()
    layout = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(header, layout)
    return header.getvalue()


def _number_pieces(array: np.ndarray) -> Iterator[memoryview]:
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]


def _object_pieces(name: str, array: np.ndarray) -> Iterator[bytes]:
    lines = bytearray()
    for i, value in enumerate(array.flat):
        lines += to_json(value, f"{name}, item {i}").encode() + b"\n"
        while len(lines) >= PIECE_BYTES:
            yield bytes(lines[:PIECE_BYTES])
            del lines[:PIECE_BYTES]
    yield bytes(lines)  # an empty file too has a piece


def _manifest(content: dict[str, Any]) -> bytes:
    head = {"format": FORMAT, "version": FORMAT_VERSION, "written_by": __version__, "crc32": ""}
    text = json.dumps(head | content, indent=1).encode()
    return _with_checksum(text, f"{zlib.crc32(text):08x}")


def _with_checksum(manifest: bytes, checksum: str) -> bytes:
    return manifest.replace(b'"crc32": ""', f'"crc32": "{checksum}"'.encode(), 1)


def kinds_of(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The kinds of arrays in memory.

    Raises:
        ValueError: If one is no array.
    """
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise wrong(name, array, "an array")
    return {
        name: ("object" if array.dtype == object else array.dtype.str, array.shape)
        for name, array in arrays.items()
    }


class SaveReader:
    """Reads the files of a save, piece by piece, wherever they are.

    Args:
        manifest: The content of the manifest.
        where: Of the files, for error messages.
        into: By name the arrays to read, and where they go (None: all of one into a new array).
            By default all.

    Attributes:
        description: As it was written.
        kinds: By name the dtype of each saved array, as text, and its shape.
        files: The names of the files to read, and their sizes in bytes.

    Raises:
        ValueError: If it is no manifest, or a damaged one, or of a newer version.
    """

    def __init__(
        self, manifest: bytes, where: str, into: Mapping[str, Into | None] | None = None
    ) -> None:
        self._where = where
        try:
            content = json.loads(manifest)
            is_ours = content["format"] == FORMAT and type(content["version"]) is int
        except (ValueError, KeyError, TypeError, RecursionError):
            is_ours = False
        if not is_ours:
            raise self._error(MANIFEST, f"{manifest[:40]!r}...", f"the manifest of a {FORMAT}")
        if content["version"] > FORMAT_VERSION:
            got = f"version {content['version']}, by {content.get('written_by')}"
            raise self._error(MANIFEST, got, f"at most version {FORMAT_VERSION}, by {__version__}")
        given = content.get("crc32")
        blank = manifest.replace(f'"crc32": "{given}"'.encode(), b'"crc32": ""', 1)
        if given != f"{zlib.crc32(blank):08x}":
            raise self._error(MANIFEST, f"crc32 {zlib.crc32(blank):08x}", f"{given} (damaged)")
        try:
            self.description: dict[str, Any] = from_plain(content.get("description"))
            if not isinstance(self.description, dict):
                raise wrong("description", self.description, "a dict")
            entries: dict[str, Any] = content.get("files")
            check_entries("files", entries)
            files = [entry["file"] for entry in entries.values()]
            if len(set(files)) < len(files):
                raise wrong("files", sorted(files), "a file of its own for each array")
            self.kinds = {n: (str(e["dtype"]), tuple(e["shape"])) for n, e in entries.items()}
            into = dict.fromkeys(entries) if into is None else into
            self._parts = {
                entry["file"]: (ObjectFile if entry["dtype"] == "object" else NumberFile)(
                    name, entry, into[name]
                )
                for name, entry in entries.items()
                if name in into
            }
        except (ValueError, TypeError) as error:
            where = os.path.join(self._where, MANIFEST)
            raise ValueError(f"{where}: {error}") from error
        self.files = {file: part.size for file, part in self._parts.items()}

    def _error(self, file: str, got: str, expected: str) -> ValueError:
        return ValueError(f"{os.path.join(self._where, file)}: got {got}, expected {expected}")

    def write(self, file: str, piece: Piece) -> None:
        """Takes the next piece of a file; the first one allocates what it is read into.

        Raises:
            ValueError: If there is more of the file than there should be, or it is damaged.
        """
        part = self._parts[file]
        if part.seen + len(piece) > part.size:
            got = f"{part.seen + len(piece)} bytes or more"
            raise self._error(file, got, f"{part.size} bytes")
        try:
            part.take(piece)
        except ValueError as error:
            raise self._error(file, str(error), "what was written (damaged)") from error

    def finish(self) -> dict[str, np.ndarray]:
        """The arrays by name, when all files have been read; to be called once.

        Raises:
            ValueError: If a file is incomplete or its checksum is wrong.
        """
        arrays = {}
        parts, self._parts = self._parts, {}
        for file, part in parts.items():
            if part.seen != part.size:
                raise self._error(file, f"{part.seen} bytes", f"{part.size} bytes (truncated)")
            if part.checksum != part.expected_checksum:
                got, expected = (f"{c:08x}" for c in (part.checksum, part.expected_checksum))
                raise self._error(file, f"crc32 {got}", f"{expected} (damaged)")
            try:
                arrays[part.name] = part.array()
            except ValueError as error:
                raise self._error(file, str(error), "one line for each object") from error
        return arrays
