"""One client's calls to one shard: in order, bounded in number and in time, whatever happens."""

from __future__ import annotations

import logging
import os
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
from rllib_per_acc.shards.lives import Lives
from rllib_per_acc.shards.messages import Operation, Reply

logger = logging.getLogger(__name__)

MAX_CALLS_IN_FLIGHT = 16
"""How many calls with adds and updates a client sends to a shard before it waits for the oldest."""

MAX_WRITES_IN_FLIGHT = 4
"""How many a writer sends: a sample waits for all that stand before it, of every writer."""

CALL_TIMEOUT_S = 120.0
"""How long to wait for a reply of a shard that is not known to be dead."""

_ITEMS_AHEAD = 4
"""How many results of a stream may wait for the client."""

_NUMBERS_KEPT = 1024
"""Of operations that were refused."""

_GONE = (RayActorError, ObjectLostError, NodeDiedError, ActorUnschedulableError)


class ShardLostError(RuntimeError):
    """A shard died, or cannot be reached; its rows are lost."""


class Call(NamedTuple):
    """A call that was made.

    Attributes:
        number: In the order in which this client made them.
        method: What was asked for, or sent last.
        reference: To the reply.
        sent: By method what was sent with it: its number and size.
    """

    number: int
    method: str
    reference: ray.ObjectRef
    sent: Mapping[str, tuple[int, int]]


