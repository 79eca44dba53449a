"""Sampled rows as RLlib's one-step episodes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

from rllib_per_acc.replay import ReplayBatch
from rllib_per_acc.rllib.send_record import SendRecord
from rllib_per_acc.structures import flatten, layout_of, unflatten


class OneStepEpisode(SingleAgentEpisode):
    """An episode of one (n-step) transition that notes when it is sent to a learner."""

    __slots__ = ("_position", "_record")

    def __reduce__(self) -> tuple[Any, ...]:
        self._record.log(range(self._position, self._position + 1))
        return _received, (_slots_of(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> SingleAgentEpisode:
        return SingleAgentEpisode.from_state(self.get_state())


_SLOTS = tuple(SingleAgentEpisode.__slots__)


def _slots_of(episode: SingleAgentEpisode) -> dict[str, Any]:
    return {name: getattr(episode, name) for name in _SLOTS}


def _received(state: dict[str, Any]) -> SingleAgentEpisode:
    """RLlib's own class on the learner's side."""
    episode = SingleAgentEpisode.__new__(SingleAgentEpisode)
    for name, value in state.items():
        setattr(episode, name, value)
    return episode


def one_step_episodes(
    batch: ReplayBatch, observation_space: Any, action_space: Any, to_numpy: bool = False
) -> tuple[list[SingleAgentEpisode], SendRecord]:
    """The rows of a batch as RLlib's `PrioritizedEpisodeReplayBuffer.sample` returns them.

    RLlib's constructor looks into the spaces anew for every episode; here it runs once, and the
    other episodes start as copies of what it made.

    Args:
        batch: B sampled rows.
        observation_space: Of the episodes.
        action_space: Of the episodes.
        to_numpy: Whether to convert every episode's lists to arrays.

    Returns:
        B episodes, and the record of where they are sent.
    """
    record = SendRecord(len(batch))
    outputs = {
        "weights": batch.weights.tolist(),
        "n_step": batch.n_step.tolist(),
        **{k: _items(v) for k, v in batch.columns.get("extra_model_outputs", {}).items()},
    }
    observations = _items(batch.observations)
    next_observations = _items(batch.next_observations)
    actions = _items(batch.actions)
    rewards = list(batch.rewards)
    terminateds, truncateds = batch.terminateds.tolist(), batch.truncateds.tolist()
    steps = batch.t.tolist()
    infos = batch.columns.get("infos")
    template = SingleAgentEpisode(
        observations=[observations[0], next_observations[0]],
        observation_space=observation_space,
        actions=[actions[0]],
        action_space=action_space,
        rewards=[rewards[0]],
        extra_model_outputs={key: [values[0]] for key, values in outputs.items()},
        len_lookback_buffer=0,
    )
    common = _slots_of(template)
    ids = os.urandom(16 * len(batch)).hex()
    episodes: list[SingleAgentEpisode] = []
    for i in range(len(batch)):
        episode = OneStepEpisode.__new__(OneStepEpisode)
        for name, value in common.items():
            setattr(episode, name, value)
        episode.id_ = ids[32 * i : 32 * i + 32]
        both = [observations[i], next_observations[i]]
        episode.observations = _like(template.observations, both)
        episode.actions = _like(template.actions, [actions[i]])
        episode.rewards = _like(template.rewards, [rewards[i]])
        both = [{}, {}] if infos is None else [infos[i], batch.next_infos[i]]
        episode.infos = _like(template.infos, both)
        episode.extra_model_outputs = {
            key: _like(template.extra_model_outputs[key], [values[i]])
            for key, values in outputs.items()
        }
        episode.is_terminated = terminateds[i]
        episode.is_truncated = truncateds[i]
        episode.t_started = steps[i]
        episode.t = steps[i] + 1
        episode._custom_data = {}
        episode._record = record
        episode._position = i
        if to_numpy:
            episode.to_numpy()
        episodes.append(episode)
    return episodes, record


def _like(buffer: InfiniteLookbackBuffer, data: list[Any]) -> InfiniteLookbackBuffer:
    """A buffer with other data, and the settings of `buffer`."""
    made = InfiniteLookbackBuffer.__new__(InfiniteLookbackBuffer)
    made.__dict__.update(buffer.__dict__)
    made.data = data
    return made


def _items(struct: Any) -> list[Any]:
    """The single items of nested arrays."""
    if isinstance(struct, np.ndarray):
        return list(struct)
    layout = layout_of(struct)
    leaves = flatten(struct, layout, "batch")
    return [unflatten(list(item), layout) for item in zip(*leaves, strict=True)]
