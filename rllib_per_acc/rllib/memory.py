"""What RLlib's buffer takes when it is full, from the spaces of its environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.memory_estimate import check_capacity
from rllib_per_acc.replay_options import ReplayOptions
from rllib_per_acc.rllib.space_values import stacked
from rllib_per_acc.shards.shard_options import ShardOptions
from rllib_per_acc.step_columns import StepColumns


def check_memory(
    capacity: int,
    options: ReplayOptions,
    shards: ShardOptions,
    observation_space: Any,
    action_space: Any,
) -> None:
    """Logs about how much memory a buffer for these spaces takes when it is full.

    Args:
        capacity: In steps.
        options: Of the replay.
        shards: How many there are, and where. Those on other machines are taken to be on such as
            this one.
        observation_space: Of one environment.
        action_space: Likewise.

    Raises:
        ValueError: If one machine would have to hold more than this one can.
    """
    observations = stacked([observation_space.sample() for _ in range(2)], observation_space)
    actions = stacked([action_space.sample()], action_space)
    step = EpisodeChunk("", observations, actions, np.zeros(1))
    columns = StepColumns(options.frame_stack)
    machines = shards.num_shards if shards.shard_placement == "spread" else 1
    check_capacity(capacity // max(machines, 1), columns.bytes_per_step(columns.prepare([step])))
