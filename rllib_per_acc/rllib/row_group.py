"""RowGroup: an RLlib episode that holds many transitions.

RLlib's learner pieces read an episode of n steps by `get_observations(slice(0, n))` for the
observations, `slice(1, n + 1)` for the next ones, and take the end flags for its last step. A row
group answers just these reads from columns, so its rows need not follow each other; it is cut
after every row that ends an episode, so that the flags are right. What belongs to single steps can
be written, too: RLlib's curiosity connectors add to rewards.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_per_acc.rllib.send_record import SendRecord
from rllib_per_acc.structures import flatten, layout_of, map_leaves


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


def _received(id_: str, columns: dict[str, Any], owner: Owner) -> RowGroup:
    """A row group on the learner's side."""
    return RowGroup(id_, columns, range(len(columns["rewards"])), None, owner)


class RowGroup(SingleAgentEpisode):
    """Transitions in columns, read by RLlib's learner connector pieces like one episode.

    Reads that need neighbouring time steps (single items, lookback, other slices of observations)
    raise a `ValueError` that names `sample_format="episodes"`. Writes reach whoever shares the rows
    (slices and shallow copies, as in RLlib's episodes of arrays).
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

    @t.setter
    def t(self, _: int) -> None:
        self._refuse("a change of its length")

    @property
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
        columns = copy.deepcopy(self._columns, memo)
        return RowGroup(self.id_, columns, self._positions, self._record, self.owner)

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
            raise ValueError(
                "get_infos: this sample holds no infos; set "
                'replay_buffer_config={"include_infos": True, ...}'
            )
        return list(self._before_or_after("infos", indices, options))

    def _before_or_after(self, name: str, indices: Any, options: dict[str, Any]) -> Any:
        n = len(self)
        asked = not any(options.values()) and _without_filling(indices, n + 1)
        if asked == range(n):
            return self._column(name)
        if asked == range(1, n + 1):
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
        outputs = self._cut(self._outputs(key)[key])
        return self._rows(outputs, "get_extra_model_outputs", indices, options)

    def _outputs(self, key: str) -> dict[str, Any]:
        """The extra model outputs of the batch, among them `key`."""
        outputs: dict[str, Any] = self._columns["extra_model_outputs"]
        if key not in outputs:
            raise KeyError(
                f"{key!r}: this sample holds {list(outputs)}; for those that were stored set "
                'replay_buffer_config={"include_extra_model_outputs": True, ...}'
            )
        return outputs

    def _rows(self, column: Any, method: str, indices: Any, options: dict[str, Any]) -> Any:
        if any(options.values()):
            self._refuse(f"{method}({indices}, {options})")
        if indices is None:
            return column
        if isinstance(indices, slice) and _without_filling(indices, len(self)) is None:
            self._refuse(f"{method}({indices})")
        return map_leaves(lambda leaf: leaf[indices], column)

    def set_actions(self, *, new_data: Any, at_indices: Any = None, **options: Any) -> None:
        """Overwrites the actions of some rows."""
        self._write(self._columns, "actions", new_data, at_indices, options)

    def set_rewards(self, *, new_data: Any, at_indices: Any = None, **options: Any) -> None:
        """Overwrites the rewards of some rows."""
        self._write(self._columns, "rewards", new_data, at_indices, options)

    def set_extra_model_outputs(
        self, *, key: str, new_data: Any, at_indices: Any = None, **options: Any
    ) -> None:
        """Overwrites `weights`, `n_step` or a stored model output of some rows."""
        self._write(self._outputs(key), key, new_data, at_indices, options)

    def set_observations(self, **_: Any) -> None:
        """Not possible: an observation belongs to two steps in an episode, but to one row here."""
        self._refuse("set_observations")

    def _write(
        self, columns: dict[str, Any], name: str, values: Any, indices: Any, options: dict[str, Any]
    ) -> None:
        if any(options.values()):
            self._refuse(f"set_{name}({indices}, {options})")
        rows = np.arange(self._positions.start, self._positions.stop)
        rows = rows if indices is None else rows[indices]
        # Arrays out of Ray's object store are read-only; all pieces of the batch get the copy.
        columns[name] = column = map_leaves(_writable, columns[name])
        layout = layout_of(column)
        leaves = flatten(column, layout, name)
        for leaf, value in zip(leaves, flatten(values, layout, "new_data"), strict=True):
            leaf[rows] = value

    def get_return(self) -> float:
        """Not known: rows of different episodes."""
        self._refuse("get_return")

    def _refuse(self, read: str) -> NoReturn:
        refuse_read(f"a row group of {len(self)} sampled transitions", read)

    def __getattr__(self, name: str) -> Any:
        if name in SingleAgentEpisode.__slots__:
            self._refuse(f"`{name}`")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def _writable(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable else array.copy()


def _without_filling(indices: Any, length: int) -> range | None:
    """What a slice of `length` items means, if it is one and they are all there, in order."""
    if not isinstance(indices, slice) or indices.step not in (None, 1):
        return None
    bounds = [bound for bound in (indices.start, indices.stop) if bound is not None]
    if any(abs(bound) > length for bound in bounds):
        return None
    return range(length)[indices]


def refuse_read(of: str, read: str) -> NoReturn:
    """Says that rows of columns cannot be read like that.

    Raises:
        ValueError: Always.
    """
    raise ValueError(
        f"{of} cannot answer {read}: its rows do not follow each other. Set "
        'replay_buffer_config={"sample_format": "episodes", ...} for connectors that walk through '
        'episodes, and for those that look back "lookback" to the number of steps that they read.'
    )
