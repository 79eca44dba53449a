"""n-step transitions of a whole batch: the row reached and the discounted reward on the way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.columns import Rows


def follow(
    next_row: Rows,
    rewards: NDArray[np.float64],
    rows: Rows,
    n_step: NDArray[np.int64],
    gamma: float,
) -> tuple[Rows, NDArray[np.float64]]:
    """Follows the links `n_step` steps from each of `rows`.

    Rewards are summed from the last one backwards, r_i + gamma * (r_i+1 + ...), as the filter in
    RLlib's `PrioritizedEpisodeReplayBuffer.sample` does: the same bits.

    Args:
        next_row: For each row the row of the next step, int32.
        rewards: The reward of each row.
        rows: Where to start, int32 of shape (B,).
        n_step: Steps to take, >= 1 and never past the end of an episode, int64 of shape (B,).
        gamma: Discount per step.

    Returns:
        The rows reached (int32) and the discounted rewards (float64), both of shape (B,).
    """
    longest = int(n_step.max())
    uniform = longest == int(n_step.min())
    path = [rows]
    for i in range(longest):
        following = next_row.take(path[-1])
        path.append(following if uniform else np.where(i < n_step, following, path[-1]))
    total = np.zeros(len(rows))
    for i in reversed(range(longest)):
        longer = rewards.take(path[i])
        if i < longest - 1:
            longer += gamma * total
        total = longer if uniform else np.where(i < n_step, longer, total)
    return path[-1], total
