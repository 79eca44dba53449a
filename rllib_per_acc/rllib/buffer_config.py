"""The keys of `replay_buffer_config`: which there are, and which go where."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from rllib_per_acc.replay_options import (
    ReplayOptions,
    check_choices,
    non_negative,
    non_negative_int,
    positive_int,
)
from rllib_per_acc.shards.shard_options import ShardOptions

OWN_KEYS = (
    "capacity",
    "batch_size_B",
    "batch_length_T",
    "alpha",
    "metrics_num_episodes_for_smoothing",
)
"""The arguments of the buffer's constructor that have a name there."""


@dataclass(frozen=True, slots=True)
class AdapterOptions:
    """How samples look to RLlib.

    Attributes:
        sample_format: `"rows"`: few episodes of many transitions each, which RLlib's own learner
            pieces read; `"episodes"`: RLlib's one-step episodes, for connectors that walk them.
            Sequences for stateful modules are episodes with both.
        include_infos: Whether all samples hold the infos, also where `sample` is not asked for
            them (`algorithm.train()` never asks).
        include_extra_model_outputs: Likewise what the module computed beside the actions.
        lookback: How many steps come before each sampled transition, with `"episodes"`: for
            connectors that look back. Never steps of another episode; fewer where it begins.
        eta: A sequence gets the priority `eta * max + (1 - eta) * mean` of the absolute TD errors
            of its steps, from 0 to 1.
    """

    sample_format: Literal["rows", "episodes"] = "rows"
    include_infos: bool = False
    include_extra_model_outputs: bool = False
    lookback: int = 0
    eta: float = 0.9

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("include_infos", "include_extra_model_outputs"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name}: got {getattr(self, name)!r}, expected True or False")
        if non_negative_int("lookback", self.lookback) and self.sample_format == "rows":
            raise ValueError(
                f"lookback: got {self.lookback} with sample_format='rows', whose rows do not "
                "follow each other; expected 0, or sample_format='episodes'"
            )
        if non_negative("eta", self.eta) > 1.0:
            raise ValueError(f"eta: got {self.eta}, expected a number from 0 to 1")


_KINDS = (ReplayOptions, ShardOptions, AdapterOptions)
_KIND_OF = {f.name: kind for kind in _KINDS for f in fields(kind)}


def check_keys(keys: Iterable[str], known: Iterable[str] = (*_KIND_OF, *OWN_KEYS)) -> None:
    """Checks that all keys are known.

    Raises:
        TypeError: If one is not; the nearest known one is named.
    """
    known = sorted(set(known))
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
            raise TypeError(
                f"replay_buffer_config: got the unknown key {key!r}, did you mean {near[0]!r}? "
                f"Known keys: {', '.join(known)}"
            )


def split_options(options: dict[str, Any]) -> tuple[ReplayOptions, ShardOptions, AdapterOptions]:
    """Sorts the constructor's keyword arguments by what they are for.

    Args:
        options: Keys and values as written in `replay_buffer_config`.

    Raises:
        TypeError, ValueError: If a key is unknown or a value is wrong.
    """
    check_keys(options)
    return (
        ReplayOptions(**_of(ReplayOptions, options)),
        ShardOptions(**_of(ShardOptions, options)),
        AdapterOptions(**_of(AdapterOptions, options)),
    )


def check_buffer_config(config: dict[str, Any]) -> None:
    """Checks all keys and values of a `replay_buffer_config`.

    Raises:
        TypeError, ValueError: If a key is unknown or a value is wrong.
    """
    options = {key: value for key, value in config.items() if key != "type"}
    split_options(options)
    for key in ("capacity", "batch_size_B", "metrics_num_episodes_for_smoothing"):
        positive_int(key, options.get(key, 1))


def shard_bundles(config: dict[str, Any]) -> list[dict[str, float]]:
    """What the shards of a `replay_buffer_config` ask of a placement group; see `ShardOptions`."""
    return ShardOptions(**_of(ShardOptions, config)).bundles()


def _of(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if _KIND_OF.get(key) is kind}
