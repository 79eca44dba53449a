"""A saved replay in a local folder: written so that the save before it stays until the end."""

from __future__ import annotations

import contextlib
import os
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from rllib_per_acc.replay_files import (
    FILE_NAME,
    FORMAT,
    MANIFEST,
    PIECE_BYTES,
    SaveReader,
    pieces_of_save,
)

_NEW_MANIFEST = f"{MANIFEST}.new"


def write_folder(
    path: str | os.PathLike[str], description: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Writes a save; see `replay_files.pieces_of_save`. One process at a time may do this.

    New files are written beside those of an earlier save, which count until the manifest is
    renamed; then the old ones are removed. So are those that a killed process has left.

    Raises:
        FileExistsError: If the folder holds a manifest of something else.
        OSError: If something cannot be written; an earlier save is as it was.
        TypeError, ValueError: Likewise if an object cannot be written.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / MANIFEST
    if manifest.exists() and FORMAT.encode() not in manifest.read_bytes()[:100]:
        raise FileExistsError(f"{manifest}: got another program's file, expected none or a save's")
    _remove_unnamed(folder)
    try:
        for file, pieces in groupby(pieces_of_save(description, arrays), itemgetter(0)):
            with open(folder / (_NEW_MANIFEST if file == MANIFEST else file), "wb") as written:
                written.writelines(piece for _, piece in pieces)
                written.flush()
                os.fsync(written.fileno())
        os.replace(folder / _NEW_MANIFEST, manifest)
        for changed in (folder, folder.parent):
            _sync_directory(changed)
    finally:
        _remove_unnamed(folder)


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_unnamed(folder: Path) -> None:
    """Removes files that look like those of a save and that the manifest does not name."""
    named: set[str] = set()
    try:
        named.update(SaveReader((folder / MANIFEST).read_bytes(), str(folder)).files)
    except FileNotFoundError:
        pass
    except ValueError:  # damaged: what it named is not known
        return
    for file in os.listdir(folder):
        if file == _NEW_MANIFEST or (FILE_NAME.fullmatch(file) and file not in named):
            with contextlib.suppress(OSError):
                os.remove(folder / file)


class SavedFolder:
    """A save in a folder, whose manifest has been read.

    Attributes:
        description: As it was written.

    Raises:
        FileNotFoundError: If there is no manifest.
        ValueError: If it is damaged, foreign or newer, or if a file is missing or has another
            size.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = Path(path)
        try:
            manifest = (self._folder / MANIFEST).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(
                f"{self._folder}: got no {MANIFEST} there, expected the folder of a save"
            ) from error
        self._reader = SaveReader(manifest, str(self._folder))
        self.description = self._reader.description
        for file, size in self._reader.files.items():
            saved = self._folder / file
            got = f"{saved.stat().st_size} bytes" if saved.is_file() else "no such file"
            if got != f"{size} bytes":
                raise ValueError(f"{saved}: got {got}, expected {size} bytes")

    def read(self) -> dict[str, np.ndarray]:
        """The arrays by name.

        Raises:
            ValueError: If a file is damaged.
        """
        buffer = memoryview(bytearray(PIECE_BYTES))
        for file in self._reader.files:
            with open(self._folder / file, "rb", buffering=0) as saved:
                while n := saved.readinto(buffer):
                    self._reader.write(file, buffer[:n])
        return self._reader.finish()
