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
    """What was drawn: transitions (with the steps before them), or sequences of this shape."""
    if sequences is None:
        return store.gather(drawn, gamma, **include)
    if not sequences.length:
        before = steps_before(store, drawn, sequences.lookback, **include)
        return store.gather(drawn, gamma, **include) | before
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
    paths, lookback = _paths(store, drawn, shape.lookback, shape.length, drawn.n_step)
    # Padding repeats the first step: others may lack what it has, as an episode's tail does.
    within = np.arange(paths.shape[1] - 1) < (shape.lookback + drawn.n_step)[:, None]
    steps = np.where(within, paths[:, :-1], drawn.rows[:, None])
    gathered = _steps_along(store, steps, extras) | {
        "observations": _shaped(store.columns.observations.take(paths.ravel()), paths),
        "terminateds": drawn.terminateds,
        "truncateds": drawn.truncateds,
        "n_step": np.ones(len(drawn.rows), np.int64),
        "t": drawn.t,
        "length": drawn.n_step,
        "lookback": lookback,
    }
    if infos:
        gathered["infos"] = _shaped(store.columns.take_infos(paths.ravel()), paths)
    if ids:
        gathered["episode_id"] = store.episodes.ids_at(drawn.slots)
    return gathered


def steps_before(
    store: LinkedRows,
    drawn: Transitions,
    most: int,
    *,
    infos: bool = False,
    extras: bool = False,
    ids: bool = False,
) -> dict[str, Any]:
    """The steps before transitions in their episodes.

    Args:
        store: Where they are.
        drawn: B transitions.
        most: How many steps before each, L.
        infos: Whether to add their `infos`.
        extras: Whether to add their `extra_model_outputs`.
        ids: Nothing: the steps are of the same episode.

    Returns:
        `before`: `observations`, `actions`, `rewards` (nested arrays of shape (B, L, ...)), and
        where asked for `infos`, `extra_model_outputs`; `lookback`, int64 of shape (B,): so many
        of them, the last ones, are steps; those before are padding without a meaning.
    """
    paths, lookback = _paths(store, drawn, most, 0, np.zeros(len(drawn.rows), np.int64))
    steps = paths[:, :-1]
    before = _steps_along(store, steps, extras)
    before["observations"] = _shaped(store.columns.observations.take(steps.ravel()), steps)
    if infos:
        before["infos"] = _shaped(store.columns.take_infos(steps.ravel()), steps)
    return {"before": before, "lookback": lookback}


def _shaped(values: Any, rows: Rows) -> Any:
    """Items of `rows`, one after the other, in the shape of `rows`."""
    return map_leaves(lambda leaf: leaf.reshape(*rows.shape, *leaf.shape[1:]), values)


def _steps_along(store: LinkedRows, steps: Rows, extras: bool) -> dict[str, Any]:
    """What steps hold beside observations, in the shape of their rows."""
    columns, rows = store.columns, steps.ravel()
    taken = {
        "actions": _shaped(columns.actions.take(rows), steps),
        "rewards": _shaped(columns.rewards.take(rows), steps),
    }
    if extras:
        outputs = columns.take_extras(rows)
        taken["extra_model_outputs"] = {k: _shaped(v, steps) for k, v in outputs.items()}
    return taken


def _paths(
    store: LinkedRows, drawn: Transitions, most: int, length: int, lengths: NDArray[np.int64]
) -> tuple[Rows, NDArray[np.int64]]:
    """Rows along episodes, from the steps before the drawn ones on.

    Args:
        store: Where they are.
        drawn: B of them.
        most: How many steps before each, L.
        length: How many steps from each on at most, T.
        lengths: How many there are, int64 of shape (B,).

    Returns:
        int32 of shape (B, L + T + 1), those that there are not are the drawn ones; and how many
        stored steps come before each, at most L.
    """
    located = store.locate(drawn.rows)
    lookback = np.minimum(located.t, most).astype(np.int64)
    paths = np.repeat(drawn.rows[:, None], most + length + 1, axis=1)
    for path, slot, t, before, steps in zip(
        paths,
        located.slots.tolist(),
        located.t.tolist(),
        lookback.tolist(),
        lengths.tolist(),
        strict=True,
    ):
        rows = store.episodes.rows_at(slot, t - before, t + steps + 1)
        path[most - before : most + steps + 1] = rows
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
