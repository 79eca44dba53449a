"""Folders in the file systems that Ray and RLlib use: those of pyarrow."""

from __future__ import annotations

import os
from typing import Any

import pyarrow.fs

from rllib_per_acc.local_folder import Folder, LocalFolder


def folder_at(path: str | os.PathLike[str], filesystem: Any = None) -> Folder:
    """The folder at a path.

    Args:
        path: A path in the file system; without one, a URI or a path of this machine.
        filesystem: A `pyarrow.fs.FileSystem` or None.
    """
    at = os.fspath(path)
    if filesystem is None:
        if "://" not in at:
            return LocalFolder(os.path.abspath(at))
        filesystem, at = pyarrow.fs.FileSystem.from_uri(at)
    if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
        return LocalFolder(at)
    return ArrowFolder(filesystem, at)


class ArrowFolder:
    """A folder in a pyarrow file system; see `Folder`.

    Args:
        filesystem: A `pyarrow.fs.FileSystem`. Where its `move` is not one step (object stores), an
            earlier save may be lost if the process dies in that moment.
        path: In that file system.
    """

    is_local = False

    def __init__(self, filesystem: Any, path: str) -> None:
        self.path = path
        self._filesystem = filesystem

    def make(self) -> None:
        self._filesystem.create_dir(self.path, recursive=True)

    def below(self, name: str) -> ArrowFolder:
        return ArrowFolder(self._filesystem, self._at(name))

    def names(self) -> list[str]:
        selector = pyarrow.fs.FileSelector(self.path, allow_not_found=True)
        return [info.base_name for info in self._filesystem.get_file_info(selector)]

    def size(self, file: str) -> int | None:
        info = self._filesystem.get_file_info(self._at(file))
        return info.size if info.is_file else None

    def open_to_read(self, file: str) -> Any:
        return self._filesystem.open_input_stream(self._at(file))

    def open_to_write(self, file: str) -> Any:
        return self._filesystem.open_output_stream(self._at(file))

    def close_written(self, file: Any) -> None:
        file.close()

    def replace(self, old: str, new: str) -> None:
        self._filesystem.move(self._at(old), self._at(new))

    def remove(self, file: str) -> None:
        self._filesystem.delete_file(self._at(file))

    def remove_if_empty(self) -> None:
        if not self.names():
            self._filesystem.delete_dir(self.path)

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}"
