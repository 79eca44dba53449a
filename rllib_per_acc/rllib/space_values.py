"""Values of a space as nested arrays, one item for each value.

Values of `Sequence`, `Graph` and `OneOf` differ in length and nesting, so each of them is one
Python object. The space says which these are, not the values at hand: those of the next chunk may
differ where these are alike.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import tree
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.spaces.space_utils import batch as stack

from rllib_per_acc.structures import map_leaves

_VARYING = tuple(
    getattr(gymnasium.spaces, name)
    for name in ("Sequence", "Graph", "OneOf")
    if hasattr(gymnasium.spaces, name)  # OneOf came with Gymnasium 1.0
)


def stacked(values: Sequence[Any], space: Any) -> Any:
    """At least one value of `space` (None if it is not known) as nested arrays.

    Raises:
        TypeError, ValueError: If values differ in structure, from the space or from each other.
    """
    if not varies(space):
        try:
            return tree.map_structure(_leaf, *values)
        except (TypeError, ValueError):
            if space is not None:
                raise
            return _objects(values)
    if isinstance(space, _VARYING):
        return _objects(values)
    parts = dict(_parts(space))
    for value in values:
        keys = value.keys() if isinstance(value, dict) else range(len(value))
        if isinstance(value, dict) != isinstance(space, gymnasium.spaces.Dict) or {*keys} != {
            *parts
        }:
            raise ValueError(f"observations or actions: got {value!r:.80}, expected one of {space}")
    return _build(
        space, {key: stacked([value[key] for value in values], part) for key, part in parts.items()}
    )


def values_of(buffer: InfiniteLookbackBuffer, length: int, space: Any) -> Any:
    """The last `length` values of a buffer of RLlib's as nested arrays; what it can, it shares."""
    data, lookback = buffer.data, buffer.lookback
    if not isinstance(data, list):
        if varies(space):
            return _of_arrays(data, range(lookback, lookback + length), space)
        return data[lookback:] if isinstance(data, np.ndarray) else buffer.get()
    values = data[lookback:]
    if values and (varies(space) or isinstance(values[0], dict | tuple)):
        return stacked(values, space)
    return values


def varies(space: Any) -> bool:
    """Whether values of `space` differ in length or nesting, wholly or in parts."""
    return isinstance(space, _VARYING) or any(varies(part) for _, part in _parts(space))


def _parts(space: Any) -> list[tuple[Any, Any]]:
    if isinstance(space, gymnasium.spaces.Dict):
        return [*space.spaces.items()]
    return [*enumerate(space.spaces)] if isinstance(space, gymnasium.spaces.Tuple) else []


def _build(space: Any, parts: dict[Any, Any]) -> Any:
    return parts if isinstance(space, gymnasium.spaces.Dict) else tuple(parts.values())


def _of_arrays(data: Any, positions: range, space: Any) -> Any:
    """Values that RLlib could put into arrays, as these happened to be alike."""
    if isinstance(space, _VARYING):
        return _objects([tree.map_structure(lambda leaf, i=i: leaf[i], data) for i in positions])
    parts = _parts(space)
    if parts:
        return _build(space, {key: _of_arrays(data[key], positions, part) for key, part in parts})
    return map_leaves(lambda leaf: leaf[positions.start : positions.stop], data)


def _leaf(*values: Any) -> Any:
    shape = np.shape(values[0])
    same = all(np.shape(value) == shape for value in values)  # RLlib would broadcast others
    return stack(values) if same else _objects(values)


def _objects(values: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(values), object)
    for i, value in enumerate(values):  # at once, values of one shape would be taken apart
        array[i] = copy.deepcopy(value)  # as with arrays, nothing of what is added is kept
    return array
