"""How many shards there are, where they are, and how they are talked to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rllib_per_acc.replay_options import check_choices, non_negative, non_negative_int


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """Where the rows are.

    Attributes:
        num_shards: How many Ray actors hold the rows; 0: the algorithm's own process does.
        num_cpus_per_shard: CPUs that an actor asks Ray for.
        num_gpus_per_shard: GPUs (or a share of one) that an actor asks Ray for; with more than 0
            its tree has to run on it.
        resources_per_shard: Custom resources that an actor asks Ray for, by name.
        shard_placement: `"colocated"`: on the algorithm's node; `"spread"`: over the cluster.
            Inside a placement group (a Tune trial) shards that ask for resources go to the group's
            bundles instead.
        prefetch: How many batches to have drawn before they are asked for. Their priorities are
            as of that draw.
        restart_failed_shards: Whether a shard that dies is started again, empty; otherwise its
            death is an error.
    """

    num_shards: int = 1
    num_cpus_per_shard: float = 0
    num_gpus_per_shard: float = 0
    resources_per_shard: Mapping[str, float] = field(default_factory=dict)
    shard_placement: Literal["colocated", "spread"] = "colocated"
    prefetch: int = 0
    restart_failed_shards: bool = True

    def __post_init__(self) -> None:
        non_negative_int("num_shards", self.num_shards)
        non_negative("num_cpus_per_shard", self.num_cpus_per_shard)
        non_negative("num_gpus_per_shard", self.num_gpus_per_shard)
        if not isinstance(self.resources_per_shard, Mapping):
            raise TypeError(
                f"resources_per_shard: got {self.resources_per_shard!r}, "
                "expected a dict of numbers by name"
            )
        for name, value in self.resources_per_shard.items():
            if not isinstance(name, str) or not name:
                raise TypeError(
                    f"resources_per_shard: got the name {name!r}, expected a string that is not "
                    "empty"
                )
            if name in ("CPU", "GPU"):
                raise ValueError(
                    f"resources_per_shard: got {name!r}, expected custom resources: "
                    f"use num_{name.lower()}s_per_shard"
                )
            non_negative(f"resources_per_shard[{name!r}]", value)
        check_choices(self)
        if non_negative_int("prefetch", self.prefetch) and not self.num_shards:
            raise ValueError(
                f"prefetch: got {self.prefetch} with num_shards=0, expected 0: without shards "
                "nothing can draw while the learner works"
            )
        if not isinstance(self.restart_failed_shards, bool):
            raise TypeError(
                f"restart_failed_shards: got {self.restart_failed_shards!r}, expected a bool"
            )

    def resources(self) -> dict[str, float]:
        """What each shard asks for, by Ray's names; empty where it asks for nothing."""
        asked = {
            "CPU": self.num_cpus_per_shard,
            "GPU": self.num_gpus_per_shard,
            **self.resources_per_shard,
        }
        return {name: amount for name, amount in asked.items() if amount}

    def bundles(self) -> list[dict[str, float]]:
        """A bundle of a placement group for each shard; none where they ask for nothing."""
        return [self.resources() for _ in range(self.num_shards)] if self.resources() else []

    def device(self, device: str) -> Any:
        """The device of a shard's tree, given the one that the user named.

        Raises:
            ValueError: If they exclude each other.
        """
        if self.num_gpus_per_shard and device == "cpu":
            raise ValueError(
                f"device: got 'cpu' with num_gpus_per_shard={self.num_gpus_per_shard}, "
                "expected 'gpu' or 'auto'"
            )
        if device == "auto":
            # A GPU that Ray has not given to the shard is somebody else's.
            return "gpu" if self.num_gpus_per_shard else "cpu"
        return device
