"""Python values as JSON and back, with their types: infos, text observations, episode ids, layouts.

What JSON has no word for is a dict with the key `"$type"`: tuples, bytes, dicts with keys that are
not strings, NumPy scalars and arrays, graphs of Gymnasium. Reading builds only these types: nothing
is looked up by a name from the text, and nothing of it is run.
"""

from __future__ import annotations

import base64
import importlib
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

_TYPE = "$type"
_DTYPE = re.compile(r"[<>|=]?[biufcSUmM]\d+(\[\w+\])?")
_GRAPH = ("gymnasium.spaces.graph", "GraphInstance")
"""A named tuple, known by its name: the store does without Gymnasium as long as none is stored."""
_EXPECTED = (
    "None, bool, int, float, str, bytes, list, tuple, dict, a graph of Gymnasium, a NumPy scalar "
    "or array of these"
)


def to_json(value: Any, what: str) -> str:
    """`value` as one line of JSON (NaN and infinities as Python's `json` writes them).

    Args:
        value: None, bool, int, float, str, bytes, NumPy scalars and arrays, and lists, tuples,
            dicts and Gymnasium's `GraphInstance` of them; exactly these types, no subclasses.
        what: What it is, for the error message.

    Raises:
        TypeError: If something else is in it.
        ValueError: If it is nested too deeply.
    """
    try:
        return json.dumps(_encode(value, what), separators=(",", ":"))
    except RecursionError:
        raise ValueError(f"{what}: got a value nested too deeply to be saved") from None


def from_json(text: str | bytes) -> Any:
    """The value that `to_json` wrote.

    Raises:
        ValueError: If it did not write this.
    """
    return from_plain(text, json.loads)


def from_plain(value: Any, plain: Callable[[Any], Any] = lambda value: value) -> Any:
    """The value for which `to_json` wrote what `json` reads as `value`.

    Args:
        value: Of JSON's own types, or what becomes that.
        plain: What makes it that.

    Raises:
        ValueError: As `from_json`.
    """
    try:
        return _decode(plain(value))
    except (
        ValueError,
        LookupError,
        TypeError,
        OverflowError,
        RecursionError,
        MemoryError,
    ) as error:
        raise ValueError(f"not a saved value ({type(error).__name__}: {error})") from None


def checked_dtype(text: Any) -> np.dtype[Any]:
    """The dtype with this `str`, of plain items only.

    Raises:
        ValueError: If it is not the `str` of a dtype of numbers, strings, bytes or times.
    """
    if not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise ValueError(f"dtype: got {text!r:.80}, expected one like '<f4'")
    return np.dtype(text)


def _encode(value: Any, what: str) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_encode(item, what) for item in value]
    if kind is dict:
        if _TYPE not in value and all(type(key) is str for key in value):
            return {key: _encode(item, f"{what}[{key!r}]") for key, item in value.items()}
        items = [[_encode(key, what), _encode(item, what)] for key, item in value.items()]
        return {_TYPE: "dict", "items": items}
    if kind is tuple:
        return {_TYPE: "tuple", "items": [_encode(item, what) for item in value]}
    if (kind.__module__, kind.__qualname__) == _GRAPH:
        return {_TYPE: "graph", "items": [_encode(item, what) for item in value]}
    if kind is bytes:
        return {_TYPE: "bytes", "base64": base64.b64encode(value).decode()}
    if isinstance(value, np.generic):
        return {_TYPE: "scalar", "of": _encode_array(np.array([value]), what)}
    if kind is np.ndarray:
        return _encode_array(value, what)
    raise TypeError(f"{what}: got a {kind.__name__}, which cannot be saved; expected {_EXPECTED}")


def _encode_array(array: np.ndarray, what: str) -> dict[str, Any]:
    shape = list(array.shape)
    if array.dtype == object:
        return {_TYPE: "objects", "shape": shape, "items": _encode(list(array.flat), what)}
    if not _DTYPE.fullmatch(array.dtype.str):
        raise TypeError(f"{what}: got items of {array.dtype}, which cannot be saved")
    data = base64.b64encode(array.tobytes()).decode()
    return {_TYPE: "array", "dtype": array.dtype.str, "shape": shape, "base64": data}


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _TYPE not in value:
        return {key: _decode(item) for key, item in value.items()}
    return _DECODERS[value[_TYPE]](value)


def _decode_array(value: dict[str, Any]) -> np.ndarray:
    data = base64.b64decode(value["base64"], validate=True)
    return np.frombuffer(data, checked_dtype(value["dtype"])).reshape(value["shape"]).copy()


def _decode_objects(value: dict[str, Any]) -> np.ndarray:
    items = _decode(value["items"])
    array = np.empty(len(items), object)
    for i, item in enumerate(items):  # assigned at once, arrays of one shape would be taken apart
        array[i] = item
    return array.reshape(value["shape"])


def _decode_graph(value: dict[str, Any]) -> Any:
    module, name = _GRAPH
    return getattr(importlib.import_module(module), name)(*map(_decode, value["items"]))


_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dict": lambda value: {_decode(key): _decode(item) for key, item in value["items"]},
    "tuple": lambda value: tuple(_decode(item) for item in value["items"]),
    "graph": _decode_graph,
    "bytes": lambda value: base64.b64decode(value["base64"], validate=True),
    "scalar": lambda value: _decode_array(value["of"])[0],
    "array": _decode_array,
    "objects": _decode_objects,
}
