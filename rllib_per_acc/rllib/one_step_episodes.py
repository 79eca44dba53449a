"""Sampled rows as RLlib's one-step episodes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

from rllib_per_acc.replay_batch import ReplayBatch
from rllib_per_acc.rllib.send_record import SendRecord
from rllib_per_acc.structures import flatten, layout_of, unflatten

_SLOTS = tuple(SingleAgentEpisode.__slots__)


def one_step_episodes(
    batch: ReplayBatch, observation_space: Any, action_space: Any
) -> tuple[list[SingleAgentEpisode], SendRecord]:
    """The rows of a batch as RLlib's `PrioritizedEpisodeReplayBuffer.sample` returns them.

    Args:
        batch: B sampled rows.
        observation_space: Of the episodes.
        action_space: Of the episodes.

    Returns:
        B episodes, and the record of where they are sent.
    """
    record = SendRecord(len(batch))
    items = BatchItems(batch, observation_space, action_space)
    return [OneStepEpisode(items, position, record) for position in range(len(batch))], record


class BatchItems:
    """The items of a batch, one by one, as RLlib's one-step episodes hold them.

    RLlib's constructor looks into the spaces for every episode anew; here it runs once, and
    attributes of all episodes start as copies of what it made.
    """

    def __init__(self, batch: ReplayBatch, observation_space: Any, action_space: Any) -> None:
        infos = batch.columns.get("infos")
        self.observations = _items(batch.observations)
        self.next_observations = _items(batch.next_observations)
        self.actions = _items(batch.actions)
        self.rewards = list(batch.rewards)
        self.infos = None if infos is None else list(zip(infos, batch.next_infos, strict=True))
        self.outputs = {
            "weights": batch.weights.tolist(),
            "n_step": batch.n_step.tolist(),
            **{k: _items(v) for k, v in batch.columns.get("extra_model_outputs", {}).items()},
        }
        self.terminateds = batch.terminateds.tolist()
        self.truncateds = batch.truncateds.tolist()
        self.t = batch.t.tolist()
        self.id = os.urandom(12).hex()
        self.template = SingleAgentEpisode(
            observations=[self.observations[0], self.next_observations[0]],
            observation_space=observation_space,
            actions=[self.actions[0]],
            action_space=action_space,
            rewards=[self.rewards[0]],
            extra_model_outputs={key: [values[0]] for key, values in self.outputs.items()},
            len_lookback_buffer=0,
        )

    def attribute(self, name: str, position: int) -> Any:
        """What the episode at `position` has under `name`."""
        like = self.template
        if name == "id_":
            return f"{self.id}{position:08x}"
        if name == "observations":
            data = [self.observations[position], self.next_observations[position]]
            return _like(like.observations, data)
        if name == "actions":
            return _like(like.actions, [self.actions[position]])
        if name == "rewards":
            return _like(like.rewards, [self.rewards[position]])
        if name == "infos":
            return _like(like.infos, list(self.infos[position]) if self.infos else [{}, {}])
        if name == "extra_model_outputs":
            return {
                key: _like(like.extra_model_outputs[key], [values[position]])
                for key, values in self.outputs.items()
            }
        if name == "is_terminated":
            return self.terminateds[position]
        if name == "is_truncated":
            return self.truncateds[position]
        if name == "t_started":
            return self.t[position]
        if name == "t":
            return self.t[position] + 1
        if name == "_custom_data":
            return {}
        return getattr(like, name)


class OneStepEpisode(SingleAgentEpisode):
    """An episode of one (n-step) transition, made when it is read, attribute by attribute.

    It notes when it is sent to a learner; there it is RLlib's own class.
    """

    __slots__ = ("_from_batch", "_position", "_record")

    def __init__(self, items: BatchItems, position: int, record: SendRecord) -> None:
        # RLlib's constructor would make everything at once.
        self._from_batch = items
        self._position = position
        self._record = record

    def __getattr__(self, name: str) -> Any:
        if name not in _SLOTS:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = self._from_batch.attribute(name, self._position)
        setattr(self, name, value)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        self._record.log(range(self._position, self._position + 1))
        return _received, (_state_of(self),)

    def __copy__(self) -> SingleAgentEpisode:
        return _received(_state_of(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> SingleAgentEpisode:
        return SingleAgentEpisode.from_state(self.get_state())


def _state_of(episode: SingleAgentEpisode) -> dict[str, Any]:
    return {name: getattr(episode, name) for name in _SLOTS}


def _received(state: dict[str, Any]) -> SingleAgentEpisode:
    """RLlib's own class on the learner's side."""
    episode = SingleAgentEpisode.__new__(SingleAgentEpisode)
    for name, value in state.items():
        setattr(episode, name, value)
    return episode


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
