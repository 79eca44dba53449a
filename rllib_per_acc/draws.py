"""Draws of rows that can begin an n-step transition, exactly proportional to their masses.

A row with fewer steps left in its episode than its transition needs is drawn again (or the
transition is cut short). So a row and a number of steps n come with a probability proportional to
the row's mass if n steps are left, and never otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.sampling import Floats, PrioritySampler
from rllib_per_acc.transitions import Located, TransitionStore

Steps = NDArray[np.int64]

EMPTY = "sample: the replay buffer is empty, expected at least one step"

_MAX_ROUNDS = 64
"""Rounds of redrawing before the rows that can serve are looked for one by one."""


class NothingToSampleError(ValueError):
    """The replay is empty, or no stored episode is as long as a transition has to be."""


def too_short(n_step: int, longest: int) -> NothingToSampleError:
    """The error for transitions that no stored episode can serve."""
    return NothingToSampleError(
        f"n_step: got {n_step}, but the longest stored episode has {longest} steps; add longer "
        "episodes, or set incomplete_n_step='shorten'"
    )


def random_steps(n: int, low: int, high: int, rng: np.random.Generator) -> Steps:
    """How many steps each of `n` transitions is to have, int64 from the closed range."""
    return np.full(n, high, np.int64) if low == high else rng.integers(low, high + 1, n)


def draw(
    store: TransitionStore,
    sampler: PrioritySampler,
    rng: np.random.Generator,
    n: int,
    n_step: tuple[int, int],
    shorten: bool,
) -> tuple[Located, Steps, int]:
    """Draws `n` transitions from a store that is not empty; those that end an episode come last.

    Args:
        store: The rows.
        sampler: Their masses.
        rng: Of the draws.
        n: How many.
        n_step: The least and the greatest number of steps of a transition.
        shorten: Whether transitions may be cut short by the end of the episode.

    Returns:
        Rows and the steps of their transitions, of shape (n,), and how many draws had to be
        repeated.

    Raises:
        NothingToSampleError: If no stored episode is long enough.
    """
    low, high = n_step
    parts: list[tuple[Located, Steps]] = []
    missing, resampled = n, 0
    for _ in range(_MAX_ROUNDS):
        drawn = store.locate(sampler.draw(missing, rng))
        steps = random_steps(missing, low, high, rng)
        if shorten:
            steps = np.minimum(steps, drawn.left)
        fitting = np.flatnonzero(steps <= drawn.left)
        if len(fitting) == missing:
            parts.append((drawn, steps))
            break
        parts.append((drawn.take(fitting), steps.take(fitting)))
        if not len(fitting) and store.episodes.longest() < low:
            raise too_short(low, store.episodes.longest())
        resampled += missing - len(fitting)
        missing -= len(fitting)
    else:
        some = FittingRows.of(store, sampler, low, high)
        parts.append(some.at(rng.random(missing), rng.random(missing), low))
    drawn, steps = parts[0]
    if len(parts) > 1:
        drawn = Located(*map(np.concatenate, zip(*(part for part, _ in parts), strict=True)))
        steps = np.concatenate([part for _, part in parts])
    ends = store.reaches_end(drawn, steps)
    if ends.any():
        order = np.concatenate([np.flatnonzero(~ends), np.flatnonzero(ends)])
        drawn, steps = drawn.take(order), steps.take(order)
    return drawn, steps, resampled


class FittingRows(NamedTuple):
    """What drawing again and again would give, found row by row.

    Attributes:
        rows: Rows that can begin a transition.
        choices: The number of lengths that each of them can serve.
        cumulative: Running sums of mass times choices.
    """

    rows: Located
    choices: NDArray[np.int32]
    cumulative: Floats

    @classmethod
    def of(
        cls, store: TransitionStore, sampler: PrioritySampler, low: int, high: int
    ) -> FittingRows:
        """Looks through all stored rows."""
        rows = store.locate(store.live_rows())
        choices = np.clip(rows.left - low + 1, 0, high - low + 1)
        fitting = np.flatnonzero(choices)
        rows, choices = rows.take(fitting), choices.take(fitting)
        return cls(rows, choices, np.cumsum(sampler.tree[rows.rows] * choices))

    @property
    def mass(self) -> float:
        """What the rows weigh together, each as often as it has choices."""
        return float(self.cumulative[-1]) if len(self.cumulative) else 0.0

    def at(self, fractions: Floats, choices: Floats, low: int) -> tuple[Located, Steps]:
        """Rows at these fractions of `mass`, and their steps; both arguments are in [0, 1)."""
        at = np.searchsorted(self.cumulative, fractions * self.mass, side="right")
        at = np.minimum(at, len(self.cumulative) - 1)
        return self.rows.take(at), low + (choices * self.choices[at]).astype(np.int64)
