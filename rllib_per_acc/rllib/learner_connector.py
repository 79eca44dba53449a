"""The learner connector piece that hands row groups over as whole columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.utils.spaces.space_utils import BatchedNdArray

from rllib_per_acc.rllib.batch import join_neighbours
from rllib_per_acc.rllib.row_group import NOBODY, RowGroup
from rllib_per_acc.structures import map_leaves

_READS: dict[str, Callable[[RowGroup], Any]] = {
    Columns.OBS: lambda group: group.get_observations(slice(0, len(group))),
    Columns.NEXT_OBS: lambda group: group.get_observations(slice(1, len(group) + 1)),
    Columns.ACTIONS: RowGroup.get_actions,
    Columns.REWARDS: RowGroup.get_rewards,
}
_FLAGS = {Columns.TERMINATEDS: "is_terminated", Columns.TRUNCATEDS: "is_truncated"}


class AddRowGroupsToTrainBatch(ConnectorV2):
    """Adds the columns of row groups to the train batch, in one go.

    RLlib's default pieces do the same group by group and flag by flag. They leave columns alone
    that are there already, as this piece does with those of the pieces before it, so the train
    batch is the same with and without it. Other episodes are left to RLlib's pieces.
    """

    def __call__(self, *, batch: dict[str, Any], episodes: list[Any], **_: Any) -> dict[str, Any]:
        groups = list(self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False))
        if not groups or not all(isinstance(group, RowGroup) for group in groups):
            return batch
        present = set(batch)
        for module_groups in _by_module(groups):
            self._add(batch, present, module_groups)
        return batch

    def _add(self, batch: dict[str, Any], present: set[str], groups: list[RowGroup]) -> None:
        """Adds the rows of one module (or the only one), but for the columns that are present."""
        first = groups[0]
        key = (first.id_,) if first.owner == NOBODY else tuple(first.owner)
        joined = join_neighbours(groups)
        for column, read in _READS.items():
            if column not in present:
                items = [_batched(read(group)) for group in joined]
                batch.setdefault(column, {})[key] = items
        last = np.cumsum([len(group) for group in groups]) - 1
        for column, flag in _FLAGS.items():
            if column not in present:
                flags = np.zeros(last[-1] + 1, bool)
                flags[last] = [getattr(group, flag) for group in groups]
                batch.setdefault(column, {})[key] = [_batched(flags)]
        skipped = present | {Columns.STATE_IN, Columns.STATE_OUT}
        for group in groups:
            for column, outputs in group.extra_model_outputs.items():
                if column not in skipped:
                    by_key = batch.setdefault(column, {})
                    by_key.setdefault(key, []).append(_batched(outputs))


def _by_module(groups: list[RowGroup]) -> list[list[RowGroup]]:
    modules: dict[Any, list[RowGroup]] = {}
    for group in groups:
        modules.setdefault(group.owner, []).append(group)
    return list(modules.values())


def _batched(struct: Any) -> Any:
    """Arrays marked for RLlib as having a batch dimension."""
    return map_leaves(BatchedNdArray, struct)
