"""Interleaved timing: what a busy machine does to one side it does to the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Prepare = Callable[[], Callable[[], Any]]
"""Makes fresh input and returns the call to be timed."""


def interleave(
    sides: Mapping[str, Prepare],
    repeats: int,
    *,
    warmup: int = 2,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Times all sides in turn, again and again.

    Args:
        sides: By name, what to prepare (untimed) and call (timed).
        repeats: How many timed calls of each.
        warmup: How many untimed calls of each come first.
        progress: Called after every round.

    Returns:
        The median seconds of each side.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for round_ in range(-warmup, repeats):
        for name, prepare in sides.items():
            call = prepare()
            start = time.perf_counter()
            call()
            elapsed = time.perf_counter() - start
            if round_ >= 0:
                seconds[name].append(elapsed)
        progress()
    return {name: float(np.median(values)) for name, values in seconds.items()}
