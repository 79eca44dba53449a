"""Multi-agent buffers, ours and RLlib's beside it, with the same content."""

import numpy as np
import pytest
from multi_agent_oracle import MultiAgentOracle, masses_of, read_modules

from rllib_per_acc import AccMultiAgentPrioritizedEpisodeReplayBuffer

TYPE = "rllib_per_acc.AccMultiAgentPrioritizedEpisodeReplayBuffer"


def make_buffer(capacity: int = 1000, **options) -> AccMultiAgentPrioritizedEpisodeReplayBuffer:
    return AccMultiAgentPrioritizedEpisodeReplayBuffer(
        capacity, **({"alpha": 0.6, "num_shards": 0, "seed": 1} | options)
    )


def filled(sample_format: str, adds: list, capacity: int = 1000, **options) -> tuple:
    ours = make_buffer(capacity, sample_format=sample_format, **options)
    theirs = MultiAgentOracle(capacity, alpha=options.get("alpha", 0.6))
    for episodes in adds:
        ours.add(episodes)
        theirs.add(episodes)
    return ours, theirs


def uneven(sample_format: str, adds: list, **options) -> tuple:
    """Both buffers with the same uneven priorities."""
    ours, theirs = filled(sample_format, adds, **options)
    rows = read_modules(ours.sample(num_items=700, beta=0.4))
    for module_id, some in rows.items():
        wanted = {s: (1 + i % 13) / 8 for i, s in enumerate(sorted(theirs.leaf_of(module_id)))}
        ours.update_priorities(np.array([wanted[row.step] for row in some]), module_id)
        theirs.set_priorities(module_id, {row.step: wanted[row.step] for row in some})
        assert masses_of(ours, module_id) == pytest.approx(theirs.masses(module_id), rel=1e-15)
    return ours, theirs
