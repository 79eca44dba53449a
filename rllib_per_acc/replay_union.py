"""Draws from a replay that lies in several parts, as if it were one.

The totals of all parts come first; then every draw goes to a part with a probability proportional
to the part's total. What a part cannot serve (too near the end of an episode) is drawn again from
all parts: drawing again within the part would give parts with many short episodes too much.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rllib_per_acc.activity import Activity
from rllib_per_acc.draws import (
    EMPTY,
    MAX_SPARE,
    NothingToSampleError,
    random_steps,
    too_short,
    with_spare,
)
from rllib_per_acc.joined_columns import Positions, join
from rllib_per_acc.replay_batch import RowHandle
from rllib_per_acc.replay_options import beta_at
from rllib_per_acc.replay_part import GatherOptions, PartStatus, Proposal
from rllib_per_acc.sampling import Floats, fractions, importance_weights
from rllib_per_acc.sequences import num_steps

Calls = dict[int, tuple[str, tuple[Any, ...]]]
"""By part a method of `ReplayPart` and its arguments."""
Replies = Mapping[int, tuple[Any, PartStatus]]
"""By part what the method returned, and the status of the part after it."""

_MAX_ROUNDS = 6
"""Rounds of redrawing before every part looks for the rows that can serve."""


class UnionRequest(NamedTuple):
    """What to draw.

    Attributes:
        num_items: How many transitions.
        n_step: The least and the greatest number of steps of a transition.
        beta: Exponent of the importance weights, or a schedule of it.
        stratified: Whether to draw one from each of `num_items` equal parts of the total.
        by_batch: Whether to normalise weights by the highest one of the batch.
        gather: How to read the transitions.
        metrics_window: See `ReplayOptions`.
    """

    num_items: int
    n_step: tuple[int, int]
    beta: Any
    stratified: bool
    by_batch: bool
    gather: GatherOptions
    metrics_window: int


class UnionHandle(NamedTuple):
    """Names the rows that a part gave to a batch, and where they are in the batch."""

    part: int
    positions: Positions
    rows: RowHandle


class UnionDraw(NamedTuple):
    """A batch, and what happened.

    Attributes:
        columns: As of a `ReplayBatch`.
        handles: Whose rows they are.
        activity: What the parts did since their last report, and this draw.
        acceptance: Which share of the draws could be used.
    """

    columns: dict[str, Any]
    handles: list[UnionHandle]
    activity: Activity
    acceptance: float


class _Piece(NamedTuple):
    part: int
    proposal: Proposal
    chosen: Positions


def draw_from_parts(
    parts: Sequence[int], request: UnionRequest, rng: np.random.Generator, acceptance: float
) -> Generator[Calls, Replies, UnionDraw]:
    """Yields the calls to make, all at once, and wants to be sent their results.

    Args:
        parts: The parts to draw from.
        request: What to draw.
        rng: Of the draws.
        acceptance: Which share of the draws could be used lately, in (0, 1]: so many more are
            asked for, so that one round does.

    Raises:
        NothingToSampleError: If all parts are empty or no stored episode is long enough.
    """
    replies = yield dict.fromkeys(parts, ("take_activity", ()))
    activity = Activity(request.metrics_window)
    for reported, _ in replies.values():
        activity.merge(reported)
    statuses = {part: status for part, (_, status) in replies.items()}
    size = sum(status.steps for status in statuses.values())
    if not size:
        raise NothingToSampleError(EMPTY)
    totals = np.array([statuses[part].total for part in parts])

    pieces: list[_Piece] = []
    missing, rejected = request.num_items, 0
    for _ in range(_MAX_ROUNDS):
        n = missing if request.stratified else with_spare(missing, acceptance)
        steps = np.broadcast_to(random_steps(n, *request.n_step, rng), n)
        which, within = _split(fractions(n, rng, request.stratified), totals)
        shares = {
            part: np.flatnonzero(which == i) for i, part in enumerate(parts) if (which == i).any()
        }
        replies = yield {
            part: ("propose", (within[share], steps[share], request.gather))
            for part, share in shares.items()
        }
        accepted = {part: shares[part][reply.positions] for part, (reply, _) in replies.items()}
        # The first of them in the order of the draws: which are left over depends on nothing else.
        used = np.sort(np.concatenate(list(accepted.values())))[:missing]
        last = used[-1] if len(used) == missing else n - 1
        rejected += int(last) + 1 - len(used)
        for part, (proposal, _) in replies.items():
            chosen = np.flatnonzero(accepted[part] <= last)
            if len(chosen):
                pieces.append(_Piece(part, proposal, chosen))
        missing -= len(used)
        drawn = request.num_items - missing
        acceptance = max(drawn / (drawn + rejected), 1 / MAX_SPARE)
        if not missing:
            break
    else:
        pieces += yield from _draw_fitting(parts, missing, request, rng)

    columns, positions = join([(piece.proposal.columns, piece.chosen) for piece in pieces])
    _log(activity, pieces, positions, columns, rejected)
    del columns["slot"]
    steps_added = sum(status.counters.lifetimes.steps_added for status in statuses.values())
    columns["weights"] = importance_weights(
        columns.pop("mass"),
        float(totals.sum()),
        None if request.by_batch else min(status.least for status in statuses.values()),
        size,
        beta_at(request.beta, lambda: steps_added),
    )
    handles = [
        UnionHandle(
            piece.part,
            where,
            RowHandle(
                piece.proposal.handle.rows[piece.chosen],
                piece.proposal.handle.generations[piece.chosen],
                piece.proposal.handle.incarnation,
            ),
        )
        for piece, where in zip(pieces, positions, strict=True)
    ]
    return UnionDraw(columns, handles, activity, acceptance)


def _draw_fitting(
    parts: Sequence[int], n: int, request: UnionRequest, rng: np.random.Generator
) -> Generator[Calls, Replies, list[_Piece]]:
    """Draws `n` transitions from the rows that can serve them, when few can."""
    (low, high), least = request.n_step, request.gather.least
    replies = yield dict.fromkeys(parts, ("fitting", (low, high, least)))
    masses = np.array([replies[part][0][0] for part in parts])
    if not masses.any():
        raise too_short(low, least, max(reply[1] for reply, _ in replies.values()))
    which, within = _split(rng.random(n), masses)
    choices = rng.random(n)
    shares = {part: which == i for i, part in enumerate(parts) if (which == i).any()}
    replies = yield {
        part: ("propose_fitting", (within[share], choices[share], low, high, request.gather))
        for part, share in shares.items()
    }
    return [_Piece(part, reply, reply.positions) for part, (reply, _) in replies.items()]


def _split(uniform: Floats, totals: Floats) -> tuple[Positions, Floats]:
    """For each fraction of the sum of `totals` the part it falls in, and the fraction of that."""
    edges = np.concatenate([[0.0], np.cumsum(totals)])
    at = uniform * edges[-1]
    filled = np.flatnonzero(totals)
    which = filled[np.searchsorted(edges[filled[1:]], at, side="right")]
    within = (at - edges[which]) / totals[which]
    return which, np.clip(within, 0.0, np.nextafter(1.0, 0.0))


def _log(
    activity: Activity,
    pieces: Sequence[_Piece],
    positions: Sequence[Positions],
    columns: dict[str, Any],
    resampled: int,
) -> None:
    """Adds one sample to the activity."""
    part_of = np.empty(len(columns["slot"]), np.int64)
    rows = np.empty(len(part_of), np.int64)
    for piece, where in zip(pieces, positions, strict=True):
        part_of[where] = piece.part
        rows[where] = piece.proposal.handle.rows[piece.chosen]
    activity.log_sample(
        steps=num_steps(columns),
        distinct_steps=len(np.unique(part_of << 32 | rows)),
        distinct_episodes=len(np.unique(part_of << 32 | columns["slot"])),
        resampled=resampled,
        mean_n_step=float(columns["n_step"].mean()),
    )
