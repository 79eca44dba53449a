"""ShardWriter: a handle for other processes to add to a replay's shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.actor import ActorHandle

from rllib_per_acc.changes import Change
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.replay_options import ReplayOptions
from rllib_per_acc.shards.known_steps import KnownSteps
from rllib_per_acc.shards.shard_group import ShardGroup
from rllib_per_acc.threads import AllOrNothing, serialized


class ShardWriter(AllOrNothing):
    """Adds to the shards of a `ShardedReplay` from another actor or task.

    It can be pickled as an argument of Ray calls; every copy connects by itself. Several threads
    may use one: calls wait for each other. New steps get the maximum priority that their shard
    knows of. All chunks of an episode have to go through the same writer. The shards end with the
    replay, whoever holds a writer.

    Args:
        actors: The shards.
        capacities: Steps that each of them keeps.
        restarts: Whether shards that die are started again.
        options: Of the replay.
    """

    def __init__(
        self,
        actors: Sequence[ActorHandle],
        capacities: Sequence[int | None],
        restarts: bool,
        options: ReplayOptions,
    ) -> None:
        super().__init__()
        self._arguments = actors, capacities, restarts, options
        self._known = KnownSteps(options)
        self._group: ShardGroup | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments

    def __deepcopy__(self, _: Any) -> ShardWriter:
        return type(self)(*self._arguments)

    def _connected(self) -> ShardGroup:
        if self._group is None:
            actors, capacities, restarts, _ = self._arguments
            self._group = ShardGroup(actors, capacities, owner=False, restarts=restarts)
        return self._group

    @serialized
    def add(self, chunks: Sequence[EpisodeChunk], weight: Any = None) -> None:
        """Sends chunks; see `ShardedReplay.add`. Waits only if too much is on the way.

        Raises:
            TypeError, ValueError: If chunks or weights do not fit; nothing is sent.
            ShardLostError: If no shard can be reached: most probably the replay has ended.
            Exception: What an add before this one raised in its shard; this one is sent.
        """
        chunks = list(chunks)
        weight = self._known.check(chunks, weight)
        group = self._connected()
        prepared = group.prepare_add(chunks, weight, ())
        change = Change()
        change.call(group.add, prepared, group.next_number())
        self._commit(change)
        group.raise_earlier()

    @serialized
    def flush(self) -> None:
        """Waits until everything sent is stored.

        Raises:
            Exception: As `add`.
        """
        group = self._connected()
        group.settle()
        group.raise_earlier()
