"""The options of a replay, and the checks of what users write for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

import numpy as np

NStep = int | tuple[int, int]
LONGEST = np.iinfo(np.int32).max
BetaSchedule = float | Sequence[tuple[float, float]]


DEFAULT_BETA = 0.4


@dataclass(frozen=True, slots=True)
class PriorityOptions:
    """How what is stored is prioritized, drawn and weighted.

    Attributes:
        alpha: Exponent of the priorities, >= 0; 0 draws uniformly.
        beta: Exponent of the importance weights, >= 0, used where `sample` is given none; or a
            schedule `[[env steps added, value], ...]`, linear in between. None is the default.
        min_priority: None: masses are `max(priority, 1e-12) ** alpha` (RLlib); a number >= 0:
            `(|priority| + min_priority) ** alpha` (the paper's proportional variant).
        sampling: `"proportional"`: independent draws; `"stratified"`: one from each of B equal
            parts of the total.
        weight_normalization: Divide weights by the highest possible one of the `"buffer"` (the
            paper and RLlib) or by the highest one of the `"batch"`.
        max_priority: What is new and has no priority gets the highest one of the buffer's
            `"lifetime"` (RLlib), or the highest one in the `"buffer"` now.
        device: Where the tree lives: `"cpu"`, `"gpu"` or `"auto"`.
        seed: Of all draws; None for a fresh one.
    """

    alpha: float = 0.6
    beta: BetaSchedule = DEFAULT_BETA
    min_priority: float | None = None
    sampling: Literal["proportional", "stratified"] = "proportional"
    weight_normalization: Literal["buffer", "batch"] = "buffer"
    max_priority: Literal["lifetime", "buffer"] = "lifetime"
    device: Literal["auto", "cpu", "gpu"] = "auto"
    seed: int | None = None

    def __post_init__(self) -> None:
        check_choices(self)
        non_negative("alpha", self.alpha)
        if self.beta is None:
            object.__setattr__(self, "beta", DEFAULT_BETA)
        beta_at(self.beta, int)
        if self.min_priority is not None:
            non_negative("min_priority", self.min_priority)
        if self.seed is not None:
            non_negative_int("seed", self.seed)


@dataclass(frozen=True, slots=True)
class ReplayOptions(PriorityOptions):
    """The options of a replay of episodes: `PriorityOptions`, and how n-step transitions are read.

    Attributes:
        incomplete_n_step: A step too near the end of its episode is drawn again (`"resample"`,
            RLlib), or its transition is cut short (`"shorten"`).
        frame_stack: 0, or how many frames the last axis of image observations has: those that an
            observation shares with the one before it are kept once. What is read is the same.
        metrics_window: How many calls the per-call metrics are averaged over.
    """

    incomplete_n_step: Literal["resample", "shorten"] = "resample"
    frame_stack: int = 0
    metrics_window: int = 100

    def __post_init__(self) -> None:
        PriorityOptions.__post_init__(self)
        non_negative_int("frame_stack", self.frame_stack)
        if positive_int("metrics_window", self.metrics_window) > LONGEST:
            raise ValueError(
                f"metrics_window: got {self.metrics_window}, expected at most {LONGEST}"
            )

    def steps_to_read(
        self, n_step: NStep, incomplete_n_step: str | None, sequences: SequenceShape | None
    ) -> tuple[tuple[int, int], int]:
        """How many steps to read from a row on: `(low, high)`, and to how many to cut them short.

        Args:
            n_step: Of transitions.
            incomplete_n_step: In place of the option of this name, unless None.
            sequences: Their shape, unless transitions are read.

        Raises:
            TypeError, ValueError: If an argument is wrong.
        """
        used = self
        if incomplete_n_step is not None:
            used = replace(self, incomplete_n_step=incomplete_n_step)  # type: ignore[arg-type]
        if sequences is not None:
            if not isinstance(sequences, SequenceShape):
                raise TypeError(
                    f"sequences: got {sequences!r:.80}, expected a SequenceShape or None"
                )
            sequences.check(n_step)
        if sequences is not None and sequences.length:
            return (sequences.length, sequences.length), sequences.least
        return n_step_range(n_step), 1 if used.incomplete_n_step == "shorten" else LONGEST


class SequenceShape(NamedTuple):
    """How sequences of steps are cut out of episodes.

    Attributes:
        length: Steps of a sequence; those that their episode ends before are shorter. 0:
            transitions, of as many steps as `n_step` says (with `lookback`).
        lookback: Steps before each that come along where they are stored.
        least: Steps that a sequence has at least.
    """

    length: int
    lookback: int = 0
    least: int = 1

    def check(self, n_step: NStep) -> None:
        """Checks the numbers, and that `n_step` of the transitions in the sequences is 1.

        Raises:
            TypeError: If one is not an integer.
            ValueError: If one is out of range.
        """
        lookback = non_negative_int("sequences.lookback", self.lookback)
        int_from(0 if lookback else 1, "sequences.length", self.length)
        if positive_int("sequences.least", self.least) > max(self.length, 1):
            raise ValueError(
                f"sequences.least: got {self.least}, expected at most length={self.length}"
            )
        if self.lookback + self.length > LONGEST:
            raise ValueError(
                f"sequences: got length={self.length} and lookback={self.lookback}, expected at "
                f"most {LONGEST} steps together"
            )
        if self.length and n_step_range(n_step) != (1, 1):
            raise ValueError(f"n_step: got {n_step}, expected 1 in sequences")


def check_choices(options: Any) -> None:
    """Checks the fields of a dataclass whose type is a `Literal` of strings.

    Raises:
        ValueError: If one has another value.
    """
    hints = get_type_hints(type(options))
    for f in fields(options):
        choices, value = get_args(hints[f.name]), getattr(options, f.name)
        if choices and isinstance(choices[0], str) and value not in choices:
            expected = " or ".join(map(repr, choices))
            raise ValueError(f"{f.name}: got {value!r}, expected {expected}")


def int_from(least: int, name: str, value: Any) -> int:
    """`value` as an int >= `least`.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is less.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}: got {value!r}, expected an integer >= {least}")
    if value < least:
        raise ValueError(f"{name}: got {value}, expected an integer >= {least}")
    return int(value)


