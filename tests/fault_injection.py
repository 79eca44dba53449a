"""Raises an error at every line that a call runs through, and compares what is left.

A call is all or nothing if, wherever it is interrupted, what can be observed afterwards is what it
was before, or what it is after the finished call.
"""

from __future__ import annotations

import linecache
import pathlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

import rllib_per_acc

PACKAGE = str(pathlib.Path(rllib_per_acc.__file__).parent)


class _Lines:
    """Counts the lines of the package that run, and raises at one of them.

    Args:
        at: Where to raise, from 0 on; -1: nowhere.
        error: What to raise.
        opcodes: Whether to count instructions, and not lines.
    """

    def __init__(self, at: int = -1, error: type[BaseException] = MemoryError, opcodes=False):
        self.count = 0
        self.where = ""
        self._at = at
        self._error = error
        self._event = "opcode" if opcodes else "line"

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = self._event == "opcode"
        # Python raises nothing between the end of a `with` and the lock's release, tracers do.
        # Some instructions belong to no line.
        line = frame.f_lineno
        if event == self._event and line and not _is_lock(code.co_filename, line):
            self.count += 1
            if self.count == self._at + 1:
                self.where = f"{pathlib.Path(code.co_filename).name}:{frame.f_lineno}"
                raise self._error(f"injected at {self.where}")
        return self


def _is_lock(file: str, line: int) -> bool:
    return linecache.getline(file, line).strip().startswith("with ")


@contextmanager
def fault(at: int, error: type[BaseException] = MemoryError, opcodes: bool = False):
    """Raises `error` at line number `at` of the package that runs in here; gives the counter."""
    lines = _Lines(at, error, opcodes)
    before = sys.gettrace()
    sys.settrace(lines)
    try:
        yield lines
    finally:
        sys.settrace(before)


def count_lines(call: Callable[[], Any], opcodes: bool = False) -> int:
    """How many lines of the package a call runs through."""
    with fault(-1, opcodes=opcodes) as lines:
        call()
    return lines.count


def places(num_lines: int, most: int | None) -> Iterator[int]:
    """All of so many lines, or `most` of them, spread evenly."""
    step = 1.0 if most is None else max(num_lines / most, 1.0)
    yield from sorted({int(i * step) for i in range(int(num_lines / step))} | {num_lines - 1})


def check_all_or_nothing(
    make: Callable[[], Any],
    call: Callable[[Any], Any],
    observe: Callable[[Any], Any],
    *,
    errors: tuple[type[BaseException], ...] = (MemoryError, KeyboardInterrupt),
    most: int | None = None,
    opcodes: bool = False,
) -> tuple[int, int]:
    """Interrupts a call at its lines, one after the other, and looks at what is left.

    Args:
        make: Makes the object, always the same.
        call: What to interrupt.
        observe: What counts: nested dicts, lists and arrays. May change the object.
        errors: What to raise, in turn.
        most: At how many lines at most; None for all.
        opcodes: Whether to interrupt at instructions, and not only at lines.

    Returns:
        How many interrupts left what was before, and what the finished call leaves.
    """
    before = observe(make())
    subject = make()
    num_lines = count_lines(lambda: call(subject), opcodes)
    after = observe(subject)
    undone = finished = 0
    for number, at in enumerate(places(num_lines, most)):
        subject = make()
        with fault(at, errors[number % len(errors)], opcodes) as lines, suppress(errors):
            call(subject)
        seen = observe(subject)
        if same(seen, before):
            undone += 1
        elif same(seen, after):
            finished += 1
        else:
            raise AssertionError(
                f"interrupted at {lines.where} (number {at} of {num_lines}): got something between "
                f"before and after: {difference(seen, before)}; {difference(seen, after)}"
            )
    return undone, finished


def same(one: Any, two: Any) -> bool:
    """Whether nested values are equal, types and dtypes included."""
    return not difference(one, two)


def difference(one: Any, two: Any, where: str = "") -> str:
    """Where nested values differ first; empty if they do not."""
    if type(one) is not type(two):
        return f"{where}: {type(one).__name__} is not {type(two).__name__}"
    if isinstance(one, np.ndarray):
        if one.dtype != two.dtype or one.shape != two.shape:
            return f"{where}: {one.dtype}{one.shape} is not {two.dtype}{two.shape}"
        if one.dtype == object:
            return difference(list(one.flat), list(two.flat), where)
        equal = np.array_equal(one, two, equal_nan=one.dtype.kind in "fc")
        return "" if equal else f"{where}: {one!r:.200} is not {two!r:.200}"
    if isinstance(one, dict):
        if list(one) != list(two):
            return f"{where}: keys {list(one)!r:.200} are not {list(two)!r:.200}"
        items = ((key, one[key], two[key]) for key in one)
    elif isinstance(one, list | tuple):
        if len(one) != len(two):
            return f"{where}: {len(one)} items are not {len(two)}"
        items = ((i, *pair) for i, pair in enumerate(zip(one, two, strict=True)))
    else:
        return "" if one == two else f"{where}: {one!r:.200} is not {two!r:.200}"
    return next(filter(None, (difference(a, b, f"{where}[{k!r}]") for k, a, b in items)), "")
