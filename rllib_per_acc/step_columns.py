"""What is kept of every step, column by column, and what chunks bring for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.changes import Change
from rllib_per_acc.columns import Column, NumberColumn, OptionalColumn, Prepared, Rows
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.frame_column import FrameColumn


@dataclass(slots=True)
class ChunkValues:
    """Checked values of chunks, joined; what only steps have is None when there are none.

    Attributes:
        observations: L + 1 items of every chunk.
        infos: Likewise, as one object array; None where nothing was ever given.
        actions: L items of every chunk.
        rewards: Likewise, float64.
        extras: By name the outputs, and which of the steps have them.
    """

    observations: Prepared
    infos: Prepared | None = None
    actions: Prepared | None = None
    rewards: Prepared | None = None
    extras: dict[str, tuple[Prepared, NDArray[np.bool_]]] = field(default_factory=dict)

    def skip_observations(self, positions: list[int]) -> None:
        """Leaves out the observations (and infos) at `positions`: they are stored already."""
        self.observations = self.observations.without(positions)
        if self.infos:
            self.infos = self.infos.without(positions)


class StepColumns:
    """Observations, infos, actions, rewards and extra model outputs of all rows.

    Args:
        frame_stack: How many frames the last axis of observations has, to keep each frame once; 0
            where they are no stacks of frames.
    """

    def __init__(self, frame_stack: int = 0) -> None:
        self._dedup = frame_stack > 0
        self.observations = (
            FrameColumn("observations", frame_stack) if self._dedup else Column("observations")
        )
        self.infos = Column("infos")
        self.actions = Column("actions")
        self.rewards = NumberColumn("rewards", np.float64)
        self.extras: dict[str, OptionalColumn] = {}

    def __iter__(self) -> Iterator[Column]:
        yield from (self.observations, self.infos, self.actions, self.rewards)
        yield from self.extras.values()

    @property
    def nbytes(self) -> int:
        """Bytes allocated (what object columns point to is not counted)."""
        return sum(column.nbytes for column in self)

    def prepare(self, chunks: Sequence[EpisodeChunk]) -> ChunkValues:
        """The values of `chunks`, ready to be written.

        Raises:
            ValueError: If lengths, nesting or shapes do not fit each other or what is stored.
        """
        longer = [len(chunk) + 1 for chunk in chunks]
        values = ChunkValues(self.observations.prepare([c.observations for c in chunks], longer))
        if self.infos.leaves or any(any(chunk.infos or ()) for chunk in chunks):
            infos = [_info_array(c.infos, n) for c, n in zip(chunks, longer, strict=True)]
            values.infos = self.infos.prepare(infos, longer)
        acting = [chunk for chunk in chunks if len(chunk)]
        if acting:
            self._prepare_steps(acting, values)
        return values

    def _prepare_steps(self, chunks: list[EpisodeChunk], values: ChunkValues) -> None:
        lengths = [len(chunk) for chunk in chunks]
        values.actions = self.actions.prepare([c.actions for c in chunks], lengths)
        values.rewards = self.rewards.prepare([c.rewards for c in chunks], lengths)
        for key in {key: None for chunk in chunks for key in chunk.extra_model_outputs}:
            having = np.array([key in chunk.extra_model_outputs for chunk in chunks])
            outputs = [c.extra_model_outputs[key] for c in chunks if key in c.extra_model_outputs]
            values.extras[key] = (
                self._extra(key).prepare(outputs, np.array(lengths)[having].tolist()),
                np.repeat(having, lengths),
            )

    def _extra(self, key: str) -> OptionalColumn:
        return self.extras.get(key) or OptionalColumn(f"extra_model_outputs[{key!r}]")

    def plan(
        self,
        change: Change,
        freed: Rows,
        values: ChunkValues | None,
        observation_rows: Rows,
        step_rows: Rows,
        starts: list[int],
        allocated: int,
    ) -> None:
        """Plans to forget what rows held, and then to write, in columns of `allocated` rows.

        Args:
            change: Gets what is to be done.
            freed: The rows whose values go.
            values: What to write; None for nothing.
            observation_rows: Where observations and infos go.
            step_rows: Where the rest goes: the rows before those of observations, but for
            starts: Positions in `step_rows` of the first steps of episodes.
            allocated: Rows of the columns.
        """
        new_extras = values.extras if values else {}
        previous = np.insert(step_rows, starts, -1) if self._dedup and values else None

        def plan(column: Column, rows: Rows, prepared: Prepared | None, **more: Any) -> None:
            column.plan(change, freed, rows, prepared, allocated, **more)

        plan(
            self.observations,
            observation_rows,
            values.observations if values else None,
            previous=previous,
        )
        plan(self.infos, observation_rows, values.infos if values else None)
        plan(self.actions, step_rows, values.actions if values else None)
        plan(self.rewards, step_rows, values.rewards if values else None)
        for key, column in self.extras.items():
            if key not in new_extras:
                plan(column, step_rows, None)
        if new_extras:
            extras = dict(self.extras)
            for key, (outputs, having) in new_extras.items():
                extras[key] = self._extra(key)
                plan(extras[key], step_rows[having], outputs)
            change.let(self, "extras", extras)

    def bytes_per_step(self, values: ChunkValues) -> int:
        """What a step with such values takes (not what objects point to)."""
        pairs: list[tuple[Column, Prepared | None]] = [
            (self.observations, values.observations),
            (self.infos, values.infos),
            (self.actions, values.actions),
            (self.rewards, values.rewards),
            *((self._extra(key), outputs) for key, (outputs, _) in values.extras.items()),
        ]
        return sum(column.bytes_per_item(given) for column, given in pairs if given is not None)

    def reserve(self, num_rows: int) -> None:
        """Grows all columns to `num_rows` rows."""
        for column in self:
            column.reserve(num_rows)

    def take_infos(self, rows: Rows) -> np.ndarray:
        """The infos at `rows`: dicts in an object array of shape (B,)."""
        infos = np.empty(len(rows), object)
        stored = self.infos.take(rows) if self.infos.leaves else infos
        infos[:] = [info or {} for info in stored]
        return infos

    def take_extras(self, rows: Rows) -> dict[str, Any]:
        """The extra model outputs at `rows`, nested arrays of B items by name.

        Raises:
            ValueError: If one was given for some of these steps only.
        """
        taken = {}
        for key, column in self.extras.items():
            present = column.present.take(rows)
            if present.all():
                taken[key] = column.take(rows)
            elif present.any():
                raise ValueError(
                    f"{column.name}: got it for {present.sum()} of {len(rows)} sampled steps, "
                    "expected it for all of them or none"
                )
        return taken

    def state(self, num_rows: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Layouts by column name, and the arrays of the first `num_rows` rows as views."""
        layouts: dict[str, Any] = {"extras": list(self.extras)}
        arrays: dict[str, np.ndarray] = {}
        for column in self:
            layouts[column.name], of_column = column.state(num_rows)
            arrays |= of_column
        return layouts, arrays

    def restore(
        self, layouts: dict[str, Any], arrays: dict[str, np.ndarray], num_rows: int, allocated: int
    ) -> None:
        """Takes what another's `state` returned into these new columns of `allocated` rows.

        Raises:
            ValueError: If an array is missing, or is none of `num_rows` items that fits its column.
        """
        self.extras = {key: self._extra(key) for key in layouts["extras"]}
        for column in self:
            column.restore(layouts[column.name], arrays, num_rows, allocated)


def _info_array(infos: Sequence[Any] | None, length: int) -> np.ndarray:
    """The infos as an object array; an empty one is kept as None."""
    array = np.empty(length, object)
    if infos is not None:
        if len(infos) != length:
            raise ValueError(f"infos: got {len(infos)} items, expected {length} items")
        array[:] = [info or None for info in infos]
    return array
