"""Replays in folders part by part: each part in a folder of its own, restored into any number."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rllib_per_acc.array_files import Into, Piece
from rllib_per_acc.descriptions import (
    integer,
    list_of,
    named,
    number,
    or_none,
    random_state,
    record,
    text,
)
from rllib_per_acc.local_folder import Folder
from rllib_per_acc.replay_files import SaveReader
from rllib_per_acc.replay_folder import FolderWriter, SavedFolder
from rllib_per_acc.resumable import copied_state
from rllib_per_acc.saved_parts import Portion, arrays_for, deal, needed_to_deal
from rllib_per_acc.saved_rows import check_shapes

if TYPE_CHECKING:
    from rllib_per_acc.replay import PrioritizedReplay

Manifest = tuple[bytes, str]
"""The manifest of a save, and where it is."""

_PART = re.compile(r"part-\d+", re.ASCII)

check_draws = record({"rng": random_state, "acceptance": number(0, 1)})
"""Checks what the next draws from several parts depend on."""

check_saved_replay = record(
    {
        "parts": list_of(text(_PART, "'part-<n>'"), least=1, distinct=True),
        "steps_sampled": integer(),
    },
    {"draws": or_none(check_draws)},
)
"""Checks what `ReplayClient.save_in` returns."""


class PartOnFile(Protocol):
    """What saves and restores one of the replays that make up a whole.

    Attributes:
        capacity: How many steps it keeps; None for no limit.
    """

    capacity: int | None

    def save(self, folder: Folder) -> None:
        """Writes everything needed to go on; see `FolderWriter`."""

    def prepare(self, saves: Sequence[SavedFolder], portion: Portion | None) -> None:
        """Reads what it is to go on from, and does not go on from it yet.

        Args:
            saves: Of all parts that there were, or the one that it goes on from.
            portion: What it gets of them; None: everything there is.

        Raises:
            ValueError: If a save is damaged; the message names the file.
        """

    def commit(self) -> None:
        """Goes on from what was prepared."""

    def discard(self) -> None:
        """Forgets what was prepared."""


def state_of(description: dict[str, Any]) -> dict[str, Any]:
    """What `PrioritizedReplay.state_arrays` described, in the description of a save.

    Raises:
        ValueError: If the save is not that of a replay.
    """
    state = description.get("state")
    if not isinstance(state, dict):
        raise ValueError(f"state: got {state!r:.80} in the manifest, expected that of a replay")
    return state


class Restoring:
    """A replay that is read from saves, beside the one in whose place it is to be.

    Args:
        replay: In whose place.
        manifests: Of the saves.
        portion: What it gets of them; None: everything there is in the only one.

    Attributes:
        readers: For each save what takes its files.

    Raises:
        ValueError: If a manifest is damaged, or arrays of several saves do not fit each other.
    """

    def __init__(
        self, replay: PrioritizedReplay, manifests: Sequence[Manifest], portion: Portion | None
    ) -> None:
        self._replay = replay
        self._portion = portion
        intos: Sequence[dict[str, Into] | None] = [None] * len(manifests)
        if portion is not None:
            kinds = [SaveReader(*manifest, into={}).kinds for manifest in manifests]
            self._arrays, intos = arrays_for(portion, kinds)
        self.readers = [
            SaveReader(*manifest, into=into)
            for manifest, into in zip(manifests, intos, strict=True)
        ]

    def finish(self) -> PrioritizedReplay:
        """The replay, when all files have been read.

        Raises:
            ValueError: If a file is damaged, or if it is not the save of a replay.
        """
        read = [reader.finish() for reader in self.readers]
        if self._portion is not None:
            return self._replay.restored(self._portion.description, self._arrays)
        return self._replay.restored(state_of(self.readers[0].description), read[0])


class LocalPart:
    """A replay in this process; see `PartOnFile`."""

    def __init__(self, replay: PrioritizedReplay) -> None:
        self._replay = replay
        self._restoring: Restoring | None = None
        self._prepared: PrioritizedReplay | None = None
        self.capacity = replay.capacity

    def save(self, folder: Folder) -> None:  # noqa: D102
        for _ in self.saving(folder):
            pass

    def saving(self, folder: Folder) -> Iterator[int]:
        """As `save`, with the bytes of every piece that is written."""
        with self._replay._lock, FolderWriter(folder) as writer:
            for file, piece in self._replay.pieces_of_save():
                writer.write(file, piece)
                yield len(piece)

    def pieces(self) -> Iterator[tuple[str, np.ndarray]]:
        """The files of a save as (file name, next piece as bytes in an array)."""
        for file, piece in self._replay.pieces_of_save():
            yield file, np.frombuffer(piece, np.uint8)

    def prepare(self, saves: Sequence[SavedFolder], portion: Portion | None) -> None:  # noqa: D102
        for _ in self.preparing(saves, portion):
            pass

    def preparing(self, saves: Sequence[SavedFolder], portion: Portion | None) -> Iterator[int]:
        """As `prepare`, with the bytes of every piece that is read."""
        manifests = [(saved.manifest, saved.folder.path) for saved in saves]
        for save, files in enumerate(self.begin(manifests, portion)):
            for file in files:
                for piece in saves[save].pieces(file):
                    self.take(save, file, piece)
                    yield len(piece)
        self.finish()

    def begin(self, manifests: Sequence[Manifest], portion: Portion | None) -> list[list[str]]:
        """Begins to prepare; the files to `take` of each save."""
        self.discard()
        restoring = Restoring(self._replay, manifests, portion)
        self._restoring = restoring
        return [list(reader.files) for reader in restoring.readers]

    def take(self, save: int, file: str, piece: Piece) -> None:
        """Takes the next piece of a file of a save."""
        self._begun().readers[save].write(file, piece)

    def finish(self) -> None:
        """Ends preparing when all files have been taken."""
        restoring, self._restoring = self._begun(), None
        self._prepared = restoring.finish()

    def _begun(self) -> Restoring:
        if self._restoring is None:
            raise RuntimeError("got pieces of a save, expected begin() before them")
        return self._restoring

    def prepare_state(self, state: Any) -> None:
        """As `prepare`, from what `PrioritizedReplay.get_state` returned.

        Raises:
            ValueError: If it is not such a state.
        """
        self.discard()
        self._prepared = self._replay.restored(*copied_state(state))

    def commit(self) -> None:  # noqa: D102
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            raise RuntimeError("got commit(), expected something prepared before it")
        self._replay.become(prepared)

    def discard(self) -> None:  # noqa: D102
        self._restoring = self._prepared = None


class Prepared:
    """Parts that are ready to go on from saves.

    Args:
        parts: What was prepared.
        then: What is done when they have gone on.
    """

    def __init__(self, parts: Sequence[PartOnFile], then: Callable[[], None]) -> None:
        self._parts = parts
        self._then = then

    def commit(self) -> None:
        """Goes on from the saves."""
        for part in self._parts:
            part.commit()
        self._then()

    def discard(self) -> None:
        """Goes on as before."""
        for part in self._parts:
            with contextlib.suppress(Exception):  # of a shard that is gone, or as raised before
                part.discard()


def save_parts(folder: Folder, parts: Sequence[PartOnFile]) -> list[str]:
    """Saves each part in a folder below `folder`; the names of those."""
    names = [f"part-{number}" for number in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        part.save(folder.below(name))
    return names


def prepare_parts(
    folder: Folder, names: Sequence[str], parts: Sequence[PartOnFile], then: Callable[[], None]
) -> Prepared:
    """Prepares to go on from what `save_parts` saved, perhaps in another number of parts.

    As many as there were go one to one. Otherwise episodes are dealt out anew; see `deal`.

    Args:
        folder: As it was given to `save_parts`.
        names: What that returned, checked by `check_saved_replay`.
        parts: Those that are to go on.
        then: What is to be done when they have gone on.

    Raises:
        FileNotFoundError: If a save is missing.
        ValueError: If one is damaged; the message names the file. Nothing is changed.
    """
    saves = [SavedFolder(folder.below(name), check_shapes) for name in names]
    portions: Sequence[Portion | None] = [None] * len(parts)
    if len(saves) != len(parts):
        states = []
        for saved in saves:
            with named(saved.folder.path):
                needed = saved.read(needed_to_deal(saved.kinds))
                states.append((state_of(saved.description), needed))
        with named(folder.path):
            portions = deal(states, [part.capacity for part in parts])
    prepared = Prepared(parts, then)
    try:
        for i, (part, portion) in enumerate(zip(parts, portions, strict=True)):
            with named(folder.path if portion else saves[i].folder.path):
                part.prepare(saves if portion else [saves[i]], portion)
    except BaseException:
        prepared.discard()
        raise
    return prepared
