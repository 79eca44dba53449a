"""Which steps of sequences RLlib sent to which learner, and the priorities from their TD errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.rllib.send_record import SendRecord
from rllib_per_acc.sampling import Floats, checked_priorities
from rllib_per_acc.sequences import sequence_priorities


class SequenceRecord(SendRecord):
    """The steps of all pieces of sequences that were pickled; the rows of the record are steps.

    Args:
        lengths: Steps of each sequence of the batch, int64 of shape (B,).
        burn_in: So many first steps of a sequence, or of what a learner gets of it, do not count:
            the learner does not train on them.
        eta: See `sequence_priorities`.
    """

    def __init__(self, lengths: NDArray[np.int64], burn_in: int, eta: float) -> None:
        ends = np.cumsum(lengths).tolist()
        super().__init__(ends[-1])
        self.rows = [range(end - n, end) for n, end in zip(lengths.tolist(), ends, strict=True)]
        self._lengths = lengths
        self._burn_in = burn_in
        self._eta = eta

    def priorities(self, td_errors: NDArray[np.floating]) -> Floats:
        """The priorities of all sequences, from the TD errors of their steps.

        Args:
            td_errors: As RLlib's learners return them, a row of T for each piece that they got,
                or several where T is less than its length. What is past the end of a piece is the
                learner's padding and is left out.

        Raises:
            TypeError, ValueError: If they are not finite numbers of such a shape.
            RuntimeError: If what was sent does not hold every step exactly once.
        """
        pieces = self._sent or self.rows
        shape = np.shape(td_errors)
        row_length = max(shape[1], 1) if len(shape) == 2 else int(self._lengths.max())
        num_rows = [-(-len(piece) // row_length) for piece in pieces]
        if shape != (sum(num_rows), row_length):
            raise ValueError(
                f"priorities: got shape {shape}, expected ({sum(num_rows)}, {row_length}): TD "
                "errors of the steps of sequences, which are padded to one length"
            )
        starts = (np.cumsum(num_rows) - num_rows) * row_length
        steps = [np.arange(len(p)) + start for p, start in zip(pieces, starts, strict=True)]
        at = np.concatenate(steps)
        counted = at % row_length >= self._burn_in
        return sequence_priorities(
            self._in_batch_order(checked_priorities(np.ravel(td_errors)[at], len(at))),
            self._in_batch_order(counted),
            self._lengths,
            self._eta,
        )
