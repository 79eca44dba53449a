"""Sampled rows as row groups."""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np

from rllib_per_acc.replay_batch import ReplayBatch
from rllib_per_acc.rllib.row_group import NOBODY, Owner, RowGroup
from rllib_per_acc.rllib.send_record import SendRecord


def row_groups(batch: ReplayBatch, owner: Owner = NOBODY) -> tuple[list[RowGroup], SendRecord]:
    """The rows of a batch as few row groups, and the record of where they are sent.

    Args:
        batch: B sampled rows.
        owner: What the groups say whose they are.
    """
    num_ending = int(np.count_nonzero(batch.terminateds | batch.truncateds))  # the last ones
    cuts = range(len(batch) - max(num_ending, 1) + 1, len(batch) + 1)
    columns = batch.columns | {
        "extra_model_outputs": {
            "weights": batch.weights,
            "n_step": batch.n_step,
            **batch.columns.get("extra_model_outputs", {}),
        }
    }
    record = SendRecord(len(batch))
    id_ = os.urandom(12).hex()
    return [
        RowGroup(f"{id_}{start:08x}", columns, range(start, stop), record, owner)
        for start, stop in pairwise([0, *cuts])
    ], record


def join_neighbours(groups: list[RowGroup]) -> list[RowGroup]:
    """The same rows in fewer groups: those that follow each other in one batch become one.

    Only for reading columns: a joined group has the end flags of its last part.
    """
    joined = []
    first = 0
    for last, (group, after) in enumerate(zip(groups, [*groups[1:], None], strict=True)):
        if (
            after is None
            or after._columns is not group._columns
            or after._positions.start != group._positions.stop
        ):
            head = groups[first]
            positions = range(head._positions.start, group._positions.stop)
            joined.append(RowGroup(head.id_, head._columns, positions, None, head.owner))
            first = last + 1
    return joined
