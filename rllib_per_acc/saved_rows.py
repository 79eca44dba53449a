"""The bookkeeping of rows in the arrays of a saved replay: checks, and leaving the oldest out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rllib_per_acc.columns import Rows

_PER_EPISODE = ("episode_ids", "episode_t_started", "episode_flags", "episode_num_rows")
_NOT_PER_ROW = {*_PER_EPISODE, "episode_rows", "free_rows"}


def array_of(
    arrays: dict[str, np.ndarray], name: str, dtype: DTypeLike, length: int | None = None
) -> NDArray[Any]:
    """The array with this name, which must have this dtype, one dimension and this length.

    Raises:
        ValueError: If there is none or it is another one.
    """
    array = arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name}: got {type(array).__name__}, expected an array")
    if array.dtype != dtype or array.ndim != 1 or length not in (None, len(array)):
        n = "any number of" if length is None else length
        raise ValueError(
            f"{name}: got {array.dtype} of shape {array.shape}, expected {np.dtype(dtype)} of "
            f"{n} items"
        )
    return array


def check_rows(arrays: dict[str, np.ndarray]) -> None:
    """Checks that every row ever used belongs to one episode or is free.

    Raises:
        ValueError: If it does not, or an array is missing or of another kind.
    """
    used = len(array_of(arrays, "generation", np.uint32))
    free, taken = (array_of(arrays, name, np.int32) for name in ("free_rows", "episode_rows"))
    held = np.zeros(used, np.bool_)
    for name, rows in (("free_rows", free), ("episode_rows", taken)):
        if len(rows) and not (rows.min() >= 0 and rows.max() < used):
            raise ValueError(
                f"{name}: got {rows.min()} to {rows.max()}, expected rows below {used}"
            )
        held[rows] = True
    if len(free) + len(taken) != used or not held.all():
        raise ValueError(
            f"free_rows, episode_rows: got {len(free)} + {len(taken)} rows, {held.sum()} different "
            f"ones, expected each of {used} rows once"
        )

    ids = array_of(arrays, "episode_ids", object)
    if len(set(ids)) != len(ids):
        raise ValueError("episode_ids: got one id twice, expected different ones")
    starts = array_of(arrays, "episode_t_started", np.int64, len(ids))
    flags = array_of(arrays, "episode_flags", np.uint8, len(ids))
    num_rows = array_of(arrays, "episode_num_rows", np.int64, len(ids))
    limit = np.iinfo(np.int32).max
    if len(ids) and not (starts.min() >= -limit and starts.max() <= limit and flags.max() <= 3):
        raise ValueError("episode_t_started, episode_flags: got a value that no episode has")
    if (num_rows < 1).any() or (num_rows > used).any() or num_rows.sum() != len(taken):
        raise ValueError(
            f"episode_num_rows: got {num_rows.sum()} rows in all, expected {len(taken)}, at least "
            "one for every episode"
        )


def check_masses(arrays: dict[str, np.ndarray]) -> None:
    """Checks that the rows of steps have masses (and priorities, where there are any).

    Raises:
        ValueError: If a mass is missing, negative, NaN or infinite, or of a row without a step.
    """
    tails = arrays["episode_rows"][np.cumsum(arrays["episode_num_rows"]) - 1]
    has_step = np.zeros(len(arrays["generation"]), np.bool_)
    has_step[arrays["episode_rows"]] = True
    has_step[tails] = False
    for name, absent in (("masses", 0.0), ("priorities", -np.inf)):
        if name in arrays or name == "masses":
            values = array_of(arrays, name, np.float64, len(has_step))
            wrong = np.where(has_step, ~((values > 0) & (values < np.inf)), values != absent)
            if wrong.any():
                row = int(wrong.argmax())
                expected = "a finite number > 0" if has_step[row] else absent
                raise ValueError(f"{name}: got {values[row]} at row {row}, expected {expected}")


def leave_out_oldest(arrays: dict[str, np.ndarray], capacity: int) -> None:
    """Keeps the newest episodes of at most `capacity` steps, at least one, in as few rows.

    Args:
        arrays: Of a saved replay, checked; changed in place.
        capacity: In steps.
    """
    num_rows = arrays["episode_num_rows"]
    steps_from = np.cumsum((num_rows - 1)[::-1])[::-1]
    first = min(int((steps_from > capacity).sum()), max(len(num_rows) - 1, 0))
    kept: Rows = arrays["episode_rows"][int(num_rows[:first].sum()) :]
    for name in arrays.keys() - _NOT_PER_ROW:
        arrays[name] = arrays[name][kept]
    for name in _PER_EPISODE:
        arrays[name] = arrays[name][first:]
    arrays["episode_rows"] = np.arange(len(kept), dtype=np.int32)
    arrays["free_rows"] = np.empty(0, np.int32)
