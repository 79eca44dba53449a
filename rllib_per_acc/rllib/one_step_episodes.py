"""Sampled rows as RLlib's one-step episodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

from rllib_per_acc.replay_batch import ReplayBatch
from rllib_per_acc.rllib.batch import Owner
from rllib_per_acc.rllib.send_record import SendRecord
from rllib_per_acc.rllib.sent_episode import SLOTS, SentEpisode
from rllib_per_acc.structures import flatten, layout_of, unflatten


def one_step_episodes(
    batch: ReplayBatch,
    spaces: tuple[Any, Any],
    owners: Sequence[Owner] | None = None,
    *,
    to_numpy: bool = False,
) -> tuple[list[SingleAgentEpisode], SendRecord]:
    """The rows of a batch as RLlib's buffers return them from `sample`.

    Args:
        batch: B sampled rows.
        spaces: Observation and action space of the episodes.
        owners: For each row the agent whose it is, where there are several agents.
        to_numpy: Whether the episodes hold arrays.

    Returns:
        B episodes, and the record of where they are sent. With `owners` the rows of an agent in
        an episode follow each other, as `AgentToModuleMapping` orders them in the train batch.
    """
    order = None if owners is None else _agent_by_agent(owners)
    record = SendRecord(len(batch), order)
    items = BatchItems(batch, spaces, owners)
    episodes: list[SingleAgentEpisode] = [
        OneStepEpisode(items, i, record) for i in (range(len(batch)) if order is None else order)
    ]
    if to_numpy:
        for episode in episodes:
            episode.to_numpy()
    return episodes, record


def _agent_by_agent(owners: Sequence[Owner]) -> list[int]:
    positions: dict[Owner, list[int]] = {}
    for position, owner in enumerate(owners):
        positions.setdefault(owner, []).append(position)
    return list(chain.from_iterable(positions.values()))


class BatchItems:
    """The items of a batch, one by one, as RLlib's one-step episodes hold them.

    RLlib's constructor looks into the spaces for every episode anew; here it runs once, and
    attributes of all episodes start as copies of what it made.
    """

    def __init__(
        self, batch: ReplayBatch, spaces: tuple[Any, Any], owners: Sequence[Owner] | None
    ) -> None:
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
        self.owners = owners
        self.episode_ids = batch.columns.get("episode_id")
        self.template = SingleAgentEpisode(
            observations=[self.observations[0], self.next_observations[0]],
            observation_space=spaces[0],
            actions=[self.actions[0]],
            action_space=spaces[1],
            rewards=[self.rewards[0]],
            extra_model_outputs={key: [values[0]] for key, values in self.outputs.items()},
            len_lookback_buffer=0,
        )

    def attribute(self, name: str, position: int) -> Any:
        """What the episode at `position` has under `name`."""
        like = self.template
        if name == "id_":
            if self.episode_ids is not None:
                return self.episode_ids[position]
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
        if self.owners is not None and name in Owner._fields:
            return getattr(self.owners[position], name)
        return getattr(like, name)


class OneStepEpisode(SentEpisode):
    """An episode of one (n-step) transition, made when it is read, attribute by attribute."""

    __slots__ = ("_from_batch", "_position")

    def __init__(self, items: BatchItems, position: int, record: SendRecord) -> None:
        # RLlib's constructor would make everything at once.
        super().__init__(record, range(position, position + 1))
        self._from_batch = items
        self._position = position

    def __getattr__(self, name: str) -> Any:
        if name not in SLOTS:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = self._from_batch.attribute(name, self._position)
        setattr(self, name, value)
        return value


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
