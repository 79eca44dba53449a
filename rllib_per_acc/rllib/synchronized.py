"""Synchronized samples: transitions of several agents that begin at one step of the environment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from ray.rllib.core.columns import Columns

from rllib_per_acc.draws import EMPTY, NothingToSampleError
from rllib_per_acc.joined_columns import join
from rllib_per_acc.replay_batch import ReplayClient
from rllib_per_acc.rllib.multi_agent_ledger import MultiAgentEntry, MultiAgentLedger
from rllib_per_acc.structures import map_leaves

_MISSES_PER_ITEM = 100
"""After so many draws in vain for each item those that can serve are looked for, once."""


class AgentStep(NamedTuple):
    """Where an agent's transition begins: its episode, its time step there, and for how long."""

    episode_id: str
    t: int
    n_step: int


def draw_together(
    ledger: MultiAgentLedger,
    rng: np.random.Generator,
    num_items: int,
    n_step: tuple[int, int],
    module_ids: Collection[Any],
) -> dict[Any, list[AgentStep]]:
    """Draws steps of the environment, each as likely as any other, with replacement.

    Args:
        ledger: The stored episodes.
        rng: Of the draws.
        num_items: How many steps of the environment.
        n_step: The least and the greatest number of steps of a transition.
        module_ids: The modules to look at.

    Returns:
        By module what its agents do from these steps on: an agent is there if it observes at each
        of the `n_step` steps, and at the end of the last one. Steps without any are drawn again.

    Raises:
        NothingToSampleError: If there is no such step.
    """
    if not ledger.num_steps:
        raise NothingToSampleError(EMPTY)
    entries = list(ledger.episodes.values())
    ends = np.cumsum([len(entry) for entry in entries])
    low, high = n_step
    found: dict[Any, list[AgentStep]] = {module_id: [] for module_id in module_ids}
    items = misses = 0
    while items < num_items and misses <= _MISSES_PER_ITEM * num_items:
        place = int(rng.integers(ends[-1]))
        i = int(np.searchsorted(ends, place, side="right"))
        t = entries[i].env_t[1] - int(ends[i]) + place
        together = list(_agents_at(entries[i], t, int(rng.integers(low, high + 1)), found))
        items += bool(together)
        misses += not together
        for module_id, step in together:
            found[module_id].append(step)
    if items < num_items:
        able = list(_all_that_can(entries, n_step, found))
        if not able:
            raise NothingToSampleError(
                f"n_step: got {low}, but no agent of {list(found)} observes at so many steps in a "
                "row; add longer episodes"
            )
        for place in rng.integers(len(able), size=num_items - items):
            entry, t, n = able[place]
            for module_id, step in _agents_at(entry, t, n, found):
                found[module_id].append(step)
    return {module_id: steps for module_id, steps in found.items() if steps}


def _agents_at(
    entry: MultiAgentEntry, t: int, n: int, module_ids: Collection[Any]
) -> Iterator[tuple[Any, AgentStep]]:
    for id_, agent in entry.agents.items():
        i = bisect_left(agent.env_t, t)
        if (
            agent.owner.module_id in module_ids
            and i + n < len(agent.env_t)
            and (agent.env_t[i], agent.env_t[i + n]) == (t, t + n)
        ):
            yield agent.owner.module_id, AgentStep(id_, agent.t_started + i, n)


def _all_that_can(
    entries: Collection[MultiAgentEntry], n_step: tuple[int, int], module_ids: Collection[Any]
) -> Iterator[tuple[MultiAgentEntry, int, int]]:
    """Every episode, step and length from which on there is an agent."""
    low, high = n_step
    for entry in entries:
        for t in range(*entry.env_t):
            for n in range(low, min(high, entry.env_t[1] - t) + 1):
                if any(True for _ in _agents_at(entry, t, n, module_ids)):
                    yield entry, t, n


def read_together(
    clients: Mapping[Any, ReplayClient], drawn: Mapping[Any, list[AgentStep]], **options: Any
) -> dict[Any, dict[str, Any]]:
    """What was drawn, by module, under RLlib's column names.

    Args:
        clients: The replays.
        drawn: As `draw_together` returns it.
        **options: Of `PrioritizedReplay.read`.
    """
    return {
        module_id: _columns(clients[module_id], steps, options)
        for module_id, steps in drawn.items()
    }


def _columns(client: ReplayClient, steps: list[AgentStep], options: dict[str, Any]) -> Any:
    episode_ids, t, n_step = zip(*steps, strict=True)
    pieces = client.read(episode_ids, np.array(t, np.int64), np.array(n_step, np.int64), **options)
    joined, places = join([(c, np.arange(len(positions))) for c, positions in pieces])
    order = np.empty(len(joined["rewards"]), np.int64)
    for (_, positions), where in zip(pieces, places, strict=True):
        order[where] = positions
    order = np.argsort(order)
    columns = {name: map_leaves(lambda leaf: leaf[order], leaf) for name, leaf in joined.items()}
    return {
        Columns.OBS: columns["observations"],
        Columns.ACTIONS: columns["actions"],
        Columns.REWARDS: columns["rewards"],
        Columns.NEXT_OBS: columns["next_observations"],
        Columns.TERMINATEDS: columns["terminateds"],
        Columns.TRUNCATEDS: columns["truncateds"],
        "weights": np.ones(len(order)),
        "n_step": columns["n_step"],
        **({Columns.INFOS: list(columns["next_infos"])} if "next_infos" in columns else {}),
        **columns.get("extra_model_outputs", {}),
    }
