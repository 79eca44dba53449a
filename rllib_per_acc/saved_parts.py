"""The rows of several replays dealt out anew: which episodes go where, and arrays for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from rllib_per_acc.activity import Counts
from rllib_per_acc.array_files import Into
from rllib_per_acc.columns import NOTHING, Rows
from rllib_per_acc.frame_column import FRAMES, INDEX
from rllib_per_acc.replay_files import Kinds, kinds_of
from rllib_per_acc.saved_rows import BOOKKEEPING, check_rows, check_shapes

State = tuple[dict[str, Any], dict[str, np.ndarray]]
"""A description and arrays, as `PrioritizedReplay.state_arrays` returns them."""


class Portion(NamedTuple):
    """What one replay gets of several.

    Attributes:
        description: As of `PrioritizedReplay.state_arrays`.
        bookkeeping: Those of its arrays that are not columns or masses.
        rows: Which rows of each of the replays it gets, ascending. They come one replay after the
            other in its own arrays.
        frames: Likewise of the frames of stacked observations, by the name of their array.
    """

    description: dict[str, Any]
    bookkeeping: dict[str, np.ndarray]
    rows: list[Rows]
    frames: dict[str, list[Rows]]


def needed_to_deal(names: Iterable[str]) -> list[str]:
    """Of the arrays of a replay those that `deal` needs."""
    return [name for name in names if name in BOOKKEEPING or name.endswith(INDEX)]


def deal(states: Sequence[State], capacities: Sequence[int | None]) -> list[Portion]:
    """Deals the episodes of replays out, the newest first, each to who has most room.

    What was old in its replay counts as older than what was new in its. When there is no more room
    for whole episodes the rest is left out.

    Args:
        states: Of the replays; of the arrays only those of `needed_to_deal` are needed.
        capacities: How many steps each of those who get them keeps; None for no limit.

    Returns:
        For each of `capacities` a portion. The counters of the replays go to the first one.

    Raises:
        ValueError: If the states do not fit each other, or are not those of replays.
    """
    for _, arrays in states:
        check_rows(arrays)
    numbers = [np.arange(len(arrays["episode_ids"])) for _, arrays in states]
    ages = np.concatenate([(n + 1) / max(len(n), 1) for n in numbers])
    steps = np.concatenate([arrays["episode_num_rows"] - 1 for _, arrays in states]).tolist()
    episodes = [(part, int(n)) for part, of_part in enumerate(numbers) for n in of_part]

    limits = [float("inf") if capacity is None else capacity for capacity in capacities]
    fill = [0] * len(limits)
    given: list[list[tuple[int, int]]] = [[] for _ in limits]
    for i in np.argsort(ages, kind="stable")[::-1].tolist():
        to = min(range(len(fill)), key=lambda j: (fill[j] / limits[j], fill[j]))
        if given[to] and fill[to] + steps[i] > limits[to]:
            break
        fill[to] += steps[i]
        given[to].append(episodes[i])

    description = _joined([description for description, _ in states])
    portions = []
    for chosen in given:
        portions.append(_portion(description, [arrays for _, arrays in states], chosen[::-1]))
        description = _without_counters(description)
    return portions


def _portion(
    description: dict[str, Any],
    parts: Sequence[dict[str, np.ndarray]],
    chosen: Sequence[tuple[int, int]],
) -> Portion:
    paths_of = [
        np.split(arrays["episode_rows"], np.cumsum(arrays["episode_num_rows"])[:-1])
        for arrays in parts
    ]
    paths = [(part, paths_of[part][number]) for part, number in chosen]
    empty = np.empty(0, np.int32)
    new_rows, rows, taken = [], [], 0
    for part, arrays in enumerate(parts):
        own = np.sort(np.concatenate([empty, *(path for of, path in paths if of == part)]))
        renumbered = np.empty(len(arrays["generation"]), np.int32)
        renumbered[own] = np.arange(taken, taken + len(own), dtype=np.int32)
        new_rows.append(renumbered)
        rows.append(own)
        taken += len(own)
    ids = np.empty(len(chosen), object)
    seen = set()
    for i in reversed(range(len(chosen))):
        part, number = chosen[i]
        ids[i] = parts[part]["episode_ids"][number]
        if ids[i] in seen:  # the older piece of an episode that went on in another replay
            ids[i] = f"{ids[i]} until {chosen[i]}"
        seen.add(ids[i])
    per_episode = {
        name: np.array([parts[part][name][n] for part, n in chosen], parts[0][name].dtype)
        for name in ("episode_t_started", "episode_flags", "episode_num_rows")
    }
    bookkeeping = per_episode | {
        "episode_ids": ids,
        "episode_rows": np.concatenate([empty, *(new_rows[part][path] for part, path in paths)]),
        "free_rows": empty,
        "generation": np.zeros(taken, np.uint32),
    }
    index, frames = _stacks(parts, rows)
    return Portion(description, bookkeeping | index, rows, frames)


def _stacks(
    parts: Sequence[dict[str, np.ndarray]], rows: Sequence[Rows]
) -> tuple[dict[str, np.ndarray], dict[str, list[Rows]]]:
    """Which frames these rows of the parts have, renumbered, and which these are in each part."""
    index: dict[str, np.ndarray] = {}
    frames: dict[str, list[Rows]] = {}
    for name in dict.fromkeys(n for arrays in parts for n in arrays if n.endswith(INDEX)):
        pieces, chosen, taken = [], [], 0
        for arrays, own in zip(parts, rows, strict=True):
            num_rows = len(arrays["generation"])
            of_part = arrays.get(name, np.empty((num_rows, 0), np.int32))[own]
            used, place = np.unique(of_part, return_inverse=True)
            pieces.append((taken + place.reshape(of_part.shape)).astype(np.int32))
            chosen.append(used)
            taken += len(used)
        depths = {piece.shape[1:] for piece in pieces if len(piece)}
        if len(depths) > 1:
            raise ValueError(f"{name}: got {sorted(depths)} frames a row in one state")
        index[name] = np.concatenate([piece for piece in pieces if len(piece)] or pieces[:1])
        frames[name.removesuffix(INDEX) + FRAMES] = chosen
    return index, frames


def _joined(descriptions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    try:
        samplers = [description["sampler"] for description in descriptions]
        lifetimes = [Counts.restored(description["lifetimes"]) for description in descriptions]
        kinds = {(sampler["alpha"], sampler.get("min_priority")) for sampler in samplers}
        if len(kinds) != 1:
            raise ValueError(f"alpha, min_priority: got {kinds} in one state, expected one pair")
        return {
            "columns": _joined_layouts([description["columns"] for description in descriptions]),
            "sampler": samplers[0]
            | {
                "lifetime_max_priority": max(s["lifetime_max_priority"] for s in samplers),
                "num_lifted": sum(s["num_lifted"] for s in samplers),
            },
            "rng": None,
            "lifetimes": asdict(sum(lifetimes, Counts())),
            "stale_priorities_dropped": sum(d["stale_priorities_dropped"] for d in descriptions),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"state: cannot be restored, {error!r}") from error


def _joined_layouts(layouts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    joined: dict[str, Any] = {
        "extras": list(dict.fromkeys(k for x in layouts for k in x["extras"]))
    }
    for layout in layouts:
        for column in layout.keys() - {"extras"}:
            known = joined.setdefault(column, NOTHING)
            if known == NOTHING:
                joined[column] = layout[column]
            # As text: leaves are stored in the order of the keys.
            elif layout[column] != NOTHING and repr(layout[column]) != repr(known):
                raise ValueError(
                    f"{column}: got {layout[column]!r:.200} and {known!r:.200} in one state, "
                    "expected one nesting"
                )
    return joined


def _without_counters(description: dict[str, Any]) -> dict[str, Any]:
    return description | {
        "sampler": description["sampler"] | {"num_lifted": 0},
        "lifetimes": {},
        "stale_priorities_dropped": 0,
    }


def arrays_for(
    portion: Portion, kinds: Sequence[Kinds]
) -> tuple[dict[str, np.ndarray], list[dict[str, Into]]]:
    """Arrays for a portion, columns and masses still empty.

    Args:
        portion: What a replay gets.
        kinds: Of the arrays of each of the replays that it comes from.

    Returns:
        The arrays, and for each of those replays where its columns and masses go.

    Raises:
        ValueError: If an array has other items in one replay than in another.
    """
    arrays = dict(portion.bookkeeping)
    intos: list[dict[str, Into]] = [{} for _ in kinds]
    names = dict.fromkeys(name for of_part in kinds for name in of_part if name not in arrays)
    if not all("priorities" in of_part for of_part in kinds):
        names.pop("priorities", None)
    for name in names:
        found = {part: of_part[name] for part, of_part in enumerate(kinds) if name in of_part}
        items = {shape[1:] for _, shape in found.values()}
        dtypes = {dtype for dtype, _ in found.values()}
        chosen = portion.frames.get(name, portion.rows)
        for part, (_, shape) in found.items():
            if name not in portion.frames and shape[:1] != kinds[part]["generation"][1]:
                raise ValueError(f"{name}: got shape {shape}, expected an item for each row")
            if len(chosen[part]) and not 0 <= chosen[part][0] <= chosen[part][-1] < shape[0]:
                raise ValueError(f"{name}: got shape {shape}, expected all frames that rows have")
        if len(items) > 1 or (len(dtypes) > 1 and "object" in dtypes):
            raise ValueError(f"{name}: got {sorted(found.values())} in one state, expected alike")
        starts = np.cumsum([0, *map(len, chosen)]).tolist()
        shape = (starts[-1], *items.pop())
        if "object" in dtypes:
            arrays[name] = np.full(shape, None)
        else:
            arrays[name] = np.zeros(shape, np.result_type(*dtypes))
        for part in found:
            where = slice(starts[part], starts[part + 1])
            intos[part][name] = Into(arrays[name][where], chosen[part])
    return arrays, intos


def dealt_out(states: Sequence[State], capacities: Sequence[int | None]) -> list[State]:
    """As `deal`, with all arrays in memory: the states of those who get the episodes.

    Raises:
        ValueError: As `deal` and `arrays_for`.
    """
    kinds = [kinds_of(arrays) for _, arrays in states]
    for of_part in kinds:
        check_shapes(of_part)
    dealt = []
    for portion in deal(states, capacities):
        arrays, intos = arrays_for(portion, kinds)
        for (_, given), into in zip(states, intos, strict=True):
            for name, (array, rows) in into.items():
                array[:] = given[name][rows]
        dealt.append((portion.description, arrays))
    return dealt
