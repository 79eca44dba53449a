"""Which sampled rows RLlib sent to which learner, so that TD errors find their rows.

With remote learners RLlib sorts, slices and deals the sampled episodes, and the TD errors come
back learner by learner. The pieces are pickled in that very order, one learner's after the other,
so the order of pickling is the order of the TD errors. A local learner gets them as sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.sampling import checked_priorities


class SendRecord:
    """The positions (in the batch) of all pieces that were pickled, in order.

    Args:
        num_rows: Rows of the batch.
        order: The positions as the sample has them; None for the order of the batch.
    """

    def __init__(self, num_rows: int, order: Sequence[int] | None = None) -> None:
        self._num_rows = num_rows
        self._order = order
        self._sent: list[range] = []

    def log(self, positions: range) -> None:
        """Notes that a piece with these rows has been sent."""
        self._sent.append(positions)

    def priorities(self, td_errors: Any) -> Any:
        """What `ReplayBatch.update` wants, from TD errors as RLlib returns them.

        Raises:
            TypeError, ValueError: If they are not finite numbers, one for each row.
            RuntimeError: If what was sent does not hold every row exactly once.
        """
        if self._order is None and not self._sent:
            return td_errors
        return self._in_batch_order(checked_priorities(td_errors, self._num_rows))

    def _in_batch_order(self, sent_values: NDArray[Any]) -> NDArray[Any]:
        """Values of all rows in the order in which these were sent, in the order of the batch.

        Raises:
            RuntimeError: If what was sent does not hold every row exactly once.
        """
        if self._sent:
            order = np.concatenate([np.arange(r.start, r.stop) for r in self._sent])
        elif self._order is not None:
            order = np.asarray(self._order)
        else:
            return sent_values
        times = np.bincount(order, minlength=self._num_rows)
        if len(order) != self._num_rows or (times != 1).any():
            raise RuntimeError(
                f"update_priorities: got TD errors of a batch of {self._num_rows} rows of which "
                f"{int((times == 0).sum())} were sent to no learner and "
                f"{int((times > 1).sum())} more than once, expected each once: was the sample "
                "pickled by something else than RLlib, or is a learner gone?"
            )
        ordered = np.empty_like(sent_values)
        ordered[order] = sent_values
        return ordered
