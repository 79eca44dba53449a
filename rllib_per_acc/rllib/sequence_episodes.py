"""Sampled sequences as RLlib episodes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from ray.rllib.core import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

from rllib_per_acc.replay_batch import ReplayBatch
from rllib_per_acc.replay_options import SequenceShape
from rllib_per_acc.rllib.send_record import SendRecord
from rllib_per_acc.rllib.sent_episode import SentEpisode, state_of
from rllib_per_acc.rllib.sequence_record import SequenceRecord
from rllib_per_acc.structures import map_leaves


def sequence_episodes(
    batch: ReplayBatch, shape: SequenceShape, eta: float, spaces: tuple[Any, Any]
) -> tuple[list[SingleAgentEpisode], SequenceRecord]:
    """Sequences as RLlib's `EpisodeReplayBuffer.sample` slices them out of episodes, as arrays.

    That is with all outputs that the module had, and with the steps before them as lookback.

    Args:
        batch: B sampled sequences.
        shape: Of the sequences; the steps before its `least` are the burn-in.
        eta: See `sequence_priorities`.
        spaces: Observation and action space of the episodes.

    Returns:
        B episodes, and the record of where their steps are sent.
    """
    record = SequenceRecord(batch.length, shape.least - 1, eta)
    id_ = os.urandom(12).hex()
    episodes: list[SingleAgentEpisode] = [
        SequenceEpisode(_episode(batch, i, shape, spaces, id_), record, rows)
        for i, rows in enumerate(record.rows)
    ]
    return episodes, record


class SequenceEpisode(SentEpisode):
    """Steps of one episode, or what RLlib cuts from them for a learner.

    Args:
        episode: The steps.
        record: Where it is noted that they are sent.
        rows: Which of all steps in the batch they are.
    """

    __slots__ = ()

    def __init__(self, episode: SingleAgentEpisode, record: SendRecord, rows: range) -> None:
        super().__init__(record, rows)
        # Connectors tell episodes apart by their ids, and a batch may hold one twice.
        state = state_of(episode) | {"id_": f"{episode.id_[:24]}{rows.start:08x}"}
        for name, value in state.items():
            setattr(self, name, value)

    def slice(self, slice_: slice, *, len_lookback_buffer: int | None = None) -> SequenceEpisode:
        """Some of the steps, as RLlib deals them to learners."""
        piece = super().slice(slice_, len_lookback_buffer=len_lookback_buffer)
        return SequenceEpisode(piece, self._record, self._rows[slice_])


def _episode(
    batch: ReplayBatch, position: int, shape: SequenceShape, spaces: tuple[Any, Any], id_: str
) -> SingleAgentEpisode:
    lookback, length = int(batch.lookback[position]), int(batch.length[position])
    steps, start = lookback + length, shape.lookback - lookback

    def buffer(values: Any, n: int = steps) -> InfiniteLookbackBuffer:
        data = map_leaves(lambda leaf: leaf[position, start : start + n], values)
        return InfiniteLookbackBuffer(data, lookback)

    outputs = {key: buffer(values) for key, values in batch.extra_model_outputs.items()}
    t = int(batch.t[position])
    if t and shape.lookback and not lookback and Columns.STATE_OUT in outputs:
        outputs[Columns.STATE_OUT] = _after_zeros(outputs[Columns.STATE_OUT].data)
    outputs["n_step"] = InfiniteLookbackBuffer(np.ones(steps, np.int64), lookback)
    outputs["weights"] = InfiniteLookbackBuffer(np.full(steps, batch.weights[position]), lookback)
    infos: list[dict[str, Any]] = [{} for _ in range(steps + 1)]
    if "infos" in batch.columns:
        infos = batch.infos[position, start : start + steps + 1].tolist()
    return SingleAgentEpisode(
        id_=id_,
        observations=buffer(batch.observations, steps + 1),
        observation_space=spaces[0],
        infos=InfiniteLookbackBuffer(infos, lookback),
        actions=buffer(batch.actions),
        action_space=spaces[1],
        rewards=buffer(batch.rewards),
        terminated=bool(batch.terminateds[position]),
        truncated=bool(batch.truncateds[position]),
        extra_model_outputs=outputs,
        t_started=t,
        len_lookback_buffer=0,
    )


def _after_zeros(states: Any) -> InfiniteLookbackBuffer:
    """States of steps that begin in the middle of their episode, where no state is stored.

    That happens where the steps before were evicted while the episode went on.
    """
    data = map_leaves(lambda leaf: np.concatenate([np.zeros_like(leaf[:1]), leaf]), states)
    return InfiniteLookbackBuffer(data, lookback=1)
