"""A saved replay in a folder: written so that the save before it stays until the end."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import Any

import numpy as np

from rllib_per_acc.array_files import Piece
from rllib_per_acc.descriptions import named
from rllib_per_acc.local_folder import Folder
from rllib_per_acc.replay_files import MANIFEST, PIECE_BYTES, Kinds, SaveReader
from rllib_per_acc.save_journal import (
    begin,
    check_ours,
    clean,
    journal_of,
    new_manifest_of,
    read_manifest,
    remove_saves,
)


class FolderWriter:
    """Takes the files of a save, in the order of `pieces_of_save`, into a folder.

    A context manager. New files are written beside those of an earlier save, which count until the
    manifest is renamed when the context ends without an error; then the old ones are removed. So
    are those that a killed process has left. One process at a time may do this.

    Args:
        folder: Where to.
        save: The number of the save, if something else has it too.

    Raises:
        FileExistsError: If the folder holds something else.
        OSError: If something cannot be written; an earlier save is as it was.
    """

    def __init__(self, folder: Folder, save: str | None = None) -> None:
        folder.make()
        check_ours(folder)
        self._folder = folder
        self._save = save
        self._name = ""
        self._file: Any = None

    def __enter__(self) -> FolderWriter:
        clean(self._folder)
        if self._save is not None:
            begin(self._folder, self._save)
        return self

    def write(self, file: str, piece: Piece) -> None:
        """Takes the next piece of a file, the last one or a new one."""
        if file != self._name:
            self._close()
            self._file = self._folder.open_to_write(self._path_of(file))
            self._name = file
        self._file.write(piece)

    def _path_of(self, file: str) -> str:
        if self._save is None:
            self._save = secrets.token_hex(8) if file == MANIFEST else file[:16]
            begin(self._folder, self._save)
        return new_manifest_of(self._save) if file == MANIFEST else file

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            self._folder.close_written(file)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._save is None:
            return
        committed = False
        try:
            if error is None:
                self._close()
                self._folder.replace(new_manifest_of(self._save), MANIFEST)
                committed = True
        finally:
            if not committed:
                self._give_up(self._save)
            clean(self._folder)

    def _give_up(self, save: str) -> None:
        """Removes what was written, whatever the manifest of an earlier save is like."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        remove_saves(self._folder, {save})
        with contextlib.suppress(OSError):
            self._folder.remove(journal_of(save))


class SavedFolder:
    """A save in a folder, whose manifest has been read.

    Args:
        folder: Where it is.
        check: Checks `kinds`; its ValueErrors are raised with the path in front.

    Attributes:
        folder: Where it is.
        manifest: The bytes of the manifest.
        description: As it was written.
        kinds: See `SaveReader`.

    Raises:
        FileNotFoundError: If there is no manifest.
        ValueError: If it is damaged, foreign or newer, or if a file is missing or has another
            size.
    """

    def __init__(self, folder: Folder, check: Callable[[Kinds], None] | None = None) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        reader = SaveReader(self.manifest, folder.path)
        self.description, self.kinds = reader.description, reader.kinds
        for file, size in reader.files.items():
            found = folder.size(file)
            if found != size:
                got = "no such file (links do not count)" if found is None else f"{found} bytes"
                where = os.path.join(folder.path, file)
                raise ValueError(f"{where}: got {got}, expected {size} bytes")
        if check is not None:
            with named(os.path.join(folder.path, MANIFEST)):
                check(self.kinds)

    def pieces(self, file: str) -> Iterator[bytes]:
        """One of the files, in small pieces."""
        with self.folder.open_to_read(file) as opened:
            while piece := opened.read(PIECE_BYTES):
                yield piece

    def read(self, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        """The arrays by name, or only those with these names.

        Raises:
            ValueError: If a file is damaged.
        """
        reader = SaveReader(
            self.manifest, self.folder.path, None if names is None else dict.fromkeys(names)
        )
        for file in reader.files:
            for piece in self.pieces(file):
                reader.write(file, piece)
        return reader.finish()
