"""Times several ways of doing one thing, interleaved: the only figures worth having are ratios.

On a shared machine an absolute time says little, and two series measured one after the other say
less. Here every repeat runs every contender once, in random order (one that leaves the caches cold
must not always precede the same other), on fresh input, and ratios are medians over the repeats.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

# Calls that take less are repeated for about this long: one alone, right after another contender,
# would be timed with whatever that one has left in the caches.
STRETCH = 200e-6


@dataclass(frozen=True)
class Timing:
    """Seconds per call, one value for each repeat."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the repeats, in seconds."""
        return statistics.median(self.seconds)

    def times_faster_than(self, other: Timing) -> float:
        """Returns the median, over the repeats, of the other's time divided by this one's."""
        return statistics.median(
            theirs / ours for ours, theirs in zip(self.seconds, other.seconds, strict=True)
        )


def interleaved(
    contenders: Mapping[str, Callable[[T], object]],
    fresh: Callable[[], T],
    *,
    repeats: int = 30,
    seconds: float = float("inf"),
    stretch: float = STRETCH,
) -> dict[str, Timing]:
    """Runs every contender once in each repeat.

    A repeat of a contender is one call or, if that is short, as many as fill `stretch`, each with
    its own input.

    Args:
        contenders: What to run, by name.
        fresh: Makes the input of one call; not timed. A benchmark that repeats one input trains
            the branch predictor and the caches, and flatters.
        repeats: How often, at most.
        seconds: No repeat is started later than this, but at least three are run.
        stretch: How long a repeat of a short call takes, in seconds; 0 for single calls.

    Returns:
        A `Timing` for each contender.
    """
    names = list(contenders)
    calls = {name: _calls_per_stretch(contenders[name], fresh, stretch) for name in names}
    taken: dict[str, list[float]] = {name: [] for name in names}
    began = time.perf_counter()
    for repeat in range(repeats):
        if repeat >= 3 and time.perf_counter() - began > seconds:
            break
        for name in random.Random(repeat).sample(names, len(names)):
            taken[name].append(_stretch(contenders[name], fresh, calls[name]))
    return {name: Timing(tuple(values)) for name, values in taken.items()}


def _calls_per_stretch(run: Callable[[T], object], fresh: Callable[[], T], stretch: float) -> int:
    """Also warms up: the first call may do what no other does."""
    once = _stretch(run, fresh, 1)
    if once < 0.1:
        once = _stretch(run, fresh, 1)
    return max(1, min(200, int(stretch / once)))


def _stretch(run: Callable[[T], object], fresh: Callable[[], T], calls: int) -> float:
    inputs = [fresh() for _ in range(calls)]
    collects = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        for value in inputs:
            run(value)
        return (time.perf_counter() - start) / calls
    finally:
        if collects:
            gc.enable()
