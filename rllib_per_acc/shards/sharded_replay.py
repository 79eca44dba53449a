"""ShardedReplay: one replay whose rows are in one or several Ray actors."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np

from rllib_per_acc.activity import Activity, Counts
from rllib_per_acc.changes import Change
from rllib_per_acc.copies import NoCopies
from rllib_per_acc.descriptions import anything, integer, list_of, or_none, record
from rllib_per_acc.draws import NothingToSampleError, Steps
from rllib_per_acc.episode_chunk import EpisodeChunk
from rllib_per_acc.local_folder import Folder
from rllib_per_acc.parts_on_file import Prepared, check_draws, prepare_parts, save_parts
from rllib_per_acc.replay_batch import ReplayBatch
from rllib_per_acc.replay_options import ReplayOptions
from rllib_per_acc.replay_part import PartCounters, added_up
from rllib_per_acc.replay_union import UnionHandle
from rllib_per_acc.sampling import Floats
from rllib_per_acc.shards.connection import ShardLostError
from rllib_per_acc.shards.draw import SingleDraw
from rllib_per_acc.shards.draw_queue import Drawn, DrawQueue, Request
from rllib_per_acc.shards.frozen import Frozen
from rllib_per_acc.shards.known_steps import KnownSteps
from rllib_per_acc.shards.owned_shards import OwnedShards
from rllib_per_acc.shards.recent_adds import RecentAdds
from rllib_per_acc.shards.shard import ReplayShard
from rllib_per_acc.shards.shard_group import PreparedAdd, ShardGroup
from rllib_per_acc.shards.shard_options import ShardOptions
from rllib_per_acc.shards.shard_report import ShardMetrics, ask_infos, counters_of, summed
from rllib_per_acc.shards.shard_states import ShardOnFile, find_episodes, restore_shards
from rllib_per_acc.shards.writer import ShardWriter
from rllib_per_acc.threads import AllOrNothing, serialized

_check_state = record(
    {"shards": list_of(anything, least=1)},
    {"draws": or_none(check_draws), "steps_sampled": integer()},
)

logger = logging.getLogger(__name__)

Method = TypeVar("Method", bound=Callable[..., Any])


def reporting(method: Method) -> Method:
    """A `serialized` method that at its end raises the error of a call that was sent before.

    Each error once, the oldest first. What the method did is done. An error of the method itself
    comes before those, unless there was nothing to draw from: an add that failed may be why.
    """

    @wraps(method)
    def report(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = method(self, *args, **kwargs)
        except NothingToSampleError as error:
            self._group.raise_earlier(error)
            raise
        self._group.raise_earlier()
        return result

    return cast("Method", serialized(report))


class ShardedReplay(NoCopies, AllOrNothing):
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

    Several threads may use it: calls wait for each other. A batch belongs to one thread.

    Args:
        capacity: How many steps to keep in all; None: what is evicted is said in `add`.
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
        capacity: int | None,
        options: dict[str, Any] | None = None,
        shard_options: ShardOptions = ShardOptions(),  # noqa: B008 - immutable
        *,
        shard_class: type = ReplayShard,
    ) -> None:
        self.options = ReplayOptions(**options or {})
        self.capacity = capacity
        super().__init__()
        self._restarts = shard_options.restart_failed_shards
        self._known = KnownSteps(self.options)
        self._activity = Activity(self.options.metrics_window)
        self._adds_reported = Counts()
        self._asked_since_add = True
        self._max_priority = 1.0
        self._sampled = Counts()
        self._sampled_of: dict[int, int] = {}  # by shard: the steps in the batches handed out
        self._lost_before = 0
        self._losses_told = 0

        self._shards = OwnedShards(capacity, self.options, shard_options, shard_class)
        self._metrics = ShardMetrics(len(self._group))
        self._draws = DrawQueue(self._group, self.options, shard_options.prefetch)
        self._recent = RecentAdds(self._group.connections)

    @property
    def _group(self) -> ShardGroup:
        return self._shards.group

    def close(self) -> None:
        """Ends the actors. What they hold is gone. Closing again does nothing.

        Every other call, and every call of a writer, is an error from then on. A replay that is
        used as a context manager is closed at its end.
        """
        with self._lock:
            self._unfinished = None  # there is nobody to send it to
            self._shards.close()

    def __enter__(self) -> ShardedReplay:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @serialized
    def writer(self) -> ShardWriter:
        """A handle to add to the shards from other actors and tasks."""
        self._group  # noqa: B018 - raises if closed
        return ShardWriter(
            self._shards.actors, self._shards.capacities, self._restarts, self.options
        )

    # Adding

    @serialized
    def prepare_add(
        self, chunks: Sequence[EpisodeChunk], weight: Any = None, evict: Iterable[Any] = ()
    ) -> Callable[[], None]:
        """Checks what `add` checks, and returns what then sends the chunks.

        What that returns raises no error of a call before it.
        """
        chunks, evict = list(chunks), list(evict)
        group = self._group
        if evict and self.capacity is not None:
            raise ValueError(
                f"evict: got {len(evict)} episodes in a replay with capacity={self.capacity}, "
                "expected none"
            )
        weight = self._known.check(chunks, weight)
        if weight is None and len(group) > 1:
            highest = group.outlive(self._find_max_priority)
            weight = np.full(sum(map(len, chunks)), highest)
        return partial(self._send, group.prepare_add(chunks, weight, evict))

    @serialized
    def _send(self, prepared: PreparedAdd) -> None:
        self._draws.advance()
        number = self._group.next_number()
        change = Change()
        change.call(self._recent.note, number, prepared.parts)
        change.call(self._group.add, prepared, number)
        change.let(self, "_asked_since_add", False)
        self._commit(change)

    @reporting
    def add(
        self, chunks: Sequence[EpisodeChunk], weight: Any = None, evict: Iterable[Any] = ()
    ) -> None:
        """Sends chunks; see `PrioritizedReplay.add`.

        Raises:
            TypeError, ValueError: If chunks or weights do not fit; nothing is sent.
            Exception: What a call before this one raised in its shard; this one is sent.
        """
        self.prepare_add(chunks, weight, evict)()

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

    @reporting
    def sample(self, num_items: int, **arguments: Any) -> ReplayBatch:
        """Draws transitions; see `PrioritizedReplay.sample`."""
        group = self._group
        request = Request.checked(num_items, arguments)
        try:
            drawn = self._draws.next(request)
            group.is_recovering = False
        except NothingToSampleError:
            if not group.is_recovering:
                raise
            drawn = self._draw_after_loss(request)
        return self._batch(drawn)

    def _draw_after_loss(self, request: Request) -> Drawn:
        """What can be drawn when too little is left: shorter transitions, of what came last."""
        losses = sum(connection.num_losses for connection in self._group.connections)
        if losses != self._losses_told:
            self._losses_told = losses
            logger.warning(
                "After the loss of a replay shard, n-step transitions are cut short until there "
                "are episodes that are long enough"
            )
        try:
            return self._draws.next_shortened(request)
        except NothingToSampleError:
            if not len(self._recent):
                raise
        self._add_again()
        return self._draws.next_shortened(request)

    def _add_again(self) -> None:
        """Adds what came last again, each part where it was: there it is counted as lost."""
        self._group.wait_for_all()
        last = self._recent.last()
        if last is None:
            return
        logger.warning("All replay shards are empty: the steps added last are added again")
        for shard, part in last.parts.items():
            chunks, weight, _ = part.thaw()
            connection = self._group.connections[shard]
            with contextlib.suppress(ShardLostError):
                connection.answer(connection.ask("add_again", chunks, weight))

    def _batch(self, drawn: Drawn) -> ReplayBatch:
        error = self._group.earlier_error()
        if error is not None:
            raise error  # nothing of the batch counts as sampled
        activity = Activity(self._activity.window)
        activity.merge(self._activity)
        activity.merge(drawn.activity)
        change = Change()
        change.let(self, "_activity", activity)
        change.let(self, "_sampled", self._sampled + drawn.activity.counts.of_samples())
        change.let(self, "_asked_since_add", True)
        if isinstance(drawn, SingleDraw):
            everything = np.arange(len(drawn.columns["rewards"]))
            handles = [UnionHandle(0, everything, drawn.handle)]
        else:
            handles = drawn.handles
        lengths, sampled_of = drawn.columns.get("length"), dict(self._sampled_of)
        for shard, positions, _ in handles:
            steps = len(positions) if lengths is None else int(lengths[positions].sum())
            sampled_of[shard] = sampled_of.get(shard, 0) + steps
        change.let(self, "_sampled_of", sampled_of)
        self._commit(change)
        return ReplayBatch(drawn.columns, handles, self)

    @serialized
    def drop_draws(self) -> None:
        """Gives up the batches that were drawn ahead."""
        self._group  # noqa: B018 - raises if closed
        self._draws.clear()

    # Updating

    @reporting
    def update(self, handle: list[UnionHandle], priorities: Floats) -> None:
        """Sends priorities; see `PrioritizedReplay.update`."""
        self._draws.advance()
        group = self._group
        change, number = Change(), group.next_number()
        for shard, positions, rows in handle:
            connection, size = group.connections[shard], len(positions)
            try:
                if connection.is_up():
                    connection.make_room()
            except ShardLostError:
                pass
            if connection.is_up():
                arguments = Frozen((rows, priorities[positions]))
                change.call(group.send, shard, "update", arguments, size, number)
            else:
                dropped = connection.dropped_priorities + size
                change.let(connection, "dropped_priorities", dropped)
        self._commit(change)

    # Looking at it

    @reporting
    def take_activity(self) -> Activity:
        """What happened since the last call; of what was added after the last draw, not yet."""
        group = self._group
        if not (self._asked_since_add or self._draws):
            for reply in group.ask_all("take_activity").values():
                self._activity.merge(reply.result)
            self._asked_since_add = True
        group.raise_earlier()
        # The sums of adds are those that shards say: what a report that was given up had counted
        # is in them.
        adds = self._counters().lifetimes.of_adds()
        statuses = [c.status for c in group.connections if c.status is not None]
        taken = Activity(self._activity.window)
        taken.merge(self._activity)
        taken.counts = taken.counts.of_samples() + (adds - self._adds_reported)
        if taken.counts.num_adds and (len(group) > 1 or not taken.added):
            stored = [(status.episodes, status.steps) for status in statuses]
            taken.added = deque([(sum(e for e, _ in stored), sum(s for _, s in stored))])
        change = Change()
        change.let(self, "_activity", Activity(taken.window))
        change.let(self, "_adds_reported", adds)
        self._commit(change)
        return taken

    def _counters(self) -> PartCounters:
        """What all shards have counted, as of their last replies."""
        return added_up(map(counters_of, self._group.connections))

    @reporting
    def shard_info(self) -> list[dict[str, Any]]:
        """For each shard where it is and what it counts; see `shard_report.ask_infos`."""
        infos = ask_infos(self._group)
        for shard, steps in self._sampled_of.items():
            infos[shard]["steps_sampled"] += steps
        return infos

    @serialized
    def shard_metrics(self) -> list[dict[str, float]]:
        """For each shard numbers to follow over time, as of its last reply; asks none of them."""
        return self._metrics.take(self._group.connections)

    @reporting
    def info(self) -> dict[str, Any]:
        """The sums over all shards; see `PrioritizedReplay.info` and `shard_info`.

        `steps_added` is the sum of `steps`, `steps_evicted` and `lost_steps`.
        """
        infos = ask_infos(self._group)
        sums = summed(infos)
        sums["steps_sampled"] += self._sampled.steps_sampled
        sums["lost_steps"] += self._lost_before
        return sums | {"device": infos[0]["device"], "num_shards": len(infos)}

    @reporting
    def get_priorities(self) -> dict[str, np.ndarray]:
        """See `PrioritizedReplay.get_priorities`; shard by shard."""
        parts = [reply.result for reply in self._group.ask_all("get_priorities").values()]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    @reporting
    def read(self, *asked: Any, **options: Any) -> list[tuple[dict[str, Any], Steps]]:
        """See `PrioritizedReplay.read`; a piece of each shard that has some of them."""
        replies = self._group.ask_all("read", asked, options)
        return [piece for reply in replies.values() for piece in reply.result]

    @reporting
    def get_chunks(self, start: int, stop: int) -> list[EpisodeChunk]:
        """See `PrioritizedReplay.get_chunks`; shard by shard."""

        def get(up: list[int]) -> list[EpisodeChunk]:
            chunks: list[EpisodeChunk] = []
            first = 0
            for i in up:
                connection = self._group.connections[i]
                connection.settle()
                episodes = connection.status.episodes if connection.status else 0
                within = max(start - first, 0), min(stop - first, episodes)
                if within[0] < within[1]:
                    chunks += connection.answer(connection.ask("get_chunks", *within)).result
                first += episodes
            return chunks

        return self._group.outlive(get)

    @serialized
    def get_chunks_of(self, episode_ids: Sequence[Any]) -> list[EpisodeChunk]:
        """See `PrioritizedReplay.get_chunks_of`; in the order asked for."""
        replies = self._group.ask_all("get_chunks_of", list(episode_ids))
        found = {c.episode_id: c for reply in replies.values() for c in reply.result}
        return [found[id_] for id_ in episode_ids if id_ in found]

    @serialized
    def episode_ids(self) -> list[Any]:
        """See `PrioritizedReplay.episode_ids`; shard by shard."""
        replies = self._group.ask_all("episode_ids")
        return [id_ for reply in replies.values() for id_ in reply.result]

    # State

    @reporting
    def get_state(self) -> dict[str, Any]:
        """See `PrioritizedReplay.get_state`. Batches drawn ahead are given up.

        So this replay and one restored from the state draw the same from here on.
        """
        self._draws.clear()
        states = [reply.result for reply in self._group.ask_all("get_state").values()]
        if len(self._group) == 1:
            described = states[0]["description"]
            sums = Counts.restored(described["lifetimes"]) + self._sampled
            described["lifetimes"] = asdict(sums)
            return states[0]
        return {
            "shards": states,
            "draws": self._draws.state(),
            "steps_sampled": self._sampled.steps_sampled,
        }

    @reporting
    def set_state(self, state: dict[str, Any]) -> None:
        """See `PrioritizedReplay.set_state`; also of a replay with another number of shards.

        Raises:
            ValueError: If it is not such a state; nothing is changed.
            ShardLostError: If a shard is not up; nothing is changed.
        """
        if not isinstance(state, dict):
            raise ValueError(
                f"state: got a {type(state).__name__}, expected what get_state returns"
            )
        if "shards" in state:
            _check_state("state", state)
        states = state.get("shards", [state])
        self._check_all_up()
        restore_shards(self._group, self._shards.capacities, states)
        self._goes_on_from(state.get("draws"), state.get("steps_sampled", 0))

    @reporting
    def save_in(self, folder: Folder) -> dict[str, Any]:
        """See `ReplayClient.save_in`. Batches drawn ahead are given up, as by `get_state`.

        A shard that is lost meanwhile and started again is saved as it is then: empty.
        """
        self._draws.clear()
        self._group.wait_for_all()
        parts = self._group.outlive(lambda up: save_parts(folder, self._on_file(up)))
        return {
            "parts": parts,
            "draws": self._draws.state(),
            "steps_sampled": self._sampled.steps_sampled,
        }

    @serialized
    def prepare_restore(self, folder: Folder, saved: dict[str, Any]) -> Prepared:
        """See `ReplayClient.prepare_restore`.

        Raises:
            FileNotFoundError, ValueError: If something is missing or damaged.
            ShardLostError: If a shard is not up, or is lost meanwhile.
        """
        group = self._group
        then = partial(self._goes_on_from, saved.get("draws"), saved["steps_sampled"])
        self._check_all_up()
        group.settle()
        group.raise_earlier()
        parts = self._on_file(range(len(group)))
        return prepare_parts(folder, saved["parts"], parts, then)

    def _on_file(self, shards: Iterable[int]) -> list[ShardOnFile]:
        connections = self._group.connections
        return [ShardOnFile(connections[i], self._shards.capacities[i]) for i in shards]

    def _check_all_up(self) -> None:
        self._draws.clear()
        if len(up := self._group.wait_for_all()) < len(self._group):
            raise ShardLostError(f"of {len(self._group)} replay shards only {up} are up")

    def _goes_on_from(self, draws: dict[str, Any] | None, steps_sampled: int) -> None:
        """Forgets what was known of the shards before they were restored."""
        if draws is not None:
            self._draws.restore(draws)
        self._sampled = Counts(steps_sampled=steps_sampled)
        self._sampled_of = {}
        self._activity = Activity(self._activity.window)
        self._max_priority = 1.0
        self._recent.clear()
        self._lost_before = 0
        examples = find_episodes(self._group)
        self._known.forget()
        self._known.learn(examples)
        self._adds_reported = self._counters().lifetimes.of_adds()
        statuses = [c.status for c in self._group.connections if c.status is not None]
        counts = self._adds_reported
        stored = sum(status.steps for status in statuses)
        lost = sum(c.lost_steps for c in self._group.connections)
        self._lost_before = counts.steps_added - counts.steps_evicted - stored - lost
