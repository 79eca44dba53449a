"""Several replays of a buffer in one folder, saved and restored all or none.

    <folder>/manifest.json                what counts, written last
    <folder>/<16 hex digits>/0-<name>/    the first replay
        part-0/, part-1/, ...             its shards; `PrioritizedReplay.load` reads each
    <folder>/<16 hex digits>/1-<name>/    the next replay

A buffer with one replay has one; one that keeps a replay for each module has one for each.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from rllib_per_acc.parts_on_file import Prepared
from rllib_per_acc.replay_batch import ReplayClient
from rllib_per_acc.replay_files import MANIFEST, pieces_of_save
from rllib_per_acc.replay_folder import Folder, FolderWriter, SavedFolder

_SAVE = re.compile(r"[0-9a-f]{16}")
_REPLAY = re.compile(r"\d+-[\w.-]{0,80}", re.ASCII)


def save_replays(
    folder: Folder,
    replays: Mapping[str, ReplayClient],
    more: dict[str, Any] | None = None,
    arrays: dict[str, np.ndarray] | None = None,
) -> None:
    """Writes replays into a folder; an earlier save there counts until the end, and is removed.

    Args:
        folder: A new one, an empty one, or one with such a save.
        replays: By name.
        more: What else is to be kept, JSON-able; see `json_values.to_json`.
        arrays: Likewise, of numbers or of such objects.

    Raises:
        FileExistsError: If the folder holds something else.
        OSError: If a file cannot be written. An earlier save is as it was.
        TypeError, ValueError: Likewise if an object cannot be written as JSON.
    """
    save = secrets.token_hex(8)
    try:
        with FolderWriter(folder) as writer:
            saved = {}
            for number, (name, replay) in enumerate(replays.items()):
                below = f"{number}-" + re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII)[:80]
                parts = replay.save_in(folder.below(save).below(below))
                saved[name] = parts | {"folder": below}
            description = {"save": save, "replays": saved, "more": more or {}}
            for file, piece in pieces_of_save(description, arrays or {}):
                writer.write(file, piece)
    except BaseException:
        with contextlib.suppress(OSError):
            folder.below(save).remove_all()
        raise
    for other in folder.names():
        if other != save and _SAVE.fullmatch(other):
            with contextlib.suppress(OSError):
                folder.below(other).remove_all()


class SavedReplays:
    """What `save_replays` wrote.

    Attributes:
        names: Of the replays.
        more: What else was kept.
        arrays: Likewise.

    Raises:
        FileNotFoundError: If there is no such save in the folder.
        ValueError: If one of these files is damaged, foreign or newer.
    """

    def __init__(self, folder: Folder) -> None:
        saved_folder = SavedFolder(folder)
        description = saved_folder.description
        try:
            if not _SAVE.fullmatch(description["save"]):
                raise ValueError(f"save: got {description['save']!r:.80}")
            self._folder = folder.below(description["save"])
            self._replays: dict[str, dict[str, Any]] = dict(description["replays"])
            for saved in self._replays.values():
                if not _REPLAY.fullmatch(saved["folder"]):
                    raise ValueError(f"folder: got {saved['folder']!r:.80}")
            self.more: dict[str, Any] = description["more"]
        except (KeyError, TypeError, ValueError) as error:
            where = os.path.join(folder.path, MANIFEST)
            raise ValueError(f"{where}: got {error!r}, expected the save of replays") from error
        self.names = list(self._replays)
        self.arrays = saved_folder.read()

    def restore(self, replays: Mapping[str, ReplayClient]) -> None:
        """Lets replays go on from the save: all of them, or on an error none.

        Args:
            replays: By name, as many as there are `names`. Each may have another capacity and
                another number of shards than the one that was saved.

        Raises:
            FileNotFoundError: If a file is missing.
            ValueError: If one is damaged, or is not the save of a replay, or if there are other
                replays than that.
        """
        if set(replays) != set(self.names):
            raise ValueError(
                f"{self._folder.path}: got a buffer with the replays {self.names}, "
                f"expected {list(replays)}"
            )
        prepared: list[Prepared] = []
        try:
            for name, replay in replays.items():
                saved = self._replays[name]
                below = self._folder.below(saved["folder"])
                prepared.append(replay.prepare_restore(below, saved))
        except BaseException as error:
            for one in prepared:
                one.discard()
            if isinstance(error, KeyError | TypeError):
                raise ValueError(f"{self._folder.path}: {error!r} in its manifest") from error
            raise
        for one in prepared:
            one.commit()
