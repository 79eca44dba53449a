"""States of rings in the form of RLlib's `PrioritizedReplayBuffer.get_state`, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.policy.sample_batch import SampleBatch, concat_samples

from rllib_per_acc.descriptions import (
    anything,
    array,
    boolean,
    dict_of,
    instance_of,
    integer,
    number,
    or_none,
    random_state,
    record,
)
from rllib_per_acc.rllib.old_stack.sample_batches import ItemFormat, TimestepFormat, is_plain
from rllib_per_acc.saved_rows import check_masses_at
from rllib_per_acc.segment_tree import MinSegmentTree, SumSegmentTree

_check_state = record(
    {
        "_storage": instance_of((list, SampleBatch), "a list or a SampleBatch"),
        "num_entries": integer(),
        "sum_segment_tree": anything,
        "sampled_count": integer(),
        "max_priority": number(),
        **dict.fromkeys(("_next_idx", "added_count", "added_count_wrapped"), integer()),
        "eviction_started": boolean,
    },
    {
        "more": record(
            {"capacity": integer(1)}, {"grad_updates": or_none(array(np.float64, (None,)))}
        )
    },
)

Format = TimestepFormat | ItemFormat | None

_OF_RLLIB = {
    "_next_idx": "next_slot",
    "added_count": "steps_added",
    "added_count_wrapped": "steps_since_wrap",
    "eviction_started": "is_evicting",
}
"""RLlib's name of a number in the state of a ring."""


def to_rllib(state: dict[str, Any], format_: Format) -> dict[str, Any]:
    """The state of a ring under RLlib's keys, with more beside them.

    `_storage` is a list of items as in RLlib, or for time steps one `SampleBatch` of all rows,
    which RLlib would have as `_storage.timeslices(1)`.
    """
    ring, masses = state["ring"], state["masses"]["masses"]
    storage: Any = []
    if format_ is not None and len(masses):
        storage = format_.items_of(state["columns"])
    num_leaves = 1 << (state["capacity"] - 1).bit_length()
    trees = {}
    for name, kind in (("sum", SumSegmentTree), ("min", MinSegmentTree)):
        tree = kind(max(num_leaves, len(masses)))
        tree[np.arange(len(masses))] = masses
        trees[f"{name}_segment_tree"] = np.array(tree.get_state())
    return {
        "_storage": storage,
        **{theirs: ring[ours] for theirs, ours in _OF_RLLIB.items()},
        "sampled_count": state["steps_sampled"],
        "est_size_bytes": int(ring["sizes"].sum()),
        "num_entries": len(masses),
        **trees,
        "max_priority": state["sampler"]["lifetime_max_priority"],
        "more": {
            "capacity": state["capacity"],
            "hits": ring["hits"],
            "sizes": ring["sizes"],
            "sampler": state["sampler"],
            "masses": state["masses"],
            "rng": state["rng"],
            "grad_updates": TimestepFormat.grad_updates_of(state["columns"]),
        },
    }


def from_rllib(
    state: dict[str, Any], capacity: int, alpha: float, in_timesteps: bool
) -> tuple[dict[str, Any], Format]:
    """The state of a ring, from `to_rllib` or from RLlib's own `get_state`.

    Args:
        state: Under RLlib's keys.
        capacity: Of the ring that RLlib's state is for: it says nothing of its own.
        alpha: Likewise.
        in_timesteps: Whether items of one plain time step are to be rows of columns.

    Returns:
        The state, and how its rows are batches.

    Raises:
        ValueError: If it is not such a state.
    """
    _check_state("state", state)
    storage, more = state["_storage"], state.get("more", {})
    n = state["num_entries"]
    format_: Format = None
    columns: dict[str, Any] = {}
    counts, sizes = np.ones(n, np.int64), np.zeros(n, np.int64)
    if isinstance(storage, list) and storage:
        sizes = np.array([item.size_bytes() for item in storage])
        if in_timesteps and all(is_plain(item) and item.count == 1 for item in storage):
            updates = [item.num_grad_updates for item in storage]
            more = {"grad_updates": np.array(updates, np.float64)} | more
            storage = concat_samples(storage)
        else:
            format_ = ItemFormat()
            rows = format_.rows_of(storage)
            columns, counts = dict(rows.columns), rows.counts
    if isinstance(storage, SampleBatch):
        format_ = TimestepFormat(storage)
        columns = dict(format_.rows_of(storage, more["grad_updates"]).columns)
    tree = np.asarray(state["sum_segment_tree"], np.float64)
    if not more and len(tree) != 2 << (capacity - 1).bit_length():
        capacity = len(tree) // 2  # of another buffer: its rows are taken in one by one
    restored = {
        "capacity": more.get("capacity", capacity),
        "ring": {
            **{ours: state[theirs] for theirs, ours in _OF_RLLIB.items()},
            "counts": counts,
            "sizes": more.get("sizes", sizes),
            "hits": more.get("hits", np.zeros(n)),
        },
        "columns": columns,
        "sampler": more.get(
            "sampler",
            {"alpha": alpha, "lifetime_max_priority": state["max_priority"], "num_lifted": 0},
        ),
        "masses": more.get("masses", {"masses": tree[len(tree) // 2 :][:n].copy()}),
        "steps_sampled": state["sampled_count"],
        "rng": more.get("rng"),
    }
    _check_ring(restored, n)
    if n and not columns:
        raise ValueError(f"state._storage: got no items, expected {n}")
    return restored, format_


def _check_ring(state: dict[str, Any], n: int) -> None:
    """Checks all but the columns of the state of a ring of n rows."""
    of_rows = {"counts": array(np.int64, (n,)), "sizes": array(np.int64, (n,))}
    record(
        {
            "capacity": integer(1),
            "ring": record(
                {
                    "next_slot": integer(0, n),
                    "steps_added": integer(),
                    "steps_since_wrap": integer(0, state["capacity"]),
                    "is_evicting": boolean,
                    "hits": array(np.float64, (n,)),
                    **of_rows,
                }
            ),
            "sampler": dict_of(anything),
            "masses": record({"masses": array(np.float64, (n,))}),
            "steps_sampled": integer(),
            "rng": or_none(random_state),
        }
    )("state", state)
    check_masses_at(state["masses"], np.ones(n, np.bool_))
    if (state["ring"]["counts"] < 1).any() or (state["ring"]["sizes"] < 0).any():
        raise ValueError("state.ring: got counts or sizes below 1 or 0, expected those of rows")
