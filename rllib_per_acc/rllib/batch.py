"""Sampled rows as RLlib episodes that hold many transitions: row groups.

RLlib's learner pieces read an episode of n steps by `get_observations(slice(0, n))` for the
observations, `slice(1, n + 1)` for the next ones, and take the end flags for its last step. A row
group answers just these reads from columns, so its rows need not follow each other; it is cut
after every row that ends an episode, so that the flags are right.
"""

from __future__ import annotations

from functools import cached_property
from itertools import count, pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_per_acc.replay_batch import ReplayBatch
from rllib_per_acc.rllib.send_record import SendRecord
from rllib_per_acc.structures import map_leaves

_batches = count()


class Owner(NamedTuple):
    """Whose a row is, where there are several agents: RLlib's connectors look for it.

    Attributes:
        multi_agent_episode_id: Of the episode that the agent is in.
        agent_id: Of the agent.
        module_id: Of the module that acts for it.
    """

    multi_agent_episode_id: Any
    agent_id: Any
    module_id: Any


NOBODY = Owner(None, None, None)


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
    id_ = f"{next(_batches):024x}"
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


def _received(id_: str, columns: dict[str, Any], owner: Owner) -> RowGroup:
    """A row group on the learner's side."""
    return RowGroup(id_, columns, range(len(columns["rewards"])), None, owner)


class RowGroup(SingleAgentEpisode):
    """Transitions in columns, read by RLlib's learner connector pieces like one episode.

    Reads that need neighbouring time steps (single items, lookback, other slices of observations)
    raise a `ValueError` that names `sample_format="episodes"`.
    """

    t_started = 0

    def __init__(
        self,
        id_: str,
        columns: dict[str, Any],
        positions: range,
        record: SendRecord | None,
        owner: Owner,
    ) -> None:
        # RLlib's constructor builds buffers of time steps, which this class replaces. What is read
        # once or never is not made ahead: there is a row group for every row that ends an episode.
        self.id_ = id_
        self.owner = owner
        self._custom_data: dict[str, Any] = {}
        self._columns = columns
        self._positions = positions
        self._record = record

    @cached_property
    def is_terminated(self) -> bool:
        """Whether the last row ends a terminated episode."""
        return self._flag("terminateds")

    @cached_property
    def is_truncated(self) -> bool:
        """Whether the last row ends a truncated episode."""
        return self._flag("truncateds")

    def _flag(self, name: str) -> bool:
        return bool(self._positions) and self._columns[name].item(self._positions[-1])

    @property
    def multi_agent_episode_id(self) -> Any:
        """See `Owner`; so the next two."""
        return self.owner.multi_agent_episode_id

    @property
    def agent_id(self) -> Any:
        return self.owner.agent_id

    @property
    def module_id(self) -> Any:
        return self.owner.module_id

    @property
    def t(self) -> int:
        """How many rows there are."""
        return len(self._positions)

    @cached_property
    def extra_model_outputs(self) -> dict[str, Any]:
        """`weights`, `n_step` and the stored model outputs, n rows each."""
        outputs = self._columns["extra_model_outputs"]
        return {key: self._cut(output) for key, output in outputs.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        if self._record is not None:
            self._record.log(self._positions)
        columns = {name: self._column(name) for name in self._columns}
        return _received, (self.id_, columns, self.owner)

    def __copy__(self) -> RowGroup:
        return self._piece(0, len(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> RowGroup:
        return self._piece(0, len(self))

    def __repr__(self) -> str:
        return f"RowGroup({len(self)} transitions, done={self.is_done})"

    def validate(self) -> None:
        """Nothing to check: the columns come from one batch."""

    @property
    def is_reset(self) -> bool:
        """Whether there are observations: always."""
        return True

    @property
    def is_numpy(self) -> bool:
        """Whether the data are arrays: always."""
        return True

    def to_numpy(self) -> RowGroup:
        """This row group: its data are arrays already."""
        return self

    def slice(self, slice_: slice, *, len_lookback_buffer: int | None = None) -> RowGroup:
        """Some of the rows in a row, as RLlib deals them to learners; there is no lookback."""
        start, stop, step = slice_.indices(len(self))
        if step != 1:
            self._refuse(f"slice({slice_})")
        return self._piece(start, max(start, stop))

    def _piece(self, start: int, stop: int) -> RowGroup:
        return RowGroup(
            f"{self.id_[:24]}{self._positions.start + start:08x}",
            self._columns,
            self._positions[start:stop],
            self._record,
            self.owner,
        )

    def _cut(self, column: Any) -> Any:
        start, stop = self._positions.start, self._positions.stop
        return map_leaves(lambda leaf: leaf[start:stop], column)

    def _column(self, name: str) -> Any:
        """The rows of this group in a column."""
        if name == "extra_model_outputs":
            return self.extra_model_outputs
        return self._cut(self._columns[name])

    def get_observations(self, indices: Any = None, **options: Any) -> Any:
        """Observations for `slice(0, n)`, next observations for `slice(1, n + 1)`, n rows."""
        return self._before_or_after("observations", indices, options)

    def get_infos(self, indices: Any = None, **options: Any) -> Any:
        """Infos for `slice(0, n)`, next infos for `slice(1, n + 1)`, n rows."""
        if "infos" not in self._columns:
            self._refuse("get_infos (sampled without include_infos)")
        return list(self._before_or_after("infos", indices, options))

    def _before_or_after(self, name: str, indices: Any, options: dict[str, Any]) -> Any:
        if isinstance(indices, slice) and indices.step in (None, 1) and not any(options.values()):
            if (indices.start or 0, indices.stop) == (0, len(self)):
                return self._column(name)
            if indices.start == 1 and indices.stop in (None, len(self) + 1):
                return self._column(f"next_{name}")
        return self._refuse(f"get_{name}({indices})")

    def get_actions(self, indices: Any = None, **options: Any) -> Any:
        """Actions of some rows."""
        return self._rows(self._column("actions"), "get_actions", indices, options)

    def get_rewards(self, indices: Any = None, **options: Any) -> Any:
        """Discounted n-step rewards of some rows, float64."""
        return self._rows(self._column("rewards"), "get_rewards", indices, options)

    def get_extra_model_outputs(self, key: str, indices: Any = None, **options: Any) -> Any:
        """`weights`, `n_step` or a stored model output of some rows."""
        outputs = self.extra_model_outputs[key]
        return self._rows(outputs, "get_extra_model_outputs", indices, options)

    def _rows(self, column: Any, method: str, indices: Any, options: dict[str, Any]) -> Any:
        if any(options.values()):
            self._refuse(f"{method}({indices}, {options})")
        if indices is None:
            return column
        if isinstance(indices, slice):
            bounds = [b for b in (indices.start, indices.stop) if b is not None]
            if any(abs(b) > len(self) for b in bounds):
                self._refuse(f"{method}({indices})")
        return map_leaves(lambda leaf: leaf[indices], column)

    def get_return(self) -> float:
        """Not known: rows of different episodes."""
        self._refuse("get_return")

    def _refuse(self, read: str) -> NoReturn:
        refuse_read(f"a row group of {len(self)} sampled transitions", read)

    def __getattr__(self, name: str) -> Any:
        if name in SingleAgentEpisode.__slots__:
            self._refuse(f"`{name}`")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def refuse_read(of: str, read: str) -> NoReturn:
    """Says that rows of columns cannot be read like that.

    Raises:
        ValueError: Always.
    """
    raise ValueError(
        f"{of} cannot answer {read}: its rows do not follow each other. Set "
        'replay_buffer_config={"sample_format": "episodes", ...} for connectors that walk through '
        "episodes."
    )
