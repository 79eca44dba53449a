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

    _record: SendRecord
    _position: int

    def __reduce__(self) -> tuple[Any, ...]:
        self._record.log(range(self._position, self._position + 1))
        return _received, (self._plain_state(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> SingleAgentEpisode:
        return SingleAgentEpisode.from_state(self.get_state())

    def _plain_state(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_record"], state["_position"]
        return state


def _received(state: dict[str, Any]) -> SingleAgentEpisode:
    """RLlib's own class on the learner's side."""
    episode = SingleAgentEpisode.__new__(SingleAgentEpisode)
    episode.__dict__.update(state)
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
    ids = os.urandom(16 * len(batch)).hex()
    episodes: list[SingleAgentEpisode] = []
    for i in range(len(batch)):
        episode = OneStepEpisode.__new__(OneStepEpisode)
        state = episode.__dict__
        state.update(template.__dict__)
        state["id_"] = ids[32 * i : 32 * i + 32]
        state["observations"] = _like(
            template.observations, [observations[i], next_observations[i]]
        )
        state["actions"] = _like(template.actions, [actions[i]])
        state["rewards"] = _like(template.rewards, [rewards[i]])
        state["infos"] = _like(
            template.infos, [{}, {}] if infos is None else [infos[i], batch.next_infos[i]]
        )
        state["extra_model_outputs"] = {
            key: _like(template.extra_model_outputs[key], [values[i]])
            for key, values in outputs.items()
        }
        state["is_terminated"] = terminateds[i]
        state["is_truncated"] = truncateds[i]
        state["t_started"] = steps[i]
        state["t"] = steps[i] + 1
        state["_custom_data"] = {}
        state["_record"] = record
        state["_position"] = i
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
