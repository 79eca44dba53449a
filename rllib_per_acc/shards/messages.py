"""What clients and shards say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ray.exceptions import RayTaskError

from rllib_per_acc.shards.lives import Lives


class Operation(NamedTuple):
    """What a client wants a shard to do.

    Attributes:
        method: Of `ReplayShard`, `ReplayPart` or `LocalPart`.
        arguments: Of the method: a tuple, or one that is `Frozen`.
        size: How many steps it adds, or how many priorities it updates.
        number: Of what is sent and not waited for: in which order this client did.
    """

    method: str
    arguments: Any
    size: int = 0
    number: int = 0


class Reply(NamedTuple):
    """What comes back from every call.

    Attributes:
        result: What the method that was asked for returned.
        boot: A number that is another one whenever the shard started empty.
        status: Of the shard after the call.
        lives: What it knows of its starts, this one included.
        times: By method how often it was called so far, and how many seconds that took.
        error: What the method that was asked for raised.
        refused: By their numbers what those raised that were sent along.
    """

    result: Any
    boot: int
    status: Any
    lives: Lives
    times: Mapping[str, tuple[int, float]]
    error: RayTaskError | None = None
    refused: Mapping[int, RayTaskError] = {}
