"""Checks of what a save or a state says of itself, all of it before any of it is used.

A *check* takes the name of a value and the value, and raises a ValueError that says where it is,
what it is and what it should be. Checks of lists and dicts are made of those of their items.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

Check = Callable[[str, Any], None]

_LARGEST = np.iinfo(np.int64).max


def wrong(name: str, got: Any, expected: str) -> ValueError:
    """The error for a value that is not what it should be."""
    return ValueError(f"{name}: got {got!r:.80}, expected {expected}")


@contextlib.contextmanager
def named(path: str) -> Iterator[None]:
    """Puts a path in front of ValueErrors that do not say it."""
    try:
        yield
    except ValueError as error:
        if path in str(error):
            raise
        raise ValueError(f"{path}: {error}") from error


def anything(name: str, value: Any) -> None:
    """Any value will do."""


def instance_of(kind: type | tuple[type, ...], expected: str) -> Check:
    """An instance of a class."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, kind):
            raise wrong(name, value, expected)

    return check


def hashable(name: str, value: Any) -> None:
    """What can be the key of a dict."""
    try:
        hash(value)
    except TypeError as error:
        raise wrong(name, value, "something hashable") from error


def boolean(name: str, value: Any) -> None:
    """A bool."""
    if not isinstance(value, bool | np.bool_):
        raise wrong(name, value, "a bool")


def integer(low: int = 0, high: int = _LARGEST) -> Check:
    """An integer in `low` to `high`."""

    def check(name: str, value: Any) -> None:
        is_int = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not (is_int and low <= value <= high):
            most = "" if high == _LARGEST else f" and <= {high}"
            raise wrong(name, value, f"an integer >= {low}{most}")

    return check


def number(low: float = 0.0, high: float = math.inf) -> Check:
    """A finite number in `low` to `high`."""

    def check(name: str, value: Any) -> None:
        is_number = isinstance(value, int | float | np.integer | np.floating)
        if isinstance(value, bool) or not (
            is_number and low <= value <= high and -math.inf < value < math.inf
        ):
            most = "" if high == math.inf else f" and <= {high:g}"
            raise wrong(name, value, f"a finite number >= {low:g}{most}")

    return check


def text(pattern: re.Pattern[str], expected: str) -> Check:
    """A string that a pattern matches as a whole."""

    def check(name: str, value: Any) -> None:
        if not (isinstance(value, str) and pattern.fullmatch(value)):
            raise wrong(name, value, expected)

    return check


def or_none(check: Check) -> Check:
    """None, or what another check takes."""

    def check_unless_none(name: str, value: Any) -> None:
        if value is not None:
            check(name, value)

    return check_unless_none


def list_of(check: Check, least: int = 0, distinct: bool = False) -> Check:
    """A list, of at least `least` items, perhaps all of them different ones."""

    def check_list(name: str, value: Any) -> None:
        if not isinstance(value, list) or len(value) < least:
            raise wrong(name, value, f"a list of {least} items or more")
        for i, item in enumerate(value):
            check(f"{name}[{i}]", item)
        if distinct and len(set(value)) < len(value):
            raise wrong(name, value, "different items")

    return check_list


def tuple_of(*checks: Check) -> Check:
    """A list or tuple of as many items as there are checks, one for each."""

    def check_tuple(name: str, value: Any) -> None:
        if not isinstance(value, list | tuple) or len(value) != len(checks):
            raise wrong(name, value, f"{len(checks)} items")
        for i, (check, item) in enumerate(zip(checks, value, strict=True)):
            check(f"{name}[{i}]", item)

    return check_tuple


def dict_of(check: Check) -> Check:
    """A dict with any keys."""

    def check_dict(name: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise wrong(name, value, "a dict")
        for key, item in value.items():
            check(f"{name}[{key!r:.80}]", item)

    return check_dict


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """A dict with these keys, and perhaps with others that are not looked at.

    Args:
        required: Checks by key.
        optional: Those of keys that need not be there.
    """

    def check_record(name: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise wrong(name, value, f"a dict with the keys {', '.join(required)}")
        for key, check in {**required, **(optional or {})}.items():
            if key in value:
                check(f"{name}.{key}" if name else key, value[key])
            elif key in required:
                raise ValueError(f"{name or 'description'}: got no {key!r}, expected one")

    return check_record


def array(dtype: Any, shape: tuple[int | None, ...]) -> Check:
    """An array of this dtype and shape; None where an axis may have any length."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, np.ndarray):
            raise wrong(name, value, f"an array of {np.dtype(dtype)}")
        fits = value.ndim == len(shape) and all(
            n in (None, m) for n, m in zip(shape, value.shape, strict=True)
        )
        if value.dtype != dtype or not fits:
            raise ValueError(
                f"{name}: got {value.dtype} of shape {value.shape}, expected {np.dtype(dtype)} of "
                f"shape ({', '.join('n' if n is None else str(n) for n in shape)})"
            )

    return check


def _odd(name: str, value: Any) -> None:
    integer(1, (1 << 128) - 1)(name, value)
    if value % 2 == 0:
        raise wrong(name, value, "an odd number")


def _pcg64(name: str, value: Any) -> None:
    if value != "PCG64":
        raise wrong(name, value, "'PCG64'")


random_state = record(
    {
        "bit_generator": _pcg64,
        "state": record({"state": integer(0, (1 << 128) - 1), "inc": _odd}),
        "has_uint32": integer(0, 1),
        "uinteger": integer(0, (1 << 32) - 1),
    }
)
"""The state of NumPy's default generator."""


def generator_from(state: Any, name: str = "rng") -> np.random.Generator:
    """A generator of random numbers in this state.

    Raises:
        ValueError: If it is none of NumPy's default generator.
    """
    random_state(name, state)
    generator = np.random.default_rng(0)
    generator.bit_generator.state = state
    return generator
