"""RecentAdds: what was added last, to be added again when all shards have become empty."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rllib_per_acc.shards.connection import ShardConnection
from rllib_per_acc.shards.frozen import Frozen


class RecentAdd(NamedTuple):
    """An add that was sent.

    Attributes:
        number: See `Operation`.
        parts: By shard the arguments.
    """

    number: int
    parts: dict[int, Frozen]


class RecentAdds:
    """The last add that was stored, and those after it of which that is not known yet.

    Args:
        connections: To the shards.
    """

    def __init__(self, connections: Sequence[ShardConnection]) -> None:
        self._connections = connections
        self._adds: deque[RecentAdd] = deque()

    def __len__(self) -> int:
        return len(self._adds)

    def note(self, number: int, parts: Mapping[int, Frozen]) -> None:
        """An add is to be sent. Noted again with the same number it is the same one."""
        self._forget()
        if not self._adds or self._adds[-1].number != number:
            self._adds.append(RecentAdd(number, dict(parts)))

    def last(self) -> RecentAdd | None:
        """The last add of which no shard has refused its part; None if there is none."""
        self._forget()
        return self._adds[-1] if self._adds else None

    def clear(self) -> None:
        """Forgets all of them."""
        self._adds.clear()

    def _forget(self) -> None:
        """Forgets what was refused, and what is older than one that was stored."""
        refused = {c.index: c.refused for c in self._connections}
        kept: deque[RecentAdd] = deque()
        for add in reversed(self._adds):
            if any(add.number in refused[shard] for shard in add.parts):
                continue
            kept.appendleft(add)
            if all(self._connections[shard].answered_add >= add.number for shard in add.parts):
                break
        self._adds = kept
