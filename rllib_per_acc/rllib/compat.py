"""Workarounds for Ray 2.60, each with the line of Ray it answers, so that it can be deleted."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any


class EpisodeBufferMeta(ABCMeta):
    """Lets a class stand where RLlib looks for a string.

    `Algorithm._create_local_replay_buffer_if_necessary` asks
    `"EpisodeReplayBuffer" in config["replay_buffer_config"]["type"]`, also of a class: under Tune
    `AlgorithmConfig.update_from_dict` has turned the dotted string into one by then.
    `SACConfig.validate` asks whether `type` is in a list of names of RLlib's own buffers.
    """

    def __contains__(cls, text: object) -> bool:
        return isinstance(text, str) and text in cls.__name__

    def __eq__(cls, other: Any) -> bool:
        if isinstance(other, str):
            return other == cls.__dict__.get("stands_for")
        return type.__eq__(cls, other)

    __hash__ = type.__hash__
