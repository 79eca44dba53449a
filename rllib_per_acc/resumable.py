"""Resumable: states and saves of what can say everything it needs to go on as arrays and JSON."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rllib_per_acc.array_files import Piece
from rllib_per_acc.descriptions import anything, dict_of, integer, named, or_none, record, wrong
from rllib_per_acc.local_folder import LocalFolder
from rllib_per_acc.replay_files import MANIFEST, Kinds, pieces_of_save
from rllib_per_acc.replay_folder import FolderWriter, SavedFolder
from rllib_per_acc.replay_options import PriorityOptions
from rllib_per_acc.threads import AllOrNothing, serialized

if TYPE_CHECKING:
    from typing_extensions import Self

NOT_A_STATE = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What reading something else than a state raises."""


def not_a_state(error: Exception) -> ValueError:
    """The error for a state that cannot be restored, given what reading it raised."""
    return ValueError(f"state: cannot be restored, {_reason(error)}")


def _reason(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


_check_save = record(
    {
        "capacity": or_none(integer(1)),
        "options": dict_of(anything),
        "state": dict_of(anything),
    },
    {"holds": anything},
)


def copied_state(state: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description, and copies of the arrays, in what `Resumable.get_state` returned.

    Raises:
        ValueError: If it is not such a state.
    """
    try:
        description, arrays = state["description"], dict(state["arrays"])
    except NOT_A_STATE as error:
        raise not_a_state(error) from error
    return description, {name: copy.deepcopy(array) for name, array in arrays.items()}


class Resumable(AllOrNothing, ABC):
    """Goes on from states, and from saves in folders.

    Args:
        capacity: How many steps or transitions to keep; None, where there may be no limit.
        options: By name.
    """

    options: PriorityOptions
    holds: ClassVar[str]
    """What is in a save: another kind of replay cannot read it."""
    options_class: ClassVar[type[PriorityOptions]]
    """Of `options`."""

    @abstractmethod
    def __init__(self, capacity: int | None, **options: Any) -> None: ...

    @property
    @abstractmethod
    def capacity(self) -> int | None:
        """How many steps or transitions are kept."""

    @staticmethod
    @abstractmethod
    def check_kinds(kinds: Kinds) -> None:
        """Checks how many items the arrays of a save have, before they are read.

        Raises:
            ValueError: If that does not fit together.
        """

    @abstractmethod
    def state_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything needed to go on: a description for `json_values`, and arrays.

        The arrays are views of what this replay goes on to change: copy or write them at once.
        """

    @abstractmethod
    def restore_arrays(self, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Goes on from what `state_arrays` returned, perhaps of a replay of another capacity.

        The oldest is evicted where the capacity is less. With another `alpha` or `min_priority` the
        masses are computed anew. Batches sampled before are stale from then on.

        Args:
            description: As from `state_arrays`.
            arrays: Likewise. They become this replay's own, without a copy where they can be
                resized, and are taken out of the dict.

        Raises:
            ValueError: If they are not what `state_arrays` returned; the replay is unchanged.
        """

    @serialized
    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on, as copies: `description` (JSON-able) and `arrays`."""
        description, arrays = self.state_arrays()
        return {
            "description": copy.deepcopy(description),
            "arrays": {name: copy.deepcopy(array) for name, array in arrays.items()},
        }

    @serialized
    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what `get_state` returned, which stays as it is; see `restore_arrays`.

        Raises:
            ValueError: If it is not such a state; nothing is changed.
        """
        self.restore_arrays(*copied_state(state))

    @serialized
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything needed to go on into a folder: arrays, JSON, no pickle.

        An earlier save in the folder is replaced at once at the end: it stays whole if the disk is
        full or the process dies. Infos, and observations that are not arrays of numbers, are
        written as JSON; they may hold what `json_values.to_json` takes. Other threads' calls
        wait until it is written.

        Args:
            path: A folder: a new one, an empty one, or one with an earlier save.

        Raises:
            FileExistsError: If the folder holds something else.
            OSError: If a file cannot be written.
            TypeError, ValueError: If an object cannot be written as JSON; the message names its
                column.
        """
        with FolderWriter(LocalFolder(path)) as writer:
            for file, piece in self.pieces_of_save():
                writer.write(file, piece)

    def pieces_of_save(self) -> Iterator[tuple[str, Piece]]:
        """The files of a save, piece by piece; see `replay_files.pieces_of_save`."""
        description, arrays = self.state_arrays()
        given = {
            "holds": self.holds,
            "capacity": self.capacity,
            "options": asdict(self.options),
            "state": description,
        }
        return pieces_of_save(given, arrays)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], capacity: int | None = None, **options: Any
    ) -> Self:
        """A replay that goes on from a save: the same masses, the same next sample.

        Nothing in the folder is run; everything in it is checked.

        Args:
            path: The folder.
            capacity: Another capacity than that of the saved replay. If it is less, the oldest is
                left out.
            options: Other options than those of the saved replay.

        Raises:
            FileNotFoundError: If there is no save in the folder.
            TypeError, ValueError: If an option has a wrong type or value.
            ValueError: If a file is missing, damaged, foreign or of a newer version, or the save is
                of another kind of replay; the message names it.
        """
        saved = SavedFolder(LocalFolder(path))
        given = saved.description
        with named(os.path.join(saved.folder.path, MANIFEST)):
            _check_save("", given)
            if (holds := given.get("holds", "episodes")) != cls.holds:
                raise wrong("holds", holds, f"a save of {cls.holds}")
            try:
                cls.options_class(**given["options"])
            except (TypeError, ValueError) as error:
                raise ValueError(f"options: {error}") from error
            cls.check_kinds(saved.kinds)
        replay = cls(
            given["capacity"] if capacity is None else capacity, **given["options"] | options
        )
        with named(saved.folder.path):
            replay.restore_arrays(given["state"], saved.read())
        return replay
