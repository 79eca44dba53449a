"""What saves have put into a folder: named by their manifest, or by a journal until it is written.

Every save has a random number, which the names of all its files begin with. Before the first of
them is written, a *journal* names that number, and those of the saves that this one is to replace.
So what a killed process has left can be told from what others have put into the folder: only what a
manifest or a journal names is ever removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection

from rllib_per_acc.array_files import FILE_NAME
from rllib_per_acc.local_folder import Folder
from rllib_per_acc.replay_files import FORMAT, MANIFEST, PIECE_BYTES, SaveReader

SAVE = re.compile(r"[0-9a-f]{16}")
"""The number of a save; in a checkpoint the name of a folder."""
_JOURNAL = re.compile(r"[0-9a-f]{16}\.begun")
_NEW_MANIFEST = re.compile(r"[0-9a-f]{16}\.new")
_FOLDER_BELOW = re.compile(r"\d+-[\w.-]{0,80}|part-\d+", re.ASCII)
_DEPTH = 2
"""Of the folders below that of a save in a checkpoint: a replay's, and in it one for each part."""


def journal_of(save: str) -> str:
    """The name of a save's journal."""
    return f"{save}.begun"


def new_manifest_of(save: str) -> str:
    """What its manifest is called before it is the manifest of the folder."""
    return f"{save}.new"


def read_manifest(folder: Folder) -> bytes:
    """The bytes of the manifest.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is no text.
    """
    if folder.size(MANIFEST) is None:
        raise FileNotFoundError(
            f"{folder.path}: got no {MANIFEST} there, expected the folder of a save"
        )
    pieces = []
    with folder.open_to_read(MANIFEST) as file:
        while piece := file.read(PIECE_BYTES):
            if b"\0" in piece:  # also where a file of any size takes no room
                where = os.path.join(folder.path, MANIFEST)
                raise ValueError(f"{where}: got a byte 0, expected the manifest of a {FORMAT}")
            pieces.append(piece)
    return b"".join(pieces)


def check_ours(folder: Folder) -> None:
    """Checks that a folder is empty, or has a save, or what was left of one.

    Raises:
        FileExistsError: If it holds something else.
    """
    names = folder.names()
    if MANIFEST in names:
        where = os.path.join(folder.path, MANIFEST)
        if folder.size(MANIFEST) is None or FORMAT.encode() not in _head(folder, MANIFEST):
            raise FileExistsError(f"{where}: got another program's file, expected none or a save's")
        return
    ours = set().union(*_journals(folder).values())
    for name in names:
        if not (name[:16] in ours or _JOURNAL.fullmatch(name)):
            raise FileExistsError(
                f"{folder.path}: got {name!r:.80} in it and no save, expected an empty folder or "
                "one with a save"
            )


def named_by_manifest(folder: Folder) -> set[str]:
    """The files, and in a checkpoint the folder, that the manifest names; none if it is not there.

    Raises:
        ValueError: If it is damaged.
    """
    try:
        reader = SaveReader(read_manifest(folder), folder.path)
    except FileNotFoundError:
        return set()
    save = reader.description.get("save")
    return {*reader.files, *([save] if isinstance(save, str) and SAVE.fullmatch(save) else [])}


def begin(folder: Folder, save: str) -> None:
    """Writes the journal of a save that is about to begin."""
    try:
        before = {name[:16] for name in named_by_manifest(folder)}
    except ValueError:  # what it named is not known, and stays
        before = set()
    content = {"format": FORMAT, "saves": sorted({save, *before})}
    file = folder.open_to_write(journal_of(save))
    try:
        file.write(json.dumps(content).encode())
        folder.close_written(file)
    except BaseException:
        with contextlib.suppress(OSError):
            folder.remove(journal_of(save))
        raise


def clean(folder: Folder) -> None:
    """Removes what journals name and the manifest does not, and then the journals."""
    journals = _journals(folder)
    if not journals:
        return
    try:
        named = named_by_manifest(folder)
    except ValueError:
        return
    for journal, saves in journals.items():
        remove_saves(folder, saves, named)
        with contextlib.suppress(OSError):
            folder.remove(journal)


def remove_saves(folder: Folder, saves: Collection[str], but: Collection[str] = ()) -> None:
    """Removes what saves with these numbers have written into a folder.

    Args:
        folder: The folder.
        saves: Their numbers.
        but: Names of what stays.
    """
    for name in folder.names():
        if name[:16] not in saves or name in but:
            continue
        with contextlib.suppress(OSError):
            if FILE_NAME.fullmatch(name) or _NEW_MANIFEST.fullmatch(name):
                folder.remove(name)
            elif SAVE.fullmatch(name):
                _remove_below(folder.below(name), _DEPTH)


def _remove_below(folder: Folder, depth: int) -> None:
    """Removes the saves in a folder and in those below it, and the folders that are empty then."""
    for name in folder.names():
        if depth and _FOLDER_BELOW.fullmatch(name):
            with contextlib.suppress(OSError):
                _remove_below(folder.below(name), depth - 1)
    clean(folder)
    with contextlib.suppress(OSError, ValueError):  # damaged: what it named is not known, and stays
        remove_saves(folder, {name[:16] for name in named_by_manifest(folder)})
        folder.remove(MANIFEST)
    folder.remove_if_empty()


def _journals(folder: Folder) -> dict[str, set[str]]:
    """By name the numbers of the saves in each journal."""
    journals = {}
    for name in filter(_JOURNAL.fullmatch, folder.names()):
        if folder.size(name) is None:
            continue
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            content = json.loads(_head(folder, name))
            if content["format"] == FORMAT and all(map(SAVE.fullmatch, content["saves"])):
                journals[name] = set(content["saves"])
    return journals


def _head(folder: Folder, file: str) -> bytes:
    with folder.open_to_read(file) as opened:
        return bytes(opened.read(1000))
