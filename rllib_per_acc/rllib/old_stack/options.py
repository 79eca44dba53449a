"""The keys of the old API stack's buffers, and which go where."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any

from rllib_per_acc.replay_options import PriorityOptions, positive_int
from rllib_per_acc.rllib.buffer_config import check_keys
from rllib_per_acc.shards.shard_options import ShardOptions

IGNORED = (
    "type",
    "no_local_replay_buffer",
    "replay_buffer_shards_colocated_with_driver",
    "worker_side_prioritization",
)
"""Keys that RLlib, its policies or Ape-X read, and that mean nothing to a buffer."""


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How samples are handed over.

    Attributes:
        items_per_sample_call: How many items a call of `sample(num_items=1)` returns. RLlib's
            `sample_min_n_steps_from_buffer` makes such calls until it has a train batch.
    """

    items_per_sample_call: int = 1

    def __post_init__(self) -> None:
        positive_int("items_per_sample_call", self.items_per_sample_call)


@dataclass(frozen=True, slots=True)
class OldStackOptions:
    """All options beside RLlib's own."""

    replay: PriorityOptions
    shards: ShardOptions
    calls: CallOptions


_KEYS = {
    kind: {f.name for f in fields(kind)} for kind in (PriorityOptions, ShardOptions, CallOptions)
}


def split_options(
    options: dict[str, Any], own_keys: Collection[str], alpha: float, beta: Any
) -> OldStackOptions:
    """Sorts a constructor's keyword arguments by what they are for.

    Args:
        options: Keys and values as written in `replay_buffer_config`, but those in `own_keys`.
        own_keys: The keys that the constructor names.
        alpha: See `PriorityOptions`.
        beta: Likewise; None for the default.

    Raises:
        TypeError, ValueError: If a key is unknown (the nearest known one is named) or a value is
            wrong.
    """
    replay_keys = _KEYS[PriorityOptions] - {"alpha", "beta", "min_priority"}
    known = {*replay_keys, *_KEYS[ShardOptions], *_KEYS[CallOptions], *own_keys, *IGNORED}
    check_keys(options, known)
    if options.get("prefetch", 0):
        raise ValueError(
            f"prefetch: got {options['prefetch']}, expected 0: the old API stack waits for samples"
        )

    def of(keys: set[str]) -> dict[str, Any]:
        return {key: value for key, value in options.items() if key in keys}

    more = {"alpha": alpha} | ({} if beta is None else {"beta": beta})
    return OldStackOptions(
        PriorityOptions(**of(replay_keys), **more),
        ShardOptions(**of(_KEYS[ShardOptions])),
        CallOptions(**of(_KEYS[CallOptions])),
    )
