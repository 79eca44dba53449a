"""Sampled sequences as RLlib episodes, and the way back for the TD errors of their steps."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.rllib.core import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

from rllib_per_acc.replay_batch import ReplayBatch
from rllib_per_acc.replay_options import SequenceShape
from rllib_per_acc.rllib.send_record import SendRecord
from rllib_per_acc.rllib.sent_episode import SLOTS, SentEpisode
from rllib_per_acc.sampling import checked_priorities
from rllib_per_acc.sequences import sequence_priorities
from rllib_per_acc.structures import map_leaves


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
        for name in SLOTS:
            setattr(self, name, getattr(episode, name))
        # Connectors tell episodes apart by their ids, and a batch may hold one twice.
        self.id_ = f"{self.id_[:24]}{rows.start:08x}"

    def slice(self, slice_: slice, *, len_lookback_buffer: int | None = None) -> SequenceEpisode:
        """Some of the steps, as RLlib deals them to learners."""
        piece = super().slice(slice_, len_lookback_buffer=len_lookback_buffer)
        return SequenceEpisode(piece, self._record, self._rows[slice_])


class SentSequences:
    """Sampled sequences on their way to the learners, whose TD errors are to come back.

    Args:
        batch: What was sampled.
        shape: Of the sequences; before its `least` step is the burn-in.
        eta: See `sequence_priorities`.
    """

    def __init__(self, batch: ReplayBatch, shape: SequenceShape, eta: float) -> None:
        self._batch = batch
        self._shape = shape
        self._eta = eta
        self._lengths: NDArray[np.int64] = batch.length
        ends = np.cumsum(self._lengths)
        self._rows = [range(end - n, end) for n, end in zip(self._lengths, ends, strict=True)]
        self._record = SendRecord(int(ends[-1]))

    def episodes(self, spaces: tuple[Any, Any]) -> list[SingleAgentEpisode]:
        """The sequences with the observation and the action space `spaces`, as RLlib slices them.

        That is with all outputs that the module had, and the steps before them as lookback.
        """
        id_ = os.urandom(12).hex()
        return [
            SequenceEpisode(self._episode(position, id_, spaces), self._record, rows)
            for position, rows in enumerate(self._rows)
        ]

    def _episode(self, position: int, id_: str, spaces: tuple[Any, Any]) -> SingleAgentEpisode:
        columns = self._batch.columns
        lookback, length = int(columns["lookback"][position]), int(self._lengths[position])
        first, last = self._shape.lookback - lookback, self._shape.lookback + length

        def cut(values: Any, last: int) -> Any:
            return map_leaves(lambda leaf: leaf[position, first:last], values)

        def buffer(data: Any) -> InfiniteLookbackBuffer:
            return InfiniteLookbackBuffer(data, lookback)

        steps = lookback + length
        infos = columns.get("infos")
        outputs = {
            key: buffer(cut(values, last)) for key, values in columns["extra_model_outputs"].items()
        }
        t = int(columns["t"][position])
        if t and not lookback and Columns.STATE_OUT in outputs:
            outputs[Columns.STATE_OUT] = _after_zeros(outputs[Columns.STATE_OUT])
        outputs["n_step"] = buffer(np.ones(steps, np.int64))
        outputs["weights"] = buffer(np.full(steps, columns["weights"][position]))
        return SingleAgentEpisode(
            id_=id_,
            observations=buffer(cut(columns["observations"], last + 1)),
            observation_space=spaces[0],
            infos=buffer([{}] * (steps + 1) if infos is None else list(cut(infos, last + 1))),
            actions=buffer(cut(columns["actions"], last)),
            action_space=spaces[1],
            rewards=buffer(cut(columns["rewards"], last)),
            terminated=bool(columns["terminateds"][position]),
            truncated=bool(columns["truncateds"][position]),
            extra_model_outputs=outputs,
            t_started=t,
            len_lookback_buffer=0,
        )

    def update(self, td_errors: NDArray[np.floating[Any]]) -> None:
        """Gives the sequences new priorities, made of the TD errors of their steps.

        Args:
            td_errors: As RLlib's learners return them: a row of T for each sequence or piece of
                one, filled up with those of padding.
        """
        sent = self._record.sent or self._rows
        num_columns = np.shape(td_errors)[1] if np.ndim(td_errors) == 2 else self._shape.length
        num_rows = [-(-len(rows) // num_columns) for rows in sent]
        if np.shape(td_errors) != (sum(num_rows), num_columns):
            raise ValueError(
                f"priorities: got shape {np.shape(td_errors)}, expected ({sum(num_rows)}, "
                f"{num_columns}): a row for each sequence, padded to its length"
            )
        stops = np.cumsum(num_rows) * num_columns
        padded = np.concatenate(
            [
                np.arange(stop - n * num_columns, stop - n * num_columns + len(rows))
                for rows, n, stop in zip(sent, num_rows, stops, strict=True)
            ]
        )
        flat = checked_priorities(np.ravel(td_errors)[padded], len(padded))
        counted = padded % num_columns >= self._shape.least - 1
        priorities = sequence_priorities(
            self._record.in_batch_order(flat),
            self._record.in_batch_order(counted),
            self._lengths,
            self._eta,
        )
        self._batch.update(priorities)


def _after_zeros(states: InfiniteLookbackBuffer) -> InfiniteLookbackBuffer:
    """The states of steps, and zeros as the state before them, which is not stored."""
    data = map_leaves(lambda leaf: np.concatenate([np.zeros_like(leaf[:1]), leaf]), states.data)
    return InfiniteLookbackBuffer(data, lookback=1)
