"""The bookkeeping of rows in the arrays of a saved replay: checks, and leaving the oldest out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.columns import NOTHING, Rows, array_of
from rllib_per_acc.descriptions import wrong
from rllib_per_acc.frame_column import FRAMES, INDEX
from rllib_per_acc.replay_files import Kinds

_PER_EPISODE = ("episode_ids", "episode_t_started", "episode_flags", "episode_num_rows")
_NOT_PER_ROW = {*_PER_EPISODE, "episode_rows", "free_rows"}
BOOKKEEPING = frozenset({*_NOT_PER_ROW, "generation"})
"""The arrays of a saved replay that `check_rows` checks."""


def check_shapes(kinds: Kinds) -> None:
    """Checks that the arrays have as many items as each other says, before they are read.

    Raises:
        ValueError: If one has not, or is missing.
    """

    def length(name: str) -> int:
        _, shape = kinds.get(name, ("nothing", ()))
        if not shape:
            raise ValueError(f"{name}: got {shape} as its shape, expected one of items")
        return shape[0]

    used = length("generation")
    if length("free_rows") + length("episode_rows") != used:
        raise ValueError(
            f"free_rows, episode_rows: got {length('free_rows')} + {length('episode_rows')} rows, "
            f"expected {used} in all, as in generation"
        )
    for name in kinds.keys() - {"free_rows", "episode_rows"}:
        if name.endswith(FRAMES):
            most = used * kinds.get(name.removesuffix(FRAMES) + INDEX, ("", (0, 0)))[1][-1]
            if length(name) > most:
                raise ValueError(f"{name}: got {length(name)} frames, expected at most {most}")
            continue
        expected = length("episode_ids") if name in _PER_EPISODE else used
        if length(name) != expected:
            raise ValueError(f"{name}: got {length(name)} items, expected {expected}")


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
    for name in arrays:
        if name.endswith(INDEX):
            _check_frames(name, arrays)


def _check_frames(name: str, arrays: dict[str, np.ndarray]) -> None:
    """Checks that every row has frames of its episode only, and that free rows have none."""
    index, used = arrays[name], len(arrays["generation"])
    if index.dtype != np.int32 or (index.ndim, len(index)) != (2, used):
        raise ValueError(
            f"{name}: got {index.dtype} of shape {index.shape}, expected int32 of {used} rows"
        )
    taken = index[arrays["episode_rows"]]
    if taken.size and taken.min() < 0:
        raise ValueError(f"{name}: got frame {taken.min()} of a row, expected one that is there")
    if (index[arrays["free_rows"]] != -1).any():
        raise ValueError(f"{name}: got frames of a free row, expected -1")
    if not taken.size:
        return
    num_rows = arrays["episode_num_rows"]
    episodes = np.repeat(np.arange(len(num_rows)), num_rows)[:, None]
    frames, place = np.unique(taken, return_inverse=True)
    owners = np.empty(len(frames), np.int64)
    owners[place.reshape(taken.shape)] = episodes
    if (owners[place.reshape(taken.shape)] != episodes).any():
        raise ValueError(f"{name}: got one frame in two episodes, expected other ones in each")


def check_layouts(layouts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Checks that there are columns for what rows hold; that their arrays fit is not looked at.

    Args:
        layouts: By column.
        arrays: Checked by `check_rows`.

    Raises:
        ValueError: If one is missing, or infos are no objects.
    """
    num_rows = arrays["episode_num_rows"]
    needed = ["observations"] if len(num_rows) else []
    needed += ["actions", "rewards"] if (num_rows > 1).any() else []
    for name in needed:
        if layouts[name] == NOTHING:
            raise ValueError(
                f"columns.{name}: got {NOTHING!r}, expected the layout of what is there"
            )
    if layouts["infos"] is not None and layouts["infos"] != NOTHING:
        raise wrong("columns.infos", layouts["infos"], f"None or {NOTHING!r}")
    if "infos.0" in arrays and arrays["infos.0"].dtype != object:
        raise wrong("infos.0", arrays["infos.0"].dtype, "objects")


def check_masses(arrays: dict[str, np.ndarray]) -> None:
    """Checks that the rows of steps have masses (and priorities, where there are any).

    Raises:
        ValueError: If a mass is missing, negative, NaN or infinite, or of a row without a step.
    """
    tails = arrays["episode_rows"][np.cumsum(arrays["episode_num_rows"]) - 1]
    has_step = np.zeros(len(arrays["generation"]), np.bool_)
    has_step[arrays["episode_rows"]] = True
    has_step[tails] = False
    check_masses_at(arrays, has_step)


def check_masses_at(arrays: dict[str, np.ndarray], present: NDArray[np.bool_]) -> None:
    """Checks that there are masses (and priorities, if any) where `present` is True, only there.

    Raises:
        ValueError: If one is missing, not finite or not above 0, or there is one elsewhere.
    """
    for name, absent in (("masses", 0.0), ("priorities", -np.inf)):
        if name in arrays or name == "masses":
            values = array_of(arrays, name, np.float64, len(present))
            wrong = np.where(present, ~((values > 0) & (values < np.inf)), values != absent)
            if wrong.any():
                row = int(wrong.argmax())
                expected = "a finite number > 0" if present[row] else absent
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
        if not name.endswith(FRAMES):
            arrays[name] = arrays[name][kept]
    for name in _PER_EPISODE:
        arrays[name] = arrays[name][first:]
    arrays["episode_rows"] = np.arange(len(kept), dtype=np.int32)
    arrays["free_rows"] = np.empty(0, np.int32)
