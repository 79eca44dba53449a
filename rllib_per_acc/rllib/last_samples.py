"""Samples whose TD errors are to come back, and which of them these belong to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from rllib_per_acc.replay_batch import ReplayBatch
from rllib_per_acc.rllib.send_record import SendRecord

KEPT = 4
"""So many samples of a module wait for their TD errors in an actor."""


class Sample(list[Any]):
    """Sampled episodes.

    Attributes:
        sample_id: Names the sample in `update_priorities`.
    """

    sample_id: int


@dataclass(frozen=True, slots=True)
class SentSample:
    """A sample on its way to the learners.

    Attributes:
        batch: What was sampled.
        record: Where its rows were sent.
        thread: That of the sample.
    """

    batch: ReplayBatch
    record: SendRecord
    thread: int = field(default_factory=threading.get_ident)

    def update(self, td_errors: Any) -> None:
        """Gives the rows new priorities; see `update_priorities` of the buffers."""
        self.batch.update(self.record.priorities(td_errors))


class LastSamples:
    """The samples that wait for TD errors, by module; None where there is but one.

    RLlib's `update_priorities` means the last sample, whoever drew it. Another thread's is refused.
    In an actor threads mean nothing, since Ray picks one for each call: there callers may not
    take turns between a sample and its update, unless they name the samples.

    Args:
        in_actor: Whether the buffer was itself made into an actor.
    """

    def __init__(self, in_actor: bool) -> None:
        self._in_actor = in_actor
        self._ids = count(1)
        self._waiting: dict[Any, dict[int, SentSample]] = {}
        self._in_turns: set[Any] = set()

    def drawn(self, episodes: list[Any], samples: Mapping[Any, SentSample]) -> Sample:
        """The episodes of the last sample, which by module consists of these."""
        sample = Sample(episodes)
        sample.sample_id = next(self._ids)
        if not self._in_actor:
            self._waiting = {}
        for module_id, sent in samples.items():
            waiting = self._waiting.setdefault(module_id, {})
            waiting[sample.sample_id] = sent
            if len(waiting) > KEPT:
                self._in_turns.add(module_id)
                del waiting[next(iter(waiting))]
        return sample

    def update(self, module_id: Any, td_errors: Any, sample_id: int | None = None) -> None:
        """Gives the rows of a module in a sample new priorities.

        Args:
            module_id: The module.
            td_errors: As RLlib's learners return them.
            sample_id: Of the sample; None for the last one.

        Raises:
            RuntimeError: If it is not known which sample they belong to.
            TypeError, ValueError: If they are no numbers, one for each row. Nothing is changed.
        """
        waiting = self._waiting.get(module_id, {})
        if sample_id is None:
            sample_id = self._last(module_id, waiting)
        elif sample_id not in waiting:
            raise RuntimeError(
                f"sample_id: got {sample_id!r}, expected one of {list(waiting)}, the last samples "
                f"{_of(module_id)}that were not updated yet"
            )
        waiting[sample_id].update(td_errors)
        del waiting[sample_id]

    def _last(self, module_id: Any, waiting: dict[int, SentSample]) -> int:
        if len(waiting) > 1:
            self._in_turns.add(module_id)
        if module_id in self._in_turns:
            raise RuntimeError(
                f"update_priorities: got priorities {_of(module_id)}after more than one sample, "
                "expected one update after each sample, or the argument sample_id, an attribute "
                "of the sample: callers of this actor take turns, and rows would get priorities "
                "of others"
            )
        for sample_id, sample in waiting.items():
            if not self._in_actor and sample.thread != threading.get_ident():
                raise RuntimeError(
                    "update_priorities: got priorities in another thread than that of the last "
                    "sample, expected both in one, or the argument sample_id, an attribute of the "
                    "sample: here priorities mean the last sample, whoever drew it"
                )
            return sample_id
        sampled = [id_ for id_, waiting in self._waiting.items() if waiting]
        if module_id is None and sampled:
            raise RuntimeError(f"module_id: got None, expected one that was sampled: {sampled}")
        raise RuntimeError(
            f"update_priorities: got priorities {_of(module_id)}without a sample before them, "
            "expected one update after each sample"
        )

    def forget(self, module_id: Any) -> None:
        """The samples of a module can no longer be updated."""
        self._waiting.pop(module_id, None)

    def clear(self) -> None:
        """No sample can be updated any more."""
        self._waiting = {}


def _of(module_id: Any) -> str:
    return "" if module_id is None else f"of module {module_id!r} "
