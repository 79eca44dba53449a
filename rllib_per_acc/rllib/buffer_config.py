"""The keys of `replay_buffer_config`: which there are, and which go where."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from rllib_per_acc.replay_options import ReplayOptions, non_negative


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """Where the rows are.

    Attributes:
        num_shards: 1: a Ray actor holds the rows; 0: the algorithm's own process does.
        num_cpus_per_shard: CPUs that an actor asks Ray for.
        num_gpus_per_shard: GPUs (or a share of one) that an actor asks Ray for; with more than 0
            the tree has to run on it.
    """

    num_shards: int = 1
    num_cpus_per_shard: float = 0
    num_gpus_per_shard: float = 0

    def __post_init__(self) -> None:
        if self.num_shards not in (0, 1) or isinstance(self.num_shards, bool):
            raise ValueError(f"num_shards: got {self.num_shards!r}, expected 0 or 1")
        non_negative("num_cpus_per_shard", self.num_cpus_per_shard)
        non_negative("num_gpus_per_shard", self.num_gpus_per_shard)


@dataclass(frozen=True, slots=True)
class AdapterOptions:
    """How samples look to RLlib.

    Attributes:
        sample_format: `"rows"`: few episodes of many transitions each, which RLlib's own learner
            pieces read; `"episodes"`: RLlib's one-step episodes, for connectors that walk them.
    """

    sample_format: Literal["rows", "episodes"] = "rows"

    def __post_init__(self) -> None:
        if self.sample_format not in ("rows", "episodes"):
            raise ValueError(
                f"sample_format: got {self.sample_format!r}, expected 'rows' or 'episodes'"
            )


def split_options(
    options: dict[str, Any], *, also_known: Iterable[str]
) -> tuple[ReplayOptions, ShardOptions, AdapterOptions]:
    """Sorts keyword arguments by what they are for.

    Args:
        options: Keys and values as written in `replay_buffer_config`.
        also_known: Other keys, for the message about an unknown one.

    Raises:
        TypeError, ValueError: If a key is unknown or a value is wrong.
    """
    kinds = (ReplayOptions, ShardOptions, AdapterOptions)
    names = {f.name: kind for kind in kinds for f in fields(kind)}
    for key in options:
        if key not in names:
            known = [*names, *also_known]
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
            raise TypeError(
                f"replay_buffer_config: got the unknown key {key!r}, did you mean {near[0]!r}? "
                f"Known keys: {', '.join(sorted(known))}"
            )

    def of(kind: type) -> dict[str, Any]:
        return {key: value for key, value in options.items() if names[key] is kind}

    return (
        ReplayOptions(**of(ReplayOptions)),
        ShardOptions(**of(ShardOptions)),
        AdapterOptions(**of(AdapterOptions)),
    )