def positive_int(name: str, value: Any) -> int:
    """`value` as an int >= 1; errors as `int_from`."""
    return int_from(1, name, value)


def non_negative_int(name: str, value: Any) -> int:
    """`value` as an int >= 0; errors as `int_from`."""
    return int_from(0, name, value)


def non_negative(name: str, value: Any) -> float:
    """`value` as a finite float >= 0.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is negative, infinite or NaN.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}: got {value!r}, expected a number >= 0")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name}: got {value}, expected a finite number >= 0")
    return number


def n_step_range(n_step: Any) -> tuple[int, int]:
    """The least and the greatest number of steps of a transition.

    Raises:
        TypeError: If `n_step` is neither an integer nor a pair of them.
        ValueError: If one is below 1 or above int32, or the pair is not in order.
    """
    if not isinstance(n_step, tuple | list):
        n_step = (n_step, n_step)
    if len(n_step) != 2:
        raise ValueError(f"n_step: got {n_step}, expected an integer or a pair (low, high)")
    low, high = (positive_int("n_step", n) for n in n_step)
    if not low <= high <= LONGEST:
        raise ValueError(f"n_step: got {n_step}, expected low <= high <= {LONGEST}")
    return low, high


def beta_at(beta: Any, steps_added: Callable[[], int]) -> float:
    """The value of `beta`, a number or a schedule, after `steps_added()` env steps.

    Raises:
        TypeError: If it is neither.
        ValueError: If a value is negative, or the steps of a schedule do not increase.
    """
    if isinstance(beta, Real):
        return non_negative("beta", beta)
    points = list(beta) if isinstance(beta, Sequence) and not isinstance(beta, str) else []
    if not points or not all(isinstance(p, Sequence) and len(p) == 2 for p in points):
        raise TypeError(f"beta: got {beta!r}, expected a number >= 0 or [[env steps, value], ...]")
    steps = [non_negative("beta", step) for step, _ in points]
    values = [non_negative("beta", value) for _, value in points]
    if any(b <= a for a, b in pairwise(steps)):
        raise ValueError(f"beta: got {beta!r}, expected increasing env steps")
    return float(np.interp(steps_added(), steps, values))
