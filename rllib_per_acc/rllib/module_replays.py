"""The replays of a multi-agent buffer: one for each module, started when its first steps come."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, replace
from numbers import Real
from typing import Any

import numpy as np
from ray.rllib.utils.typing import ModuleID

from rllib_per_acc.changes import Change
from rllib_per_acc.descriptions import anything, dict_of, record
from rllib_per_acc.draws import NothingToSampleError
from rllib_per_acc.replay import PrioritizedReplay
from rllib_per_acc.replay_batch import ReplayBatch, ReplayClient
from rllib_per_acc.replay_options import ReplayOptions
from rllib_per_acc.rllib.buffer_base import check_spaces
from rllib_per_acc.rllib.client import close_client
from rllib_per_acc.rllib.multi_agent_ledger import Plan
from rllib_per_acc.threads import PreparedChange

logger = logging.getLogger(__name__)


_check_state = record({"replays": dict_of(anything), "spaces": dict_of(check_spaces)})


class ModuleReplays:
    """Replays by module.

    Args:
        start: Starts the replay of a module.
        options: Of the replays.

    Attributes:
        clients: The replays.
        spaces: The observation and action space of each module's first agent.
    """

    def __init__(self, start: Callable[[ModuleID], ReplayClient], options: ReplayOptions) -> None:
        self._start = start
        self._options = options
        self.clients: dict[ModuleID, ReplayClient] = {}
        self.spaces: dict[ModuleID, tuple[Any, Any]] = {}
        self._left_out: set[ModuleID] = set()

    def known(self, name: str, module_ids: Collection[ModuleID] | None) -> list[ModuleID]:
        """The modules named, or all.

        Raises:
            TypeError, ValueError: If one is not known, or it is no collection.
        """
        if module_ids is None:
            return list(self.clients)
        if isinstance(module_ids, str) or not isinstance(module_ids, Collection):
            raise TypeError(f"{name}: got {module_ids!r}, expected a list of module ids")
        for module_id in module_ids:
            if module_id not in self.clients:
                raise ValueError(
                    f"{name}: got {module_id!r}, expected some of {list(self.clients)}, the "
                    "modules whose steps have been added"
                )
        return list(dict.fromkeys(module_ids))

    def plan_add(
        self, change: Change, plan: Plan, weight: float | Mapping[ModuleID, float] | None
    ) -> None:
        """Checks what is planned, and plans to do it; see `PrioritizedReplay.prepare_add`."""
        if not isinstance(weight, Real | Mapping | None):
            raise TypeError(
                f"weight: got a {type(weight).__name__}, expected a number, or a dict of numbers "
                "by module"
            )
        weights = {m: weight.get(m) if isinstance(weight, Mapping) else weight for m in plan.chunks}
        new = [m for m in plan.chunks if m not in self.clients]
        for m in new:  # what is refused starts no actors
            self._trial().prepare_add(plan.chunks[m], weights[m])
        old = [m for m in dict.fromkeys([*plan.evict, *plan.chunks]) if m in self.clients]
        adds = [
            self.clients[m].prepare_add(
                plan.chunks.get(m, []), weights.get(m), plan.evict.get(m, ())
            )
            for m in old
        ]
        clients = self.clients | {m: self._start(m) for m in new}
        adds += [clients[m].prepare_add(plan.chunks[m], weights[m]) for m in new]

        spaces = {
            agent.owner.module_id: agent.spaces
            for chunk in reversed(plan.kept)
            for agent in reversed(chunk.agents)
        }
        change.let(self, "spaces", spaces | self.spaces)
        change.let(self, "clients", clients)
        for add in adds:
            change.call(add if isinstance(add, PreparedChange) else _Once(add))

    def _trial(self) -> PrioritizedReplay:
        """A replay that only checks."""
        return PrioritizedReplay(None, **asdict(replace(self._options, device="cpu")))

    def remove(self, module_id: ModuleID) -> None:
        """Ends the replay of a module; what is in it is gone."""
        client = self.clients[module_id]
        self.clients = {m: c for m, c in self.clients.items() if m != module_id}
        self.spaces.pop(module_id, None)
        self._left_out.discard(module_id)
        close_client(client)

    def sample(
        self, module_ids: Collection[ModuleID] | None, num_items: int, **options: Any
    ) -> dict[ModuleID, ReplayBatch]:
        """A batch of each module; those that have nothing to draw from are left out.

        Raises:
            TypeError, ValueError: If an argument is wrong.
            NothingToSampleError: If all modules are left out.
        """
        batches = {}
        failure = NothingToSampleError("sample: the replay buffer is empty")
        for module_id in self.known("modules_to_sample", module_ids):
            try:
                batches[module_id] = self.clients[module_id].sample(num_items, **options)
            except NothingToSampleError as error:  # noqa: PERF203 - the others are sampled
                failure = error
                if module_id not in self._left_out:
                    logger.warning("Module %r is not sampled for now: %s", module_id, error)
                self._left_out.add(module_id)
        if not batches:
            raise failure
        return batches

    def shard_info(self) -> list[dict[str, Any]]:
        """What `ReplayClient.shard_info` says, with the `module_id`."""
        return [
            {"module_id": module_id} | info
            for module_id, client in self.clients.items()
            for info in client.shard_info()
        ]

    def get_priorities(self, module_ids: Collection[ModuleID] | None) -> dict[str, np.ndarray]:
        """What `ReplayClient.get_priorities` says, with the `module_id`, joined."""
        parts = []
        for module_id in self.known("module_id", module_ids):
            part = self.clients[module_id].get_priorities()
            part["module_id"] = np.empty(len(part["t"]), object)
            part["module_id"].fill(module_id)  # a tuple too is one id
            parts.append(part)
        return {
            name: np.concatenate([part[name] for part in parts]) if parts else np.zeros(0, dtype)
            for name, dtype in (
                ("module_id", object), ("episode_id", object), ("t", np.int64), ("mass", float),
            )
        }  # fmt: skip

    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on, as copies."""
        return {
            "replays": {m: client.get_state() for m, client in self.clients.items()},
            "spaces": dict(self.spaces),
        }

    def restored(self, state: dict[str, Any]) -> ModuleReplays:
        """New replays that go on from such a state.

        Raises:
            ValueError: If it is not such a state.
        """
        _check_state("state", state)
        restored = self.started(state["replays"])
        for module_id, client in restored.clients.items():
            client.set_state(state["replays"][module_id])
        restored.spaces = dict(state["spaces"])
        return restored

    def started(self, module_ids: Iterable[ModuleID]) -> ModuleReplays:
        """New, empty replays of these modules, with the spaces known here."""
        started = ModuleReplays(self._start, self._options)
        started.clients = {module_id: self._start(module_id) for module_id in module_ids}
        started.spaces = dict(self.spaces)
        return started

    def spaces_of(self, module_id: ModuleID) -> tuple[Any, Any]:
        """The spaces of a module; None each where no steps have come since a restore."""
        return self.spaces.get(module_id, (None, None))


class _Once:
    """What is sent to shards is not sent again, however the call ends."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._calls = [call]

    def __call__(self) -> None:
        if self._calls:
            self._calls.pop()()