class ShardConnection:
    """A client's end of a shard.

    Adds and updates are sent and not waited for; what one of them raises is kept in `errors`. The
    owner's leave with its next call, so that a training step is one call to the shard and not
    three. Any method that waits raises `ShardLostError` when the shard turns out to be gone; from
    then on `is_up` is false, until the shard has been started again, empty.

    Args:
        index: Which of the shards it is.
        actor: Its handle.
        owner: Whether this client is the one that samples, and has a shard that was out of reach
            start empty.

    Attributes:
        where: `pid`, `node` and `device` of the shard.
        status: The shard's last known status; None while it is down.
        times: The shard's last known `Reply.times`.
        lives: What is known of its starts.
        errors: What operations that were sent raised, by their numbers; whoever raises one takes
            it out.
        refused: The last numbers of operations that were refused.
        answered_add: Number of the last add that was answered, or lost.
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
        self.lives = Lives()
        self.errors: dict[int, Exception] = {}
        self.refused: deque[int] = deque(maxlen=_NUMBERS_KEPT)
        self.answered_add = 0
        self.dropped_priorities = 0
        self.num_losses = 0
        self.num_restarts = 0
        self.loss = ""
        self.lost_at = 0.0
        self.is_dead = False
        self._name = os.urandom(8).hex()
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

    @property
    def lost_steps(self) -> int:
        """Steps stored or on the way when the shard was lost, but for those added again."""
        return self.lives.lost_steps(None if self.status is None else self._boot)

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
        try:
            reply = ray.get(self._hello)
        except _GONE as error:
            self.is_dead, self._hello = True, None
            logger.error("%s cannot be started: %s", self, error)
            return
        except BaseException:
            self._hello = None
            raise
        if self.num_losses > self.num_restarts:
            self.num_restarts = self.num_losses
            logger.warning("%s is started again, empty, as pid %s", self, reply.result["pid"])
        self.where, self._boot = reply.result, reply.boot
        self._learn(self._number, reply)
        self._hello = None

    def _learn(self, number: int, reply: Reply) -> None:
        """Notes what a reply says, to the call with this number, if it is news."""
        if number < self._answered:
            return  # what is drawn ahead may be answered late
        self.times = reply.times
        self.lives.merge(reply.lives)
        self.status = reply.status
        self._answered = number

    # Calls

    def ask(self, method: str, *arguments: Any) -> Call:
        """Makes a call whose reply is waited for later, by `answer`.

        Raises:
            ShardLostError: If the shard is down.
        """
        return self._call(Operation(method, arguments))

    def answer(self, call: Call) -> Reply:
        """Waits for the reply to a call, and to those sent before it.

        Raises:
            ShardLostError: If the shard is gone.
            TimeoutError: If it does not answer.
            Exception: What the call raised in the shard.
        """
        if call.number <= self._lost_number:
            raise ShardLostError(f"{self} was lost after {call.method!r} was called")
        before = [sent for sent in self._sent if sent.number < call.number]
        reply = self._wait([*before, call])
        if reply.error is not None:
            raise reply.error.as_instanceof_cause()
        return reply

    def send(self, method: str, arguments: Any, *, size: int, number: int) -> None:
        """Makes a call that is not waited for; see `make_room`.

        The owner's waits here for the next one of its kind, or for anything that is asked. Sent
        again with the same number it does nothing.
        """
        held = self._held_back.get(method)
        if held is not None and held.number != number:
            self.dispatch()
        self._held_back[method] = Operation(method, arguments, size, number)
        if not self._owner:
            self.dispatch()

    def dispatch(self) -> None:
        """Lets go of what is held back."""
        if self._held_back:
            self._call()

    def _call(self, *asked: Operation) -> Call:
        if self._hello is not None or self.is_dead:
            raise ShardLostError(self.loss or f"{self} is not up yet")
        operations = [*self._held_back.values(), *asked]
        sent = {name: (each.number, each.size) for name, each in self._held_back.items()}
        self._number += 1
        reference = self.actor.perform.remote(operations, len(asked), self._name)
        call = Call(self._number, operations[-1].method, reference, sent)
        if sent:
            self._sent.append(call)
            self._held_back = {}
        return call

    def make_room(self) -> None:
        """Waits for the oldest calls sent until one more may be sent."""
        most = MAX_CALLS_IN_FLIGHT if self._owner else MAX_WRITES_IN_FLIGHT
        while len(self._sent) >= most:
            self._wait([self._sent[0]])

    def settle(self, method: str | None = None) -> None:
        """Waits for all calls sent, or until there is none of this method among them."""
        if method is None or method in self._held_back:
            self.dispatch()
        last = max(
            (i for i, call in enumerate(self._sent, 1) if method is None or method in call.sent),
            default=0,
        )
        if last:
            self._wait(list(self._sent)[:last])

    def is_answered(self, call: Call) -> bool:
        """Whether `answer` would not have to wait; does not wait."""
        return bool(ray.wait([call.reference], timeout=0, fetch_local=False)[0])

    def stream(self, method: str, *arguments: Any) -> Iterator[Any]:
        """The results of a method that yields, only a few of them ahead of the caller.

        Raises:
            ShardLostError: If the shard is gone.
            TimeoutError: If it yields nothing for too long.
            Exception: What the method raised in the shard.
        """
        self.settle()
        if self._hello is not None or self.is_dead:
            raise ShardLostError(self.loss)
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
                raise self._lose(error) from error
            if reply.boot != self._boot:
                raise self._lose(None)
            self._learn(number, reply)
            yield reply.result

    def _wait(self, calls: list[Call]) -> Reply:
        """The reply to the last of these calls, once there are those to all of them."""
        for call in calls:
            try:
                reply = ray.get(call.reference, timeout=CALL_TIMEOUT_S)
            except _GONE as error:
                raise self._lose(error) from error
            except GetTimeoutError as error:
                raise TimeoutError(
                    f"{self} has not answered {call.method!r} within {CALL_TIMEOUT_S:g} s "
                    f"({len(self._sent)} more calls are waiting)"
                ) from error
            except Exception as error:
                self._note_failed(call, error)
                raise
            if reply.boot != self._boot:  # it died after a reply and was started before a call
                raise self._lose(None)
            self._note(call, reply)
        return reply

    def _note(self, call: Call, reply: Reply) -> None:
        self._learn(call.number, reply)
        if call in self._sent:
            self._note_refused(call, reply)
            self._sent.remove(call)

    def _note_refused(self, call: Call, reply: Reply) -> None:
        for number, error in reply.refused.items():
            self.errors[number] = error.as_instanceof_cause()
            self.refused.append(number)
        self.answered_add = max(self.answered_add, call.sent.get("add", (0, 0))[0])

    def _note_failed(self, call: Call, error: Exception) -> None:
        """Notes that a call was not made at all: it could not be read in the shard."""
        if call in self._sent:
            self._sent.remove(call)
            self.refused.extend(number for number, _ in call.sent.values())
            logger.error("%s could not take a call: %s", self, error)

    def _lose(self, cause: Exception | None) -> ShardLostError:
        """Counts what is lost, and asks for the shard that comes in its place."""
        self._lost_number = self._number
        self.lost_at = time.monotonic()
        self.num_losses += 1
        lost = sum(self._lose_sent())
        if self._boot is not None:
            lost += self.lives.by_boot[self._boot].steps
        self.status = None
        self._hello = self.actor.hello.remote(self.lives, self._boot if self._owner else None)
        # Ray's own messages go on for pages; the whole is the cause of the error.
        why = str(cause).partition("\n")[0][:300] if cause else "it was started again meanwhile"
        self.loss = f"{self} was lost with {lost} steps: {why}"
        logger.warning("%s", self.loss)
        return ShardLostError(self.loss)

    def _lose_sent(self) -> Iterator[int]:
        """Finds out what became of the calls sent; how many steps went with each that is gone."""
        references = [call.reference for call in self._sent]
        if references:
            ray.wait(references, num_returns=len(references), timeout=CALL_TIMEOUT_S)
        gone: list[Mapping[str, tuple[int, int]]] = [
            {name: (each.number, each.size) for name, each in self._held_back.items()}
        ]
        while self._sent:
            call = self._sent.popleft()
            try:
                reply = ray.get(call.reference, timeout=0)
            except (GetTimeoutError, *_GONE):
                gone.append(call.sent)
                continue
            except Exception as error:
                self.errors[next(iter(call.sent.values()))[0]] = error
                continue
            if reply.boot == self._boot:
                self._learn(call.number, reply)
            self._note_refused(call, reply)
        self._held_back = {}
        for sent in gone:
            self.dropped_priorities += sent.get("update", (0, 0))[1]
            number, steps = sent.get("add", (0, 0))
            self.answered_add = max(self.answered_add, number)
            if self._boot is not None:
                key = self._name, self._boot
                self.lives.under_way[key] = self.lives.under_way.get(key, 0) + steps
            yield steps
