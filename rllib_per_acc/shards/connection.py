"""One client's calls to one shard: in order, bounded in number and in time, whatever happens."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import ray
from ray.actor import ActorHandle
from ray.exceptions import (
    ActorUnschedulableError,
    GetTimeoutError,
    NodeDiedError,
    ObjectLostError,
    RayActorError,
)

from rllib_per_acc.replay_part import PartStatus
from rllib_per_acc.shards.shard import Operation, Reply

logger = logging.getLogger(__name__)

MAX_CALLS_IN_FLIGHT = 16
"""How many calls with adds and updates a client sends to a shard before it waits for the oldest."""

MAX_WRITES_IN_FLIGHT = 4
"""How many a writer sends: a sample waits for all that stand before it, of every writer."""

CALL_TIMEOUT_S = 120.0
"""How long to wait for a reply of a shard that is not known to be dead."""

_ITEMS_AHEAD = 4
"""How many results of a stream may wait for the client."""

_GONE = (RayActorError, ObjectLostError, NodeDiedError, ActorUnschedulableError)


class ShardLostError(RuntimeError):
    """A shard died, or cannot be reached; its rows are lost."""


class Call(NamedTuple):
    """A call that was made.

    Attributes:
        number: In the order in which this client made them.
        method: What was asked for, or sent last.
        reference: To the reply.
        sizes: By method what was sent with it: how many steps to add, or priorities to update.
    """

    number: int
    method: str
    reference: ray.ObjectRef
    sizes: Mapping[str, int]


class ShardConnection:
    """A client's end of a shard.

    Adds and updates are sent and not waited for; an error in one of them is raised by a later
    call. The owner's leave with its next call, so that a training step is one call to the shard
    and not three. Any method that waits raises `ShardLostError` when the shard turns out to be
    gone; from then on `is_up` is false, until the shard has been started again, empty.

    Args:
        index: Which of the shards it is.
        actor: Its handle.
        owner: Whether this client is the one that samples, counts what is lost, and has a shard
            that was out of reach start empty.

    Attributes:
        where: `pid`, `node` and `device` of the shard.
        status: The shard's last known status.
        times: The shard's last known `Reply.times`.
        lost_steps: Steps stored or on the way when the shard was lost.
        dropped_priorities: Priorities on the way when the shard was lost.
        num_losses: How often it was lost.
        num_restarts: How often it was started again.
        loss: The message about the last loss.
        lost_at: When that was, in seconds of the clock of `time.monotonic`.
        is_dead: Whether it is lost and cannot be started again.
    """

    def __init__(self, index: int, actor: ActorHandle, *, owner: bool) -> None:
        self.index = index
        self.actor = actor
        self.where: dict[str, Any] = {}
        self.status: PartStatus | None = None
        self.times: Mapping[str, tuple[int, float]] = {}
        self.lost_steps = 0
        self.dropped_priorities = 0
        self.num_losses = 0
        self.num_restarts = 0
        self.loss = ""
        self.lost_at = 0.0
        self.is_dead = False
        self._owner = owner
        self._boot: int | None = None
        self._held_back: dict[str, Operation] = {}
        self._sent: deque[Call] = deque()
        self._number = self._answered = self._lost_number = 0
        self._hello: ray.ObjectRef | None = actor.hello.remote()

    def __str__(self) -> str:
        at = f" (pid {self.where['pid']}, node {self.where['node'][:8]})" if self.where else ""
        return f"rllib_per_acc replay shard {self.index}{at}"

    @property
    def is_near(self) -> bool:
        """Whether the shard runs on this node."""
        return bool(self.where["node"] == ray.get_runtime_context().get_node_id())

    @property
    def num_in_flight(self) -> int:
        """Calls that were sent and not waited for."""
        return len(self._sent)

    # While it is down

    def is_up(self) -> bool:
        """Whether the shard can be called; does not wait."""
        return self.wait_until_up(0)

    def wait_until_up(self, timeout_s: float) -> bool:
        """Waits for the shard to start; whether it did in time.

        Raises:
            Exception: What kept the shard from starting.
        """
        if self._hello is not None and ray.wait([self._hello], timeout=timeout_s)[0]:
            self._join()
        return self._hello is None and not self.is_dead

    def _join(self) -> None:
        hello, self._hello = self._hello, None
        try:
            reply = ray.get(hello)
        except _GONE as error:
            self.is_dead = True
            logger.error("%s cannot be started: %s", self, error)
            return
        if self.status is not None:
            self.num_restarts += 1
            logger.warning("%s is started again, empty, as pid %s", self, reply.result["pid"])
        self._take_over(reply)

    def _take_over(self, reply: Reply) -> None:
        self.where = reply.result
        self._boot, self.status, self.times = reply.boot, reply.status, reply.times

    # Calls

    def ask(self, method: str, *arguments: Any) -> Call:
        """Makes a call whose reply is waited for later, by `answer`."""
        return self._call(Operation(method, arguments))

    def answer(self, call: Call) -> Reply:
        """Waits for the reply to a call, and to those sent before it, whose errors come first.

        Raises:
            ShardLostError: If the shard is gone.
            TimeoutError: If it does not answer.
            Exception: What the call, or one sent before it, raised in the shard.
        """
        if call.number <= self._lost_number:
            raise ShardLostError(f"{self} was lost after {call.method!r} was called")
        calls = []
        while self._sent and self._sent[0].number <= call.number:
            calls.append(self._sent.popleft())
        if calls[-1:] != [call]:
            calls.append(call)
        reply = self._wait(calls)
        if reply.error is not None:
            raise reply.error.as_instanceof_cause()
        return reply

    def send(self, method: str, *arguments: Any, size: int) -> None:
        """Makes a call that is not waited for; see `make_room`.

        The owner's waits here for the next one of its kind, or for anything that is asked.
        """
        if method in self._held_back:
            self.dispatch()
        self._held_back[method] = Operation(method, arguments, size)
        if not self._owner:
            self.dispatch()

    def dispatch(self) -> None:
        """Lets go of what is held back."""
        if self._held_back:
            self._call()

    def _call(self, *asked: Operation) -> Call:
        operations = [*self._held_back.values(), *asked]
        sizes = {method: operation.size for method, operation in self._held_back.items()}
        self._held_back = {}
        self._number += 1
        reference = self.actor.perform.remote(operations, len(asked))
        call = Call(self._number, operations[-1].method, reference, sizes)
        if sizes:
            self._sent.append(call)
        return call

    def make_room(self) -> None:
        """Waits for the oldest calls sent until one more may be sent."""
        most = MAX_CALLS_IN_FLIGHT if self._owner else MAX_WRITES_IN_FLIGHT
        while len(self._sent) >= most:
            self._wait([self._sent.popleft()])

    def settle(self, method: str | None = None) -> None:
        """Waits for all calls sent, or until there is none of this method among them."""
        if method is None or method in self._held_back:
            self.dispatch()
        last = max(
            (i for i, call in enumerate(self._sent, 1) if method is None or method in call.sizes),
            default=0,
        )
        if last:
            self._wait([self._sent.popleft() for _ in range(last)])

    def is_answered(self, call: Call) -> bool:
        """Whether `answer` would not have to wait; does not wait."""
        return bool(ray.wait([call.reference], timeout=0, fetch_local=False)[0])

    def stream(self, method: str, *arguments: Any) -> Iterator[Any]:
        """The results of a method that yields, only a few of them ahead of the caller.

        Raises:
            ShardLostError: If the shard is gone.
            TimeoutError: If it yields nothing for too long.
            Exception: What the method, or a call sent before, raised in the shard.
        """
        self.settle()
        self._number += 1
        number = self._number
        replies = self.actor.stream.options(
            num_returns="streaming", _generator_backpressure_num_objects=_ITEMS_AHEAD
        ).remote(method, *arguments)
        while True:
            try:
                if not ray.wait([replies], timeout=CALL_TIMEOUT_S)[0]:
                    raise TimeoutError(
                        f"{self} has not gone on with {method!r} within {CALL_TIMEOUT_S:g} s"
                    )
                reply = ray.get(next(replies))
            except StopIteration:
                return
            except _GONE as error:
                raise self._lose([], error) from error
            if reply.boot != self._boot:
                raise self._lose([], None)
            self._answered, self.status, self.times = number, reply.status, reply.times
            yield reply.result

    def _wait(self, calls: list[Call]) -> Reply:
        try:
            replies = ray.get([call.reference for call in calls], timeout=CALL_TIMEOUT_S)
        except _GONE as error:
            raise self._lose([*calls, *self._sent], error) from error
        except GetTimeoutError as error:
            raise TimeoutError(
                f"{self} has not answered {calls[-1].method!r} within {CALL_TIMEOUT_S:g} s "
                f"({len(self._sent)} more calls are waiting)"
            ) from error
        refused = None
        for call, reply in zip(calls, replies, strict=True):
            if reply.boot != self._boot:  # it died after a reply and was started before a call
                raise self._lose([*calls, *self._sent], None)
            if call.number > self._answered:  # what is drawn ahead may be answered late
                self._answered, self.status, self.times = call.number, reply.status, reply.times
                refused = refused or reply.refused
        if refused is not None:
            raise refused.as_instanceof_cause()
        return replies[-1]

    def _lose(self, calls: list[Call], cause: Exception | None) -> ShardLostError:
        """Counts what is lost, and asks for the shard that comes in its place."""
        self._sent.clear()
        self._lost_number = self._number
        self.lost_at = time.monotonic()
        self.num_losses += 1
        fates = [(call, _fate(call)) for call in calls]
        wrong = [fate for _, fate in fates if not isinstance(fate, (Reply, *_GONE))]
        for call, fate in fates:
            if isinstance(fate, Reply) and fate.boot == self._boot and call.number > self._answered:
                self._answered, self.status = call.number, fate.status
                if fate.refused is not None:
                    wrong.append(fate.refused.as_instanceof_cause())
        gone = [call.sizes for call, fate in fates if isinstance(fate, _GONE)]
        gone.append({method: operation.size for method, operation in self._held_back.items()})
        self._held_back = {}
        self.dropped_priorities += sum(sizes.get("update", 0) for sizes in gone)
        lost = sum(sizes.get("add", 0) for sizes in gone)
        lost += self.status.steps if self.status else 0
        self.lost_steps += lost
        loss = (self._boot, self.status) if self._owner else ()
        self._hello = self.actor.hello.remote(*loss)
        # Ray's own messages go on for pages; the whole is the cause of the error.
        why = str(cause).partition("\n")[0][:300] if cause else "it was started again meanwhile"
        self.loss = f"{self} was lost with {lost} steps: {why}"
        logger.warning("%s", self.loss)
        if wrong:
            raise wrong[0]
        return ShardLostError(self.loss)


def _fate(call: Call) -> Reply | Exception:
    """What became of a call to a shard that is gone: done before, gone with it, or wrong."""
    try:
        return ray.get(call.reference, timeout=CALL_TIMEOUT_S)
    except Exception as error:
        return error
