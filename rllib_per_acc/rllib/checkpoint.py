"""A buffer in RLlib's checkpoints: arrays and JSON in a folder of its own, nothing that is run."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from rllib_per_acc.replay_batch import ReplayClient
from rllib_per_acc.replay_checkpoint import SavedReplays, save_replays
from rllib_per_acc.rllib.arrow_folder import folder_at
from rllib_per_acc.threads import serialized

COMPONENT_REPLAY_BUFFER = "replay_buffer"
"""The name of the buffer's folder in an algorithm's checkpoint."""


class CheckpointedBuffer:
    """What RLlib's `Checkpointable` asks of a component, for a buffer over one or more replays.

    Other threads' calls wait until a buffer is saved or restored.
    """

    @abstractmethod
    def _replays(self) -> Mapping[Any, ReplayClient]:
        """The replays that the buffer has now, by name."""

    def _more_to_save(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What belongs to the buffer and to none of its replays: JSON-able values, and arrays."""
        return {}, {}

    @abstractmethod
    def _restore(self, saved: SavedReplays) -> None:
        """Lets all replays go on from the save, and takes over what else is in it.

        Raises:
            FileNotFoundError, ValueError: As `restore_from_path`; nothing is changed.
        """

    @serialized
    def save_to_path(
        self,
        path: str | os.PathLike[str],
        *,
        state: Any = None,
        filesystem: Any = None,
        use_msgpack: bool = False,
    ) -> str:
        """Writes everything needed to go on into a folder, as `save_replays` does.

        Shards of this node write their parts themselves if the folder is a local one; from others
        they come in small pieces.

        Args:
            path: The folder; without `filesystem` a path of this machine or a URI.
            state: Kept for RLlib: what is written is always the buffer as it is now.
            filesystem: A `pyarrow.fs.FileSystem`.
            use_msgpack: Kept for RLlib.

        Returns:
            The path.

        Raises:
            FileExistsError, OSError, TypeError, ValueError: As `save_replays`; an earlier save in
                the folder is as it was.
        """
        save_replays(folder_at(path, filesystem), self._replays(), *self._more_to_save())
        return os.fspath(path)

    @serialized
    def restore_from_path(
        self,
        path: str | os.PathLike[str],
        *,
        component: str | None = None,
        filesystem: Any = None,
        inference_only: bool = False,
        **kwargs: Any,
    ) -> None:
        """Goes on from what `save_to_path` wrote, perhaps of a buffer of other capacity and shards.

        Nothing in the folder is run; everything in it is checked. A sample taken before can no
        longer be updated.

        Args:
            path: The folder; without `filesystem` a path of this machine or a URI.
            component: Kept for RLlib: a buffer has no components.
            filesystem: A `pyarrow.fs.FileSystem`.
            inference_only: Whether nothing is restored: acting needs no buffer.
            **kwargs: Kept for RLlib.

        Raises:
            FileNotFoundError: If there is no such save, or a file of it is missing.
            ValueError: If one is damaged, foreign or newer; the message names it. In either case
                nothing is changed.
        """
        if inference_only:
            return
        self._restore(SavedReplays(folder_at(path, filesystem)))


def holds_buffer(path: str | os.PathLike[str], filesystem: Any = None) -> bool:
    """Whether there is a buffer in an algorithm's checkpoint."""
    return COMPONENT_REPLAY_BUFFER in folder_at(path, filesystem).names()
