"""Columns of several batches put together into one, with one copy of each leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.structures import flatten, layout_of, unflatten

Positions = NDArray[np.int64]


def join(
    pieces: Sequence[tuple[dict[str, Any], Positions]],
) -> tuple[dict[str, Any], list[Positions]]:
    """Joins chosen rows of several batches; those that end an episode come last.

    Args:
        pieces: Of each batch its columns (`terminateds` and `truncateds` among them) and which of
            its rows to take.

    Returns:
        The columns, and for each piece where its chosen rows are now.

    Raises:
        ValueError: If the columns of two batches are not nested alike.
    """
    inner, ending = [], []
    for columns, chosen in pieces:
        ends = (columns["terminateds"] | columns["truncateds"])[chosen]
        inner.append(~ends)
        ending.append(ends)
    starts = np.cumsum([0, *(part.sum() for part in [*inner, *ending])])
    moves: list[tuple[int, Positions, slice]] = []
    positions = [np.empty(len(chosen), np.int64) for _, chosen in pieces]
    for i, part in enumerate([*inner, *ending]):
        piece, where = i % len(pieces), slice(starts[i], starts[i + 1])
        moves.append((piece, pieces[piece][1][part], where))
        positions[piece][part] = np.arange(starts[i], starts[i + 1])

    layout = layout_of(pieces[0][0])
    leaves_of = [flatten(columns, layout, "columns") for columns, _ in pieces]
    joined = []
    for leaves in zip(*leaves_of, strict=True):
        out = np.empty((starts[-1], *leaves[0].shape[1:]), np.result_type(*leaves))
        for piece, rows, where in moves:
            if leaves[piece].dtype == out.dtype:  # straight into its place
                np.take(leaves[piece], rows, axis=0, out=out[where], mode="clip")
            else:
                out[where] = leaves[piece][rows]
        joined.append(out)
    return unflatten(joined, layout), positions


def placed(pieces: Sequence[tuple[Any, Positions]]) -> Any:
    """Joins nested arrays so that item i of a piece comes to its i-th position.

    Args:
        pieces: Of each piece the arrays, and the positions of their items; these are 0, 1, ... in
            all.

    Raises:
        ValueError: If two pieces are not nested alike.
    """
    layout = layout_of(pieces[0][0])
    leaves_of = [flatten(arrays, layout, "columns") for arrays, _ in pieces]
    size = sum(len(positions) for _, positions in pieces)
    joined = []
    for leaves in zip(*leaves_of, strict=True):
        out = np.empty((size, *leaves[0].shape[1:]), np.result_type(*leaves))
        for leaf, (_, positions) in zip(leaves, pieces, strict=True):
            out[positions] = leaf
        joined.append(out)
    return unflatten(joined, layout)
