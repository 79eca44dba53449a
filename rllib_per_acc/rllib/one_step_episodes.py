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
from rllib_per_acc.rllib.row_group import Owner
from rllib_per_acc.rllib.send_record import SendRecord
from rllib_per_acc.rllib.sent_episode import SLOTS, SentEpisode
from rllib_per_acc.structures import flatten, layout_of, map_leaves, unflatten


def one_step_episodes(
    batch: ReplayBatch,
    spaces: tuple[Any, Any],
    owners: Sequence[Owner] | None = None,
    *,
    to_numpy: bool = False,
) -> tuple[list[SingleAgentEpisode], SendRecord]:
    """The rows of a batch as RLlib's buffers return them from `sample`.

    Args:
        batch: B sampled rows, perhaps with the steps before each (`sequences.steps_before`): these
            become the lookback of its episode.
        spaces: Observation and action space of the episodes.
        owners: For each row the agent whose it is, where there are several agents.
        to_numpy: Whether the episodes hold arrays. Those with a lookback always do: RLlib's
            connectors that look back, as its frame stacking, take arrays only.

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
    if to_numpy or "before" in batch.columns:
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
        before = batch.columns.get("before", {})
        self.lookback = batch.lookback.tolist() if before else [0] * len(batch)
        self.observations = self._runs(
            before.get("observations"), batch.observations, batch.next_observations
        )
        self.actions = self._runs(before.get("actions"), batch.actions)
        self.rewards = self._runs(before.get("rewards"), batch.rewards)
        self.infos: list[list[Any]] | None = None
        if "infos" in batch.columns:
            self.infos = self._runs(before.get("infos"), batch.infos, batch.next_infos)
        own = {"weights": batch.weights, "n_step": batch.n_step}
        stored = batch.columns.get("extra_model_outputs", {})
        outputs_before = before.get("extra_model_outputs", {})
        self.outputs = {
            **{k: [[v] * (n + 1) for v, n in zip(values.tolist(), self.lookback, strict=True)]
               for k, values in own.items()},
            **{k: self._runs(outputs_before.get(k), values) for k, values in stored.items()},
        }  # fmt: skip
        self.terminateds = batch.terminateds.tolist()
        self.truncateds = batch.truncateds.tolist()
        self.t = batch.t.tolist()
        self.id = os.urandom(12).hex()
        self.owners = owners
        self.episode_ids = batch.columns.get("episode_id")
        self.template = SingleAgentEpisode(
            observations=self.observations[0][-2:],
            observation_space=spaces[0],
            actions=self.actions[0][-1:],
            action_space=spaces[1],
            rewards=self.rewards[0][-1:],
            extra_model_outputs={key: runs[0][-1:] for key, runs in self.outputs.items()},
            len_lookback_buffer=0,
        )

    def _buffer(
        self, like: InfiniteLookbackBuffer, runs: list[list[Any]], position: int
    ) -> InfiniteLookbackBuffer:
        return _like(like, runs[position], self.lookback[position])

    def _runs(self, before: Any, *steps: Any) -> list[list[Any]]:
        """For each row its items of the steps before it, of which only some may be there, and on.

        Args:
            before: Nested arrays of shape (B, L, ...), or None.
            steps: Nested arrays of B items.
        """
        runs = [list(run) for run in zip(*map(_items, steps), strict=True)]
        if before is None:
            return runs
        items = _items(map_leaves(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), before))
        length = len(items) // len(runs)
        return [
            items[(i + 1) * length - n : (i + 1) * length] + run
            for i, (n, run) in enumerate(zip(self.lookback, runs, strict=True))
        ]

    def attribute(self, name: str, position: int) -> Any:
        """What the episode at `position` has under `name`."""
        like = self.template
        if name == "id_":
            if self.episode_ids is not None:
                return self.episode_ids[position]
            return f"{self.id}{position:08x}"
        if name in ("observations", "actions", "rewards"):
            return self._buffer(getattr(like, name), getattr(self, name), position)
        if name == "infos":
            if self.infos is None:
                infos: list[Any] = [{} for _ in self.observations[position]]
                return _like(like.infos, infos, self.lookback[position])
            return self._buffer(like.infos, self.infos, position)
        if name == "extra_model_outputs":
            return {
                key: self._buffer(like.extra_model_outputs[key], runs, position)
                for key, runs in self.outputs.items()
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


def _like(buffer: InfiniteLookbackBuffer, data: list[Any], lookback: int) -> InfiniteLookbackBuffer:
    """A buffer with other data and lookback, and the other settings of `buffer`."""
    made = InfiniteLookbackBuffer.__new__(InfiniteLookbackBuffer)
    made.__dict__.update(buffer.__dict__)
    made.data = data
    made.lookback = lookback
    return made


def _items(struct: Any) -> list[Any]:
    """The single items of nested arrays."""
    if isinstance(struct, np.ndarray):
        return list(struct)
    layout = layout_of(struct)
    leaves = flatten(struct, layout, "batch")
    return [unflatten(list(item), layout) for item in zip(*leaves, strict=True)]
