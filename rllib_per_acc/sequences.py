"""Sequences of steps: what a replay hands out in place of transitions to train stateful modules.

A sequence begins at a stored step, whose row carries its mass, and takes up to `length` steps from
there on, never past the end of its episode. It has one priority, made of its steps' TD errors
(Kapturowski et al., 2019: Recurrent Experience Replay in Distributed Reinforcement Learning, R2D2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.columns import Rows
from rllib_per_acc.replay_options import SequenceShape
from rllib_per_acc.sampling import Floats
from rllib_per_acc.structures import map_leaves
from rllib_per_acc.transitions import LinkedRows, Transitions


def gather(
    store: LinkedRows,
    drawn: Transitions,
    gamma: float,
    sequences: SequenceShape | None,
    **include: bool,
) -> dict[str, Any]:
    """What was drawn: transitions, or sequences of this shape."""
    if sequences is None:
        return store.gather(drawn, gamma, **include)
    return gather_sequences(store, drawn, sequences, **include)


def gather_sequences(
    store: LinkedRows,
    drawn: Transitions,
    shape: SequenceShape,
    *,
    infos: bool = False,
    extras: bool = False,
    ids: bool = False,
) -> dict[str, Any]:
    """What sequences hold, and the steps before them; L is `shape.lookback`, T `shape.length`.

    Args:
        store: Where they are.
        drawn: B of them: where they begin, and in `n_step` how long they are.
        shape: Of all of them.
        infos: Whether to add `infos`, dicts in an object array of shape (B, L + T + 1).
        extras: Whether to add `extra_model_outputs`: nested arrays of shape (B, L + T, ...)
            by name.
        ids: Whether to add `episode_id`, an object array.

    Returns:
        `observations` (nested arrays of shape (B, L + T + 1, ...)), `actions`, `rewards` (of shape
        (B, L + T, ...)), `length` and `lookback` (int64: the steps of each, and the stored steps
        before it), `t` (int64, the time step of its first step), `terminateds`, `truncateds` (bool:
        whether it ends with its episode) and `n_step` (1). The first step of a sequence is at
        position L; what is not from L - lookback to L + length (the observation after it) is
        padding without a meaning.
    """
    paths, lookback = _paths(store, drawn, shape)
    # Padding repeats the first step: others may lack what it has, as an episode's tail does.
    within = np.arange(paths.shape[1] - 1) < (shape.lookback + drawn.n_step)[:, None]
    steps = np.where(within, paths[:, :-1], drawn.rows[:, None])
    columns = store.columns

    def taken(values: Any, rows: Rows) -> Any:
        return map_leaves(lambda leaf: leaf.reshape(*rows.shape, *leaf.shape[1:]), values)

    gathered = {
        "observations": taken(columns.observations.take(paths.ravel()), paths),
        "actions": taken(columns.actions.take(steps.ravel()), steps),
        "rewards": taken(columns.rewards.take(steps.ravel()), steps),
        "terminateds": drawn.terminateds,
        "truncateds": drawn.truncateds,
        "n_step": np.ones(len(drawn.rows), np.int64),
        "t": drawn.t,
        "length": drawn.n_step,
        "lookback": lookback,
    }
    if infos:
        gathered["infos"] = taken(columns.take_infos(paths.ravel()), paths)
    if extras:
        outputs = columns.take_extras(steps.ravel())
        gathered["extra_model_outputs"] = {k: taken(v, steps) for k, v in outputs.items()}
    if ids:
        gathered["episode_id"] = store.episodes.ids_at(drawn.slots)
    return gathered


def _paths(
    store: LinkedRows, drawn: Transitions, shape: SequenceShape
) -> tuple[Rows, NDArray[np.int64]]:
    """Rows of all sequences, int32 of shape (B, L + T + 1), and the stored steps before each."""
    located = store.locate(drawn.rows)
    lookback = np.minimum(located.t, shape.lookback).astype(np.int64)
    width = shape.lookback + shape.length + 1
    paths = np.repeat(drawn.rows[:, None], width, axis=1)
    for path, slot, t, before, length in zip(
        paths,
        located.slots.tolist(),
        located.t.tolist(),
        lookback.tolist(),
        drawn.n_step.tolist(),
        strict=True,
    ):
        rows = store.episodes.rows_at(slot, t - before, t + length + 1)
        path[shape.lookback - before : shape.lookback + length + 1] = rows
    return paths, lookback


def num_steps(columns: dict[str, Any]) -> int:
    """How many steps the transitions or sequences of a batch begin with or hold."""
    length = columns.get("length")
    return len(columns["rewards"]) if length is None else int(length.sum())


def sequence_priorities(
    td_errors: Floats, counted: NDArray[np.bool_], lengths: NDArray[np.int64], eta: float
) -> Floats:
    """One priority for each sequence: eta * max + (1 - eta) * mean of its absolute TD errors.

    See Kapturowski et al. (2019), section 2.3, where eta is 0.9.

    Args:
        td_errors: Of the steps of all sequences, one after the other, float64 of shape (steps,).
        counted: Which of them count, bool: those after the burn-in. Of a sequence without such
            steps all count.
        lengths: Steps of each sequence, >= 1, int64 of shape (B,).
        eta: How much the highest one counts, from 0 to 1.

    Returns:
        float64 of shape (B,).
    """
    starts = np.cumsum(lengths) - lengths
    counted = counted | np.repeat(~np.logical_or.reduceat(counted, starts), lengths)
    sizes = np.where(counted, np.abs(td_errors), 0.0)
    means = np.add.reduceat(sizes, starts) / np.add.reduceat(counted.astype(np.int64), starts)
    return eta * np.maximum.reduceat(sizes, starts) + (1.0 - eta) * means
