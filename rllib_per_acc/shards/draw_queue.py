"""DrawQueue: the draws of a sharded replay, some of them made ahead, through losses of shards."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rllib_per_acc.draws import NothingToSampleError
from rllib_per_acc.replay_options import (
    BetaSchedule,
    NStep,
    ReplayOptions,
    SequenceShape,
    beta_at,
    n_step_range,
    non_negative,
    positive_int,
)
from rllib_per_acc.replay_part import GatherOptions
from rllib_per_acc.replay_union import UnionDraw, UnionRequest, draw_from_parts
from rllib_per_acc.shards.connection import ShardLostError
from rllib_per_acc.shards.draw import Draw, SingleDraw, draw_from_one
from rllib_per_acc.shards.shard_group import ShardGroup

logger = logging.getLogger(__name__)

Drawn = SingleDraw | UnionDraw


class Request(NamedTuple):
    """The arguments of `PrioritizedReplay.sample`."""

    num_items: int
    n_step: NStep = 1
    gamma: float = 0.99
    beta: BetaSchedule | None = None
    include_infos: bool = False
    include_extra_model_outputs: bool = False
    include_episode_ids: bool = False
    incomplete_n_step: str | None = None
    sequences: SequenceShape | None = None

    @classmethod
    def checked(cls, num_items: int, arguments: Mapping[str, Any]) -> Request:
        """A request, of which everything is checked that can be checked without a replay.

        Raises:
            TypeError, ValueError: If an argument is unknown or wrong.
        """
        for name in arguments:
            if name not in cls._fields[1:]:
                known = ", ".join(cls._fields)
                raise TypeError(f"sample: got an argument {name!r}, expected some of {known}")
        request = cls(num_items, **arguments)
        positive_int("num_items", request.num_items)
        n_step_range(request.n_step)
        if request.sequences is not None:
            if not isinstance(request.sequences, SequenceShape):
                raise TypeError(
                    f"sequences: got {request.sequences!r:.80}, expected a SequenceShape or None"
                )
            request.sequences.check(request.n_step)
        non_negative("gamma", request.gamma)
        if request.beta is not None:
            beta_at(request.beta, int)
        for name in ("include_infos", "include_extra_model_outputs", "include_episode_ids"):
            if not isinstance(getattr(request, name), bool | np.bool_):
                raise TypeError(f"{name}: got {getattr(request, name)!r:.80}, expected a bool")
        if request.incomplete_n_step not in (None, "resample", "shorten"):
            raise ValueError(
                f"incomplete_n_step: got {request.incomplete_n_step!r:.80}, expected 'resample', "
                "'shorten' or None"
            )
        return request


class DrawQueue:
    """Draws from the shards of a group.

    Args:
        group: The shards.
        options: Of the replay.
        prefetch: How many draws to have under way ahead of those asked for.
    """

    def __init__(self, group: ShardGroup, options: ReplayOptions, prefetch: int) -> None:
        self._group = group
        self._options = options
        self._prefetch = prefetch
        self.rng = np.random.default_rng(options.seed)
        self._acceptance = 1.0
        self._ahead: deque[Draw] = deque()
        self._request: Request | None = None

    def __len__(self) -> int:
        return len(self._ahead)

    def state(self) -> dict[str, Any]:
        """What the next draws depend on, in JSON-able form."""
        return {"rng": self.rng.bit_generator.state, "acceptance": self._acceptance}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from such a state, which is checked."""
        self.clear()
        self.rng.bit_generator.state = state["rng"]
        self._acceptance = float(state["acceptance"])

    def clear(self) -> None:
        """Gives up the draws made ahead."""
        self._ahead.clear()

    def advance(self) -> None:
        """Lets the draws under way go on where replies have come; does not wait."""
        if len(self._group) == 1:
            return  # a draw is one call
        try:
            for draw in self._ahead:
                draw.advance()
        except (NothingToSampleError, ShardLostError):
            self._ahead.clear()

    def next(self, request: Request) -> Drawn:
        """The next draw that was made ahead for such a request, or a new one.

        Raises:
            NothingToSampleError: If there is nothing to draw from.
        """
        if request != self._request:
            self._ahead.clear()
            self._request = request

        def draw(up: list[int]) -> Drawn:
            try:
                if self._ahead:
                    return self._ahead.popleft().finish()
            except NothingToSampleError:
                self._ahead.clear()  # there may be something now
            except ShardLostError:
                self._ahead.clear()
                raise
            return self._start(request, up).finish()

        drawn = self._group.outlive(draw)
        if isinstance(drawn, UnionDraw):
            self._acceptance = drawn.acceptance
        while len(self._ahead) < self._prefetch:
            self._ahead.append(self._start(request, self._group.ready()))
        return drawn

    def next_shortened(self, request: Request) -> Drawn:
        """A new draw whose transitions may be cut short by the end of their episode."""
        shorter = request._replace(incomplete_n_step="shorten")
        return self._group.outlive(lambda up: self._start(shorter, up).finish())

    def _start(self, request: Request, up: list[int]) -> Draw:
        connections = self._group.connections
        if len(connections) == 1:
            options: dict[str, Any] = request._asdict()
            return Draw(draw_from_one(0, options.pop("num_items"), options), connections)
        options_ = self._options
        n_step, least = options_.steps_to_read(
            request.n_step, request.incomplete_n_step, request.sequences
        )
        union_request = UnionRequest(
            request.num_items,
            n_step,
            options_.beta if request.beta is None else request.beta,
            options_.sampling == "stratified",
            options_.weight_normalization == "batch",
            GatherOptions(
                request.gamma,
                least,
                request.include_infos,
                request.include_extra_model_outputs,
                request.include_episode_ids,
                request.sequences,
            ),
            options_.metrics_window,
        )
        # Draws under way at the same time may go on in any order: each has its own numbers.
        rng = np.random.default_rng(self.rng.integers(1 << 63))
        return Draw(draw_from_parts(up, union_request, rng, self._acceptance), connections)
