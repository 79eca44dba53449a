"""Starting shards where they were asked to be, or saying why that is impossible."""

from __future__ import annotations

from typing import Any

import ray
from ray.actor import ActorHandle
from ray.util.placement_group import get_current_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rllib_per_acc.ray_versions import warn_if_newer
from rllib_per_acc.shards.shard_options import ShardOptions

PLACEMENT_TIMEOUT_S = 60.0
"""How long a shard may take to be placed and to start, the first time and after it died."""


class ShardPlacementError(RuntimeError):
    """A shard could not be started where it was asked to be, or not in time."""


def start_shard(
    capacity: int | None, options: dict[str, Any], shard_options: ShardOptions, shard_class: type
) -> ActorHandle:
    """Asks Ray for a shard, which lives as long as the process that calls this.

    Args:
        capacity: Steps for the shard to keep; None: it is told what to evict.
        options: Its `ReplayOptions`.
        shard_options: Where it is to be.
        shard_class: `ReplayShard` or a class derived from it.

    Raises:
        ShardPlacementError: If Ray says at once that there is no room for it.
    """
    warn_if_newer(ray.__version__)
    actor_class = ray.remote(shard_class).options(
        num_cpus=shard_options.num_cpus_per_shard,
        num_gpus=shard_options.num_gpus_per_shard,
        resources=dict(shard_options.resources_per_shard),
        max_restarts=-1 if shard_options.restart_failed_shards else 0,
        **_strategy(shard_options),
    )
    options = options | {"device": shard_options.device(options["device"])}
    try:
        return actor_class.remote(capacity, options)
    except (RuntimeError, ValueError) as error:  # there is no bundle that is large enough
        raise ShardPlacementError(f"{error}\n{asked_and_there(shard_options)}") from error


def _strategy(shard_options: ShardOptions) -> dict[str, Any]:
    if shard_options.resources() and get_current_placement_group() is not None:
        return {}  # the group was made for them
    if shard_options.shard_placement == "spread":
        return {"scheduling_strategy": "SPREAD"}
    node = ray.get_runtime_context().get_node_id()
    if shard_options.resources():
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}
    # Ray 2.60 lets any node place an actor that asks for nothing, also one that has not yet heard
    # of the node that is wished for, and then puts it elsewhere (or, without `soft`, gives up at
    # once). One that asks for a byte is placed by the node of its owner, which knows itself.
    return {
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=True),
        "memory": 1,
    }


def asked_and_there(shard_options: ShardOptions) -> str:
    """What the shards ask for, and what the cluster and the placement group have."""
    group = get_current_placement_group()
    lines = [
        f"Asked for num_shards={shard_options.num_shards}, each with "
        f"{shard_options.resources() or 'no resources'}, "
        f"shard_placement={shard_options.shard_placement!r}.",
        f"The cluster has {_rounded(ray.cluster_resources())}, "
        f"of which are free {_rounded(ray.available_resources())}.",
    ]
    if shard_options.shard_placement == "colocated":
        node = ray.get_runtime_context().get_node_id()
        here = [n["Resources"] for n in ray.nodes() if n["NodeID"] == node and n["Alive"]]
        lines.append(f"The algorithm's node has {_rounded(here[0]) if here else 'gone'}.")
    if group is not None:
        lines.append(
            f"The placement group has the bundles {group.bundle_specs}: shards that ask for "
            "resources need bundles of their own there (rllib_per_acc.enable() adds them), and "
            "shards that ask for none (num_cpus_per_shard=0) always fit."
        )
    return "\n".join(lines)


def _rounded(resources: dict[str, float]) -> dict[str, float]:
    """Without the resources that every node has, and in which memory is too long to read."""
    return {
        name: round(amount, 2)
        for name, amount in sorted(resources.items())
        if not name.startswith(("node:", "memory", "object_store_memory"))
    }
