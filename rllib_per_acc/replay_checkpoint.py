"""Several replays of a buffer in one folder, saved and restored all or none.

    <folder>/manifest.json                what counts, written last
    <folder>/<16 hex digits>/0-replay/    the first replay
        part-0/, part-1/, ...             its shards; `PrioritizedReplay.load` reads each
    <folder>/<16 hex digits>/1-replay/    the next replay

A buffer with one replay has one; one that keeps a replay for each module has one for each.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from rllib_per_acc.descriptions import anything, dict_of, named, record, text, wrong
from rllib_per_acc.local_folder import Folder
from rllib_per_acc.parts_on_file import Prepared, check_saved_replay
from rllib_per_acc.replay_batch import ReplayClient
from rllib_per_acc.replay_files import MANIFEST, pieces_of_save
from rllib_per_acc.replay_folder import FolderWriter, SavedFolder
from rllib_per_acc.save_journal import SAVE

_REPLAY = re.compile(r"\d+-[\w.-]{0,80}", re.ASCII)


def _check_replay(name: str, value: Any) -> None:
    record({"folder": text(_REPLAY, "the name of a folder of a replay")})(name, value)
    check_saved_replay(name, value)


_check_description = record(
    {
        "save": text(SAVE, "16 hexadecimal digits"),
        "replays": dict_of(_check_replay),
        "more": dict_of(anything),
    }
)


def save_replays(
    folder: Folder,
    replays: Mapping[Any, ReplayClient],
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
    with FolderWriter(folder, save) as writer:
        saved = {}
        for number, (name, replay) in enumerate(replays.items()):
            below = f"{number}-replay"  # names may be of any kind and length
            saved[name] = replay.save_in(folder.below(save).below(below)) | {"folder": below}
        description = {"save": save, "replays": saved, "more": more or {}}
        for file, piece in pieces_of_save(description, arrays or {}, save):
            writer.write(file, piece)


class SavedReplays:
    """What `save_replays` wrote.

    Attributes:
        manifest: The path of the file that says so.
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
        self.manifest = os.path.join(folder.path, MANIFEST)
        with named(self.manifest):
            _check_description("", description)
            folders = [saved["folder"] for saved in description["replays"].values()]
            if len(set(folders)) < len(folders):
                raise wrong("replays", folders, "a folder of its own for each")
        self._folder = folder.below(description["save"])
        self._replays: dict[Any, dict[str, Any]] = description["replays"]
        self.more: dict[str, Any] = description["more"]
        self.names = list(self._replays)
        self.arrays = saved_folder.read()

    def restore(self, replays: Mapping[Any, ReplayClient]) -> None:
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
        except BaseException:
            for one in prepared:
                one.discard()
            raise
        for one in prepared:
            one.commit()
