"""The states of all shards together, in memory and on file, and how they go to other shards."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any

from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.local_folder import Folder
from rllib_per_acc.replay_folder import FolderWriter, SavedFolder
from rllib_per_acc.saved_parts import Portion, dealt_out
from rllib_per_acc.shards.connection import Call, ShardConnection, ShardLostError
from rllib_per_acc.shards.shard_group import ShardGroup

_PIECES_AHEAD = 4
"""How many pieces of files may be on their way to a shard."""


class ShardOnFile:
    """A shard whose rows are saved and restored; see `PartOnFile`.

    A shard of this node works on local files itself. Otherwise the files go through this process,
    a few small pieces at a time.
    """

    def __init__(self, connection: ShardConnection, capacity: int | None) -> None:
        self._connection = connection
        self.capacity = capacity

    def save(self, folder: Folder) -> None:  # noqa: D102
        if folder.is_local and self._connection.is_near:
            for _ in self._connection.stream("saving", folder):
                pass
            return
        with FolderWriter(folder) as writer:
            for file, piece in self._connection.stream("pieces"):
                writer.write(file, piece)

    def prepare(self, saves: Sequence[SavedFolder], portion: Portion | None) -> None:  # noqa: D102
        connection = self._connection
        if connection.is_near and all(saved.folder.is_local for saved in saves):
            for _ in connection.stream("preparing", saves, portion):
                pass
            return
        manifests = [(saved.manifest, saved.folder.path) for saved in saves]
        files = connection.answer(connection.ask("begin", manifests, portion)).result
        under_way: deque[Call] = deque()
        for number, saved in enumerate(saves):
            for file in files[number]:
                for piece in saved.pieces(file):
                    if len(under_way) >= _PIECES_AHEAD:
                        connection.answer(under_way.popleft())
                    under_way.append(connection.ask("take", number, file, piece))
        for call in under_way:
            connection.answer(call)
        connection.answer(connection.ask("finish"))

    def commit(self) -> None:  # noqa: D102
        with contextlib.suppress(ShardLostError):  # as if it were lost right afterwards
            self._connection.answer(self._connection.ask("commit"))

    def discard(self) -> None:  # noqa: D102
        self._connection.answer(self._connection.ask("discard"))


def restore_shards(group: ShardGroup, capacities: Sequence[int | None], states: list[Any]) -> None:
    """Puts states, each as of `PrioritizedReplay.get_state`, into the shards of a group.

    As many states as shards go one to one: the same masses, in trees of the same bits. Otherwise
    episodes are dealt out anew; see `saved_parts.deal`.

    Args:
        group: The shards, all of them up.
        capacities: How many steps each of them keeps; None for no limit.
        states: Of all shards of a replay.

    Raises:
        ValueError: If one is not such a state. No shard is changed.
        ShardLostError: If a shard is lost before all are ready to go on. No other is changed.
    """
    if len(states) != len(group):
        try:
            given = [(state["description"], state["arrays"]) for state in states]
        except (KeyError, TypeError) as error:
            raise ValueError(f"state: cannot be restored, {error!r}") from error
        dealt = dealt_out(given, capacities)
        states = [{"description": description, "arrays": arrays} for description, arrays in dealt]
    pairs = list(zip(group.connections, states, strict=True))
    try:
        _ask_each(pairs, "prepare_state")
    except BaseException:
        _ask_those_up(group, "discard")
        raise
    _ask_those_up(group, "commit")


def _ask_each(asked: Sequence[tuple[Any, ...]], method: str) -> None:
    """Asks shards at once, each with its own arguments, and waits for all of them."""
    calls = [(connection, connection.ask(method, *given)) for connection, *given in asked]
    errors = []
    for connection, call in calls:
        try:
            connection.answer(call)
        except Exception as error:  # noqa: PERF203 - the others have answers too
            errors.append(error)
    if errors:
        raise errors[0]


def _ask_those_up(group: ShardGroup, method: str) -> None:
    """Asks each shard for the same; one that is lost has nothing to go on from."""
    calls = []
    for connection in group.connections:
        with contextlib.suppress(ShardLostError):
            calls.append((connection, connection.ask(method)))
    for connection, call in calls:
        with contextlib.suppress(ShardLostError):
            connection.answer(call)


def find_episodes(group: ShardGroup) -> list[EpisodeChunk]:
    """Learns anew which episode is in which shard; an episode of each shard that has some."""
    episodes = {
        id_: shard for shard, reply in group.ask_all("episode_ids").items() for id_ in reply.result
    }
    group.routes.restart(episodes, [c.status.steps if c.status else 0 for c in group.connections])
    return [chunk for reply in group.ask_all("example").values() for chunk in reply.result]
