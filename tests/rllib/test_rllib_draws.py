"""From the same random numbers the same transitions as RLlib's buffer, until rows are reused.

Rows are laid out in the order in which whole episodes come, as RLlib's leaves are; the rows of
last observations between them have no mass.
"""

from collections import Counter

import numpy as np
import pytest
from rllib_episodes import ENDS, make_episode
from rllib_oracle import RLlibOracle, read_rows

from rllib_per_acc import AccPrioritizedEpisodeReplayBuffer


@pytest.mark.parametrize("seed", [0, 7, 123])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("sample_format", ["rows", "episodes"])
def test_same_draws(seed: int, n: int, sample_format: str) -> None:
    lengths = np.random.default_rng(seed).integers(1, 20, 30)
    episodes = [make_episode(i, int(k), ENDS[i % 2]) for i, k in enumerate(lengths)]
    ours = AccPrioritizedEpisodeReplayBuffer(
        1000, alpha=1.0, num_shards=0, seed=seed, sample_format=sample_format
    )
    theirs = RLlibOracle(1000, alpha=1.0)
    theirs.rng = np.random.default_rng(seed)
    ours.add(episodes)
    theirs.add(episodes)
    for _ in range(20):
        mine = read_rows(ours.sample(num_items=64, n_step=n, gamma=0.9, beta=0.4))
        rllib = read_rows(theirs.sample(num_items=64, n_step=n, gamma=0.9, beta=0.4))
        assert Counter(row.transition for row in mine) == Counter(r.transition for r in rllib)
        # Whole multiples of 1/64 add up exactly, in whatever order the trees add them.
        new = {step: (1 + (7 * step[0] + step[1]) % 50) / 64 for step in {row.step for row in mine}}
        ours.update_priorities(np.array([new[row.step] for row in mine]))
        theirs.set_priorities(new)
