"""RLlib episodes as chunks for the store."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.spaces.space_utils import batch as stack

from rllib_per_acc.episode_chunk import EpisodeChunk


def chunk_of(episode: SingleAgentEpisode) -> EpisodeChunk:
    """The steps of `episode`, without its lookback; arrays are shared, not copied."""
    return EpisodeChunk(
        episode_id=episode.id_,
        observations=_values(episode.observations),
        actions=_values(episode.actions),
        rewards=_values(episode.rewards),
        terminated=bool(episode.is_terminated),
        truncated=bool(episode.is_truncated),
        t_started=episode.t_started,
        infos=_list(episode.infos),
        extra_model_outputs={
            key: _values(outputs) for key, outputs in episode.extra_model_outputs.items()
        },
    )


def _list(buffer: InfiniteLookbackBuffer) -> list[Any] | None:
    items = buffer.data[buffer.lookback :]
    return items if any(items) else None


def _values(buffer: InfiniteLookbackBuffer) -> Any:
    """Everything after the lookback as nested arrays."""
    data, lookback = buffer.data, buffer.lookback
    if isinstance(data, np.ndarray):
        return data[lookback:]
    if isinstance(data, list):
        items = data[lookback:]
        if not items or not isinstance(items[0], dict | tuple):
            return items
        return stack(items)
    return buffer.get()
