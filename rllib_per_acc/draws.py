"""Draws of rows that can begin an n-step transition, exactly proportional to their masses.

A row with fewer steps left in its episode than its transition needs is drawn again (or the
transition is cut short). So a row and a number of steps n come with a probability proportional to
the row's mass if n steps are left, and never otherwise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.sampling import Floats, PrioritySampler
from rllib_per_acc.transitions import LinkedRows, Transitions

Steps = NDArray[np.int64]

EMPTY = "sample: the replay buffer is empty, expected at least one step"

_MAX_ROUNDS = 64
"""Rounds of redrawing before the rows that can serve are looked for one by one."""

MAX_SPARE = 4
"""At most so many draws are asked for, for each one that is needed."""


class NothingToSampleError(ValueError):
    """Less is stored than was asked for: nothing, too few, or no episode that is long enough."""


def too_short(n_step: int, least: int, longest: int) -> NothingToSampleError:
    """The error for transitions or sequences that no stored episode can serve."""
    if least < n_step:
        return NothingToSampleError(
            f"sequences: got {least} steps as the least, but the longest stored episode has "
            f"{longest}; add longer episodes"
        )
    return NothingToSampleError(
        f"n_step: got {n_step}, but the longest stored episode has {longest} steps; add longer "
        "episodes, or set incomplete_n_step='shorten'"
    )


def random_steps(n: int, low: int, high: int, rng: np.random.Generator) -> Steps:
    """How many steps each of `n` transitions is to have, int64 from the closed range.

    If they are the same for all, one number stands for all.
    """
    return np.array([high]) if low == high else rng.integers(low, high + 1, n)


def with_spare(missing: int, acceptance: float) -> int:
    """How many to draw so that `missing` of them can most probably be used."""
    if acceptance >= 1.0:
        return missing
    acceptance = max(acceptance, 1 / MAX_SPARE)
    spare = 3.0 * math.sqrt(missing * (1.0 - acceptance))
    return min(math.ceil((missing + spare) / acceptance), MAX_SPARE * missing)


def draw(
    store: LinkedRows,
    sampler: PrioritySampler,
    rng: np.random.Generator,
    n: int,
    n_step: tuple[int, int],
    least: int,
) -> tuple[Transitions, int]:
    """Draws `n` transitions from a store that is not empty.

    Of independent draws the first that can be used are taken. To need one round only, a few more
    than needed are made, by the share of steps that are close to the end of an episode.

    Args:
        store: The rows.
        sampler: Their masses.
        rng: Of the draws.
        n: How many.
        n_step: The least and the greatest number of steps of a transition.
        least: To how many steps transitions may be cut short by the end of their episode.

    Returns:
        The transitions, and how many draws had to be repeated.

    Raises:
        NothingToSampleError: If no stored episode is long enough.
    """
    low, high = n_step
    too_late = store.num_episodes * (min(high, least) - 1) / store.num_steps
    # Only then can all episodes be too short; nothing has been drawn yet.
    if too_late >= 1 and store.episodes.longest() < min(low, least):
        raise too_short(low, least, store.episodes.longest())
    parts: list[Transitions] = []
    missing, resampled = n, 0
    for _ in range(_MAX_ROUNDS):
        asked = missing if sampler.stratified else with_spare(missing, 1.0 - too_late)
        rows, masses = sampler.draw(asked, rng)
        some = store.serve(rows, masses, random_steps(asked, low, high, rng), missing, least)
        parts.append(some)
        if len(some.rows) == missing:
            resampled += some.looked_at - missing
            if low == high:  # what was not used is drawn next time
                rng.bit_generator.advance(some.looked_at - asked)  # type: ignore[attr-defined]
            break
        resampled += asked - len(some.rows)
        missing -= len(some.rows)
    else:
        fitting = FittingRows.of(store, sampler, low, high, least)
        found = fitting.at(rng.random(missing), rng.random(missing), low)
        parts.append(store.serve(*found, least=least))
    return Transitions.joined(parts), resampled


class FittingRows(NamedTuple):
    """What drawing again and again would give, found row by row.

    Attributes:
        rows: Rows that can begin a transition, int64.
        masses: Of these rows, float64.
        choices: The number of lengths that each of them can serve.
        cumulative: Running sums of mass times choices.
    """

    rows: NDArray[np.int64]
    masses: Floats
    choices: NDArray[np.int32]
    cumulative: Floats

    @classmethod
    def of(
        cls, store: LinkedRows, sampler: PrioritySampler, low: int, high: int, least: int
    ) -> FittingRows:
        """Looks through all stored rows; see `draw` for the arguments."""
        located = store.locate(store.live_rows())
        choices = np.clip(located.left - low + 1, 0, high - low + 1)
        choices[located.left >= least] = high - low + 1
        fitting = np.flatnonzero(choices)
        rows, choices = located.rows.take(fitting).astype(np.int64), choices.take(fitting)
        masses = sampler.tree[rows]
        return cls(rows, masses, choices, np.cumsum(masses * choices))

    @property
    def mass(self) -> float:
        """What the rows weigh together, each as often as it has choices."""
        return float(self.cumulative[-1]) if len(self.cumulative) else 0.0

    def at(
        self, fractions: Floats, choices: Floats, low: int
    ) -> tuple[NDArray[np.int64], Floats, Steps]:
        """Rows at these fractions of `mass`, their masses and steps; all arguments in [0, 1)."""
        at = np.searchsorted(self.cumulative, fractions * self.mass, side="right")
        at = np.minimum(at, len(self.cumulative) - 1)
        steps = low + (choices * self.choices[at]).astype(np.int64)
        return self.rows.take(at), self.masses.take(at), steps
