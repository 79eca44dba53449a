"""Folders that saves are written to and read from: the protocol, and folders of this machine."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import Any, Protocol

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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

    def remove_if_empty(self) -> None:
        """Removes the folder itself, unless something is in it."""


class LocalFolder:
    """A folder of this machine; see `Folder`.

    The path may go through links. Nothing below it is reached through one: neither folders nor
    files, in reading, writing or removing, whatever is changed there meanwhile.

    Args:
        path: Of the folder.
        below: Names of folders below it, each in the one before, the last of which is meant.
    """

    is_local = True

    def __init__(self, path: str | os.PathLike[str], below: tuple[str, ...] = ()) -> None:
        self._top = os.fspath(path)
        self._below = below
        self.path = os.path.join(self._top, *below)

    def make(self) -> None:  # noqa: D102
        missing = []
        at = os.path.abspath(self._top)
        while not os.path.isdir(at):
            missing.append(at)
            at = os.path.dirname(at)
        for at in reversed(missing):
            os.makedirs(at, exist_ok=True)
            _sync(os.path.dirname(at))
        with self._opened(make=True):
            pass

    def below(self, name: str) -> LocalFolder:  # noqa: D102
        return LocalFolder(self._top, (*self._below, name))

    def names(self) -> list[str]:  # noqa: D102
        with _absent_is_fine(), self._opened() as folder:
            return os.listdir(folder)
        return []

    def size(self, file: str) -> int | None:  # noqa: D102
        with _absent_is_fine(), self._opened() as folder:
            found = os.stat(file, dir_fd=folder, follow_symlinks=False)
            return found.st_size if stat.S_ISREG(found.st_mode) else None
        return None

    def open_to_read(self, file: str) -> Any:  # noqa: D102
        with self._opened() as folder:
            opened = open(os.open(file, _READ, dir_fd=folder), "rb", buffering=0)  # noqa: SIM115
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            opened.close()
            raise FileNotFoundError(f"{os.path.join(self.path, file)}: got no file of that name")
        return opened

    def open_to_write(self, file: str) -> Any:  # noqa: D102
        with self._opened() as folder:
            return open(os.open(file, _NEW_FILE, 0o666, dir_fd=folder), "wb")

    def close_written(self, file: Any) -> None:  # noqa: D102
        with file:
            file.flush()
            os.fsync(file.fileno())

    def replace(self, old: str, new: str) -> None:  # noqa: D102
        with self._opened() as folder:
            os.replace(old, new, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        if not self._below:
            _sync(os.path.dirname(os.path.abspath(self._top)))

    def remove(self, file: str) -> None:  # noqa: D102
        with self._opened() as folder:
            os.remove(file, dir_fd=folder)

    def remove_if_empty(self) -> None:  # noqa: D102
        *above, name = self._below
        with LocalFolder(self._top, tuple(above))._opened() as folder:
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise

    @contextlib.contextmanager
    def _opened(self, make: bool = False) -> Iterator[int]:
        """A descriptor of the folder; `make`: those below the top are made where they are not."""
        folder = os.open(self._top, _FOLDER)
        try:
            for name in self._below:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=folder)
                        os.fsync(folder)
                inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                folder, outer = inner, folder
                os.close(outer)
            yield folder
        finally:
            os.close(folder)


def _sync(path: str) -> None:
    folder = os.open(path, _FOLDER)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _absent_is_fine() -> Iterator[None]:
    """Passes over errors about what is not there, or is a link, or a file in place of a folder."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
