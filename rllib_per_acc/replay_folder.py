"""A saved replay in a folder: written so that the save before it stays until the end."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from rllib_per_acc.array_files import FILE_NAME, Piece
from rllib_per_acc.replay_files import FORMAT, MANIFEST, PIECE_BYTES, SaveReader

_NEW_MANIFEST = f"{MANIFEST}.new"


class Folder(Protocol):
    """A folder in some file system.

    Attributes:
        path: In that file system.
        is_local: Whether other processes of this machine find it there too.
    """

    path: str
    is_local: bool

    def make(self) -> None:
        """Makes it, unless it is there."""

    def below(self, name: str) -> Folder:
        """A folder in this one, which need not be there."""

    def names(self) -> list[str]:
        """What is in it; nothing if it is not there."""

    def size(self, file: str) -> int | None:
        """Bytes of a file; None if there is no such file."""

    def open_to_read(self, file: str) -> Any:
        """A file with `read(n)`, to be closed."""

    def open_to_write(self, file: str) -> Any:
        """A new file with `write`, for `close_written`."""

    def close_written(self, file: Any) -> None:
        """Closes it; from then on it is there to stay."""

    def replace(self, old: str, new: str) -> None:
        """Gives the file `old` the name `new`, which another file may have had."""

    def remove(self, file: str) -> None:
        """Removes a file."""

    def remove_all(self) -> None:
        """Removes it with everything in it."""


class LocalFolder:
    """A folder of this machine; see `Folder`."""

    is_local = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def make(self) -> None:  # noqa: D102
        os.makedirs(self.path, exist_ok=True)

    def below(self, name: str) -> LocalFolder:  # noqa: D102
        return LocalFolder(self._at(name))

    def names(self) -> list[str]:  # noqa: D102
        return os.listdir(self.path) if os.path.isdir(self.path) else []

    def size(self, file: str) -> int | None:  # noqa: D102
        return os.path.getsize(self._at(file)) if os.path.isfile(self._at(file)) else None

    def open_to_read(self, file: str) -> Any:  # noqa: D102
        return open(self._at(file), "rb", buffering=0)

    def open_to_write(self, file: str) -> Any:  # noqa: D102
        return open(self._at(file), "wb")

    def close_written(self, file: Any) -> None:  # noqa: D102
        with file:
            file.flush()
            os.fsync(file.fileno())

    def replace(self, old: str, new: str) -> None:  # noqa: D102
        os.replace(self._at(old), self._at(new))
        for changed in (self.path, os.path.dirname(os.path.abspath(self.path))):
            descriptor = os.open(changed, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def remove(self, file: str) -> None:  # noqa: D102
        os.remove(self._at(file))

    def remove_all(self) -> None:  # noqa: D102
        shutil.rmtree(self.path)

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name)


class FolderWriter:
    """Takes the files of a save, in the order of `pieces_of_save`, into a folder.

    A context manager. New files are written beside those of an earlier save, which count until the
    manifest is renamed when the context ends without an error; then the old ones are removed. So
    are those that a killed process has left. One process at a time may do this.

    Raises:
        FileExistsError: If the folder holds a manifest of something else.
        OSError: If something cannot be written; an earlier save is as it was.
    """

    def __init__(self, folder: Folder) -> None:
        folder.make()
        if folder.size(MANIFEST) is not None and FORMAT.encode() not in _head(folder):
            where = os.path.join(folder.path, MANIFEST)
            raise FileExistsError(f"{where}: got another program's file, expected none or a save's")
        self._folder = folder
        self._name = ""
        self._file: Any = None

    def __enter__(self) -> FolderWriter:
        _remove_unnamed(self._folder)
        return self

    def write(self, file: str, piece: Piece) -> None:
        """Takes the next piece of a file, the last one or a new one."""
        if file != self._name:
            self._close()
            self._file = self._folder.open_to_write(_NEW_MANIFEST if file == MANIFEST else file)
            self._name = file
        self._file.write(piece)

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
        try:
            if error is None:
                self._close()
                self._folder.replace(_NEW_MANIFEST, MANIFEST)
            elif self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.close()
        finally:
            _remove_unnamed(self._folder)


def _head(folder: Folder) -> bytes:
    with folder.open_to_read(MANIFEST) as file:
        return bytes(file.read(100))


def read_manifest(folder: Folder) -> bytes:
    """The bytes of the manifest.

    Raises:
        FileNotFoundError: If there is none.
    """
    if folder.size(MANIFEST) is None:
        raise FileNotFoundError(
            f"{folder.path}: got no {MANIFEST} there, expected the folder of a save"
        )
    with folder.open_to_read(MANIFEST) as file:
        return b"".join(iter(lambda: file.read(PIECE_BYTES), b""))


def _remove_unnamed(folder: Folder) -> None:
    """Removes files that look like those of a save and that the manifest does not name."""
    named: set[str] = set()
    try:
        named.update(SaveReader(read_manifest(folder), folder.path).files)
    except FileNotFoundError:
        pass
    except ValueError:  # damaged: what it named is not known
        return
    for file in folder.names():
        if file == _NEW_MANIFEST or (FILE_NAME.fullmatch(file) and file not in named):
            with contextlib.suppress(OSError):
                folder.remove(file)


class SavedFolder:
    """A save in a folder, whose manifest has been read.

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

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        reader = SaveReader(self.manifest, folder.path)
        self.description, self.kinds = reader.description, reader.kinds
        for file, size in reader.files.items():
            found = folder.size(file)
            if found != size:
                got = "no such file" if found is None else f"{found} bytes"
                where = os.path.join(folder.path, file)
                raise ValueError(f"{where}: got {got}, expected {size} bytes")

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
