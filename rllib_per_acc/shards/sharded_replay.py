"""ShardedReplay: one replay whose rows are in one or several Ray actors."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import ray
from ray.actor import ActorHandle

from rllib_per_acc.activity import Activity
from rllib_per_acc.draws import NothingToSampleError
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.replay_batch import ReplayBatch
from rllib_per_acc.replay_options import (
    BetaSchedule,
    NStep,
    ReplayOptions,
    beta_at,
    n_step_range,
    positive_int,
)
from rllib_per_acc.replay_part import GatherOptions
from rllib_per_acc.replay_union import UnionDraw, UnionHandle, UnionRequest, draw_from_parts
from rllib_per_acc.sampling import Floats
from rllib_per_acc.shards.connection import ShardLostError
from rllib_per_acc.shards.draw import Draw, SingleDraw, draw_from_one
from rllib_per_acc.shards.placement import (
    PLACEMENT_TIMEOUT_S,
    ShardPlacementError,
    asked_and_there,
    start_shard,
)
from rllib_per_acc.shards.shard import ReplayShard
from rllib_per_acc.shards.shard_group import ShardGroup
from rllib_per_acc.shards.shard_options import ShardOptions
from rllib_per_acc.shards.writer import ShardWriter

logger = logging.getLogger(__name__)


class _Request(NamedTuple):
    """The arguments of `sample`."""

    num_items: int
    n_step: NStep
    gamma: float
    beta: BetaSchedule | None
    include_infos: bool
    include_extra_model_outputs: bool
    incomplete_n_step: str | None


class ShardedReplay:
    """A `ReplayClient` for a replay in one or several Ray actors, which it starts and ends.

    Capacity is split over the shards. An episode lives in one shard, new ones go to the least
    filled; each shard evicts its own oldest episodes. Draws and weights are those of one replay
    with all rows.

    Adds and priority updates are sent and not waited for, a bounded number at a time. A shard works
    in the order of the calls, so a sample sees everything that this client sent before it. An
    error in a call that was not waited for is raised by a later one.

    A shard that dies loses its rows. The others go on; it is started again and filled again. Until
    there are episodes as long as a transition after such a loss, transitions are cut short; when
    nothing is left to draw from, the chunks added last are added again.

    Not for use by several threads.

    Args:
        capacity: How many steps to keep in all.
        options: Fields of `ReplayOptions` by name.
        shard_options: How many shards, and where.
        shard_class: `ReplayShard` or a class derived from it.

    Raises:
        TypeError, ValueError: If an option has a wrong type or value.
        ShardPlacementError: If a shard cannot be started where it was asked to be.
        BackendUnavailableError: If the shards are to use a GPU and cannot.
    """

    def __init__(
        self,
        capacity: int,
        options: dict[str, Any] | None = None,
        shard_options: ShardOptions = ShardOptions(),  # noqa: B008 - immutable
        *,
        shard_class: type = ReplayShard,
    ) -> None:
        num_shards = positive_int("num_shards", shard_options.num_shards)
        if positive_int("capacity", capacity) < num_shards:
            raise ValueError(f"capacity: got {capacity}, expected at least num_shards={num_shards}")
        given = options or {}
        self.options = ReplayOptions(**given)
        self.capacity = capacity
        self._shard_options = shard_options
        self._capacities = [
            capacity // num_shards + (i < capacity % num_shards) for i in range(num_shards)
        ]
        self._rng = np.random.default_rng(self.options.seed)
        self._acceptance = 1.0
        self._ahead: deque[Draw] = deque()
        self._request: _Request | None = None
        self._last_added: tuple[Sequence[EpisodeChunk], Any] | None = None
        self._activity = Activity(self.options.metrics_window)
        self._reported = True
        self._max_priority = 1.0
        self._steps_sampled = 0

        self._actors: list[ActorHandle] = []
        self._end = weakref.finalize(self, _end, self._actors)
        self._end.atexit = False  # Ray ends the actors of a process that ends
        try:
            for shard_capacity in self._capacities:
                self._actors.append(
                    start_shard(
                        shard_capacity,
                        given | {"device": self.options.device},
                        shard_options,
                        shard_class,
                    )
                )
            self._group = ShardGroup(
                self._actors,
                self._capacities,
                owner=True,
                restarts=shard_options.restart_failed_shards,
            )
            self._wait_for_start()
        except BaseException:
            self.close()
            raise

    def _wait_for_start(self) -> None:
        late = [c.index for c in self._group.connections if not c.wait_until_up()]
        if late:
            raise ShardPlacementError(
                f"Of {len(self._group)} replay shards {len(late)} were not placed and started "
                f"within {PLACEMENT_TIMEOUT_S:g} s. {asked_and_there(self._shard_options)}"
            )

    def close(self) -> None:
        """Ends the actors. What they hold is gone."""
        self._end()

    def writer(self) -> ShardWriter:
        """A handle to add to the shards from other actors and tasks."""
        restarts = self._shard_options.restart_failed_shards
        return ShardWriter(self._actors, self._capacities, restarts)

    # Adding

    def add(self, chunks: Sequence[EpisodeChunk], weight: Any = None) -> None:
        """Sends chunks; see `PrioritizedReplay.add`."""
        self._advance()
        self._last_added = chunks, weight
        if weight is None and len(self._group) > 1:
            weight = self._group.outlive(self._find_max_priority)
        self._group.add(chunks, weight)
        self._reported = False

    def _find_max_priority(self, up: list[int]) -> float:
        """The maximum priority over all shards, after every update sent so far."""
        lifetime = self.options.max_priority == "lifetime"
        highest = []
        for i in up:
            connection = self._group.connections[i]
            connection.settle("update" if lifetime else None)
            if connection.status is not None and (lifetime or connection.status.steps):
                highest.append(connection.status.max_priority)
        if not lifetime:
            return max(highest, default=1.0)
        self._max_priority = max([self._max_priority, *highest])
        return self._max_priority

    # Sampling

    def sample(
        self,
        num_items: int,
        *,
        n_step: NStep = 1,
        gamma: float = 0.99,
        beta: BetaSchedule | None = None,
        include_infos: bool = False,
        include_extra_model_outputs: bool = False,
        incomplete_n_step: str | None = None,
    ) -> ReplayBatch:
        """Draws transitions; see `PrioritizedReplay.sample`."""
        positive_int("num_items", num_items)
        n_step_range(n_step)
        if beta is not None:
            beta_at(beta, 0)
        request = _Request(
            num_items,
            n_step,
            gamma,
            beta,
            include_infos,
            include_extra_model_outputs,
            incomplete_n_step,
        )
        if request != self._request:
            self._ahead.clear()
            self._request = request
        try:
            drawn = self._group.outlive(self._draw)
            self._group.is_recovering = False
        except NothingToSampleError:
            if not self._group.is_recovering:
                raise
            drawn = self._draw_after_loss(request)
        self._draw_ahead()
        return self._batch(drawn)

    def _draw(self, up: list[int]) -> SingleDraw | UnionDraw:
        try:
            if self._ahead:
                return self._ahead.popleft().finish()
        except NothingToSampleError:
            self._ahead.clear()  # there may be something now
        except ShardLostError:
            self._ahead.clear()
            raise
        assert self._request is not None
        return self._start_draw(self._request, up).finish()

    def _draw_after_loss(self, request: _Request) -> SingleDraw | UnionDraw:
        """What can be drawn when too little is left: shorter transitions, of what came last."""
        logger.warning("After the loss of a replay shard, n-step transitions are cut short")

        def draw_shorter(up: list[int]) -> SingleDraw | UnionDraw:
            return self._start_draw(request._replace(incomplete_n_step="shorten"), up).finish()

        try:
            return self._group.outlive(draw_shorter)
        except NothingToSampleError:
            if self._last_added is None:
                raise
        logger.warning("All replay shards are empty: the steps added last are added again")
        self.add(*self._last_added)
        return self._group.outlive(draw_shorter)

    def _draw_ahead(self) -> None:
        while len(self._ahead) < self._shard_options.prefetch and self._request is not None:
            self._ahead.append(self._start_draw(self._request, self._group.ready()))

    def _advance(self) -> None:
        """Lets the draws under way go on."""
        try:
            for draw in self._ahead:
                draw.advance()
        except (NothingToSampleError, ShardLostError):
            self._ahead.clear()

    def _start_draw(self, request: _Request, up: list[int]) -> Draw:
        connections = self._group.connections
        if len(connections) == 1:
            options = request._asdict()
            return Draw(draw_from_one(0, options.pop("num_items"), options), connections)
        shorten = (request.incomplete_n_step or self.options.incomplete_n_step) == "shorten"
        union_request = UnionRequest(
            request.num_items,
            n_step_range(request.n_step),
            self.options.beta if request.beta is None else request.beta,
            self.options.sampling == "stratified",
            self.options.weight_normalization == "batch",
            GatherOptions(
                request.gamma,
                shorten,
                request.include_infos,
                request.include_extra_model_outputs,
            ),
            self.options.metrics_window,
        )
        # Draws under way at the same time may go on in any order: each has its own numbers.
        rng = np.random.default_rng(self._rng.integers(1 << 63))
        return Draw(draw_from_parts(up, union_request, rng, self._acceptance), connections)

    def _batch(self, drawn: SingleDraw | UnionDraw) -> ReplayBatch:
        self._activity.merge(drawn.activity)
        self._reported = True
        if isinstance(drawn, SingleDraw):
            everything = np.arange(len(drawn.columns["rewards"]))
            handles = [UnionHandle(0, everything, drawn.handle)]
        else:
            handles = drawn.handles
            self._acceptance = drawn.acceptance
            self._steps_sampled += len(drawn.columns["rewards"])
        return ReplayBatch(drawn.columns, handles, self)

    # Updating

    def update(self, handle: list[UnionHandle], priorities: Floats) -> None:
        """Sends priorities; see `PrioritizedReplay.update`."""
        self._advance()
        for shard, positions, rows in handle:
            connection = self._group.connections[shard]
            try:
                if connection.is_up():
                    connection.make_room()
                    connection.send("update", rows, priorities[positions], size=len(positions))
                    continue
            except ShardLostError:
                pass
            connection.dropped_priorities += len(positions)

    # Looking at it

    def take_activity(self) -> Activity:
        """What happened since the last call; of what was added after the last draw, not yet."""
        if not (self._reported or self._ahead):
            for reply in self._group.ask_all("take_activity").values():
                self._activity.merge(reply.result)
            self._reported = True
        taken, self._activity = self._activity, Activity(self._activity.window)
        if len(self._group) > 1 and taken.counts.num_adds:
            statuses = [c.status for c in self._group.connections if c.status is not None]
            taken.steps_stored = deque([sum(status.steps for status in statuses)])
            taken.episodes_stored = deque([sum(status.episodes for status in statuses)])
        return taken

    def shard_info(self) -> list[dict[str, Any]]:
        """For each shard `ReplayShard.info`, where it runs, and what was lost with it.

        Beside the counters of `PrioritizedReplay.info`: `pid`, `node`, `is_up`, `lost_steps`,
        `dropped_priorities`, `restarts` (also as `incarnation`), `calls_in_flight`, and by method
        `calls` and `seconds`. A shard that is not up has only those that this client knows.
        """
        replies = self._group.ask_all("info")
        infos = []
        for connection in self._group.connections:
            reply = replies.get(connection.index)
            infos.append(
                (reply.result if reply else {"steps": 0, "episodes": 0, "mass": 0.0})
                | connection.where
                | {
                    "is_up": reply is not None,
                    "lost_steps": connection.lost_steps,
                    "dropped_priorities": connection.dropped_priorities,
                    "restarts": connection.num_restarts,
                    "incarnation": connection.num_restarts,
                    "calls_in_flight": connection.num_in_flight,
                }
            )
        return infos

    def info(self) -> dict[str, Any]:
        """The sums over all shards; see `PrioritizedReplay.info` and `shard_info`."""
        infos = self.shard_info()
        sums: dict[str, Any] = {}
        for info in infos:
            for key, value in info.items():
                if key != "pid" and isinstance(value, int | float):
                    sums[key] = sums.get(key, 0) + value
        sums["steps_sampled"] = sums.get("steps_sampled", 0) + self._steps_sampled
        return sums | {"device": infos[0]["device"], "num_shards": len(infos)}

    def get_priorities(self) -> dict[str, np.ndarray]:
        """See `PrioritizedReplay.get_priorities`; shard by shard."""
        parts = [reply.result for reply in self._group.ask_all("get_priorities").values()]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def get_chunks(self, start: int, stop: int) -> list[EpisodeChunk]:
        """See `PrioritizedReplay.get_chunks`; shard by shard."""
        replies = self._group.ask_all("get_chunks", 0, stop).values()
        return [chunk for reply in replies for chunk in reply.result][start:stop]

    # State

    def get_state(self) -> dict[str, Any]:
        """See `PrioritizedReplay.get_state`. Batches drawn ahead are given up.

        So this replay and one restored from the state draw the same from here on.
        """
        self._ahead.clear()
        states = [reply.result for reply in self._group.ask_all("get_state").values()]
        if len(self._group) == 1:
            return states[0]
        return {
            "shards": states,
            "rng": self._rng.bit_generator.state,
            "steps_sampled": self._steps_sampled,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """See `PrioritizedReplay.set_state`."""
        self._ahead.clear()
        self._group.ask_all("set_state", state)


def _end(actors: list[ActorHandle]) -> None:
    while actors and ray.is_initialized():
        ray.kill(actors.pop(), no_restart=True)
