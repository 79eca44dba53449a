"""Transitions: steps in linked rows, read n steps at a time.

A step takes one row: its observation, action, reward and what else came with it. The observation
after the last step of an episode has a row of its own (the *tail*), which becomes the row of the
next step when the episode goes on. So each observation is stored once, and "the observation n
steps later" is n links away however chunks of different episodes interleave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc._core import follow_links, num_distinct, serve_rows
from rllib_per_acc.columns import Column, Rows
from rllib_per_acc.episode_table import EpisodeTable
from rllib_per_acc.replay_options import LONGEST
from rllib_per_acc.row_pool import RowPool
from rllib_per_acc.step_columns import StepColumns
from rllib_per_acc.threads import AllOrNothing, serialized

NEXT, SLOT, T = range(3)
"""In the links of a row: the row of the next step, -1 for a tail; its episode's slot; how many
stored steps of the episode come before it."""


class Located(NamedTuple):
    """Rows of steps, and where in their episodes they are.

    Attributes:
        rows: Row numbers, int32 of shape (B,).
        slots: The slots of their episodes, int32.
        t: How many stored steps of the episode come before each, int32.
        left: How many stored steps of the episode there are from each on, itself included, int32.
    """

    rows: Rows
    slots: NDArray[np.int32]
    t: NDArray[np.int32]
    left: NDArray[np.int32]

    def take(self, positions: NDArray[np.intp]) -> Located:
        """Some of the rows."""
        return Located(*(values.take(positions) for values in self))


class Transitions(NamedTuple):
    """Transitions that begin at stored steps; those that end with their episode come last.

    Attributes:
        rows: Rows of the steps, int32 of shape (B,).
        generations: Of these rows, uint32.
        slots: The slots of their episodes, int32.
        t: The time step in the episode of each, int64.
        n_step: Steps of each, int64.
        terminateds: Whether it ends with the end of a terminated episode, bool.
        truncateds: Whether it ends with the end of a truncated episode, bool.
        masses: Of the rows, float64.
        positions: Which of the rows asked for these are, int64.
        looked_at: How many of the rows asked for were looked at.
        distinct_rows: How many different rows there are.
        distinct_slots: How many different episodes.
    """

    rows: Rows
    generations: NDArray[np.uint32]
    slots: NDArray[np.int32]
    t: NDArray[np.int64]
    n_step: NDArray[np.int64]
    terminateds: NDArray[np.bool_]
    truncateds: NDArray[np.bool_]
    masses: NDArray[np.float64]
    positions: NDArray[np.int64]
    looked_at: int
    distinct_rows: int
    distinct_slots: int

    @staticmethod
    def joined(parts: Sequence[Transitions]) -> Transitions:
        """Several in one; `positions` are those in their parts."""
        if len(parts) == 1:
            return parts[0]
        arrays = [np.concatenate(a) for a in zip(*(part[:9] for part in parts), strict=True)]
        terminateds, truncateds = arrays[5:7]
        order = np.argsort(terminateds | truncateds, kind="stable")
        taken = [array.take(order) for array in arrays]
        looked_at = sum(part.looked_at for part in parts)
        return Transitions._make(
            [*taken, looked_at, num_distinct(taken[0]), num_distinct(taken[2])]
        )


class LinkedRows(AllOrNothing):
    """The rows of all stored steps, for reading; `TransitionStore` adds and evicts.

    Args:
        capacity: How many rows to expect; None: any number.
        frame_stack: See `ReplayOptions`.

    Attributes:
        take_observations: How `gather` reads them: as `Column.take`, or with the same result.
    """

    def __init__(self, capacity: int | None, frame_stack: int) -> None:
        super().__init__()
        self.take_observations: Callable[[Column, Rows], Any] = _take
        self.episodes = EpisodeTable()
        self.pool = RowPool(capacity)
        self.columns = StepColumns(frame_stack)
        self._links = np.zeros((0, 3), np.int32)  # row of the next step or -1, slot, t

    @property
    def num_steps(self) -> int:
        """Steps stored."""
        return self.episodes.num_steps

    @property
    def num_episodes(self) -> int:
        """Episodes stored."""
        return len(self.episodes)

    @property
    def nbytes(self) -> int:
        """Bytes allocated (what object columns point to is not counted)."""
        return self._links.nbytes + self.columns.nbytes + self.pool.nbytes + self.episodes.nbytes

    @serialized
    def live_rows(self) -> Rows:
        """Rows of all steps, episode by episode, oldest first: int32 of shape (num_steps,)."""
        return np.concatenate([np.empty(0, np.int32), *(e.row_array()[:-1] for e in self.episodes)])

    def rows_at(self, episode_ids: Sequence[str], t: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of the steps at time steps `t` of these episodes, -1 for what is not stored."""
        rows = np.full(len(t), -1, np.int64)
        for i, (id_, time_step) in enumerate(zip(episode_ids, t.tolist(), strict=True)):
            episode = self.episodes.get(id_)
            if episode is not None and 0 <= time_step - episode.t_started < len(episode):
                rows[i] = episode.rows[time_step - episode.t_started]
        return rows

    def locate(self, rows: Rows) -> Located:
        """Where in their episodes `rows` are."""
        links = self._links.take(rows, axis=0)
        slots, t = links[:, SLOT], links[:, T]
        return Located(rows, slots, t, self.episodes.lengths.take(slots) - t)

    def time_steps(self, located: Located) -> NDArray[np.int64]:
        """The time step in the episode of each row, int64."""
        return self.episodes.t_started.take(located.slots).astype(np.int64) + located.t

    def serve(
        self,
        rows: NDArray[np.int64],
        masses: NDArray[np.float64],
        n_step: NDArray[np.int64],
        most: int | None = None,
        least: int = LONGEST,
    ) -> Transitions:
        """Of the transitions that would begin at `rows` those that their episodes can serve.

        Args:
            rows: Rows of steps, int64 of shape (n,).
            masses: Of the rows, float64 of shape (n,).
            n_step: Steps that each is to have, >= 1, int64 of shape (n,), or (1,) for all.
            most: How many to return at most: the first ones; None for all.
            least: Those that have too few steps left are made shorter, but not below so many.
        """
        episodes = self.episodes
        return Transitions(
            *serve_rows(
                self._links,
                self.pool.generation,
                episodes.lengths,
                episodes.flags,
                episodes.t_started,
                rows,
                masses,
                n_step,
                len(rows) if most is None else most,
                least,
            )
        )

    @serialized
    def gather(
        self,
        transitions: Transitions,
        gamma: float,
        *,
        infos: bool = False,
        extras: bool = False,
        ids: bool = False,
    ) -> dict[str, Any]:
        """What transitions hold.

        Args:
            transitions: B of them.
            gamma: Discount per step.
            infos: Whether to add `infos` and `next_infos`, object arrays of dicts.
            extras: Whether to add `extra_model_outputs`, nested arrays of B items by name.
            ids: Whether to add `episode_id`, an object array.

        Returns:
            `observations`, `actions`, `next_observations` (nested arrays of B items), `rewards`
            (float64, discounted sums, added from the last one backwards as RLlib does),
            `terminateds`, `truncateds` (bool), `n_step`, `t` (int64, the time step in the episode).
        """
        rows, columns = transitions.rows, self.columns
        reached, rewards = follow_links(
            self._links, columns.rewards.leaves[0], rows, transitions.n_step, gamma
        )
        gathered = {
            "observations": self.take_observations(columns.observations, rows),
            "next_observations": self.take_observations(columns.observations, reached),
            "actions": columns.actions.take(rows),
            "rewards": rewards,
            "terminateds": transitions.terminateds,
            "truncateds": transitions.truncateds,
            "n_step": transitions.n_step,
            "t": transitions.t,
        }
        if infos:
            gathered["infos"] = columns.take_infos(rows)
            gathered["next_infos"] = columns.take_infos(reached)
        if extras:
            gathered["extra_model_outputs"] = columns.take_extras(rows)
        if ids:
            gathered["episode_id"] = self.episodes.ids_at(transitions.slots)
        return gathered


def _take(column: Column, rows: Rows) -> Any:
    return column.take(rows)
