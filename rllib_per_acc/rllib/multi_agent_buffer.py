"""AccMultiAgentPrioritizedEpisodeReplayBuffer: one prioritized replay for each module."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import force_list
from ray.rllib.utils.annotations import override
from ray.rllib.utils.replay_buffers.multi_agent_prioritized_episode_buffer import (
    MultiAgentPrioritizedEpisodeReplayBuffer,
)
from ray.rllib.utils.typing import ModuleID, ResultDict

from rllib_per_acc.changes import Change
from rllib_per_acc.descriptions import generator_from, named
from rllib_per_acc.replay_batch import ReplayClient
from rllib_per_acc.replay_checkpoint import SavedReplays
from rllib_per_acc.replay_options import beta_at, n_step_range, non_negative
from rllib_per_acc.resumable import NOT_A_STATE
from rllib_per_acc.rllib.batch import row_groups
from rllib_per_acc.rllib.buffer_base import EpisodeBufferBase
from rllib_per_acc.rllib.checkpoint import CheckpointedBuffer
from rllib_per_acc.rllib.client import drop_draws, replay_client
from rllib_per_acc.rllib.compat import EpisodeBufferMeta
from rllib_per_acc.rllib.episode_chunks import EpisodesView
from rllib_per_acc.rllib.ids import text_of
from rllib_per_acc.rllib.last_samples import SentSample
from rllib_per_acc.rllib.metrics import AGENT, ENV, MODULE, log_level, log_shards
from rllib_per_acc.rllib.module_counts import ModuleCounts
from rllib_per_acc.rllib.module_replays import ModuleReplays
from rllib_per_acc.rllib.module_watch import ModuleWatch
from rllib_per_acc.rllib.multi_agent_activity import Drawn, MultiAgentActivity
from rllib_per_acc.rllib.multi_agent_chunks import multi_agent_chunk_of
from rllib_per_acc.rllib.multi_agent_ledger import MultiAgentLedger
from rllib_per_acc.rllib.multi_agent_rows import MultiAgentRows
from rllib_per_acc.rllib.one_step_episodes import one_step_episodes
from rllib_per_acc.rllib.row_group import NOBODY, Owner
from rllib_per_acc.rllib.synchronized import draw_together, read_together
from rllib_per_acc.threads import serialized


class AccMultiAgentPrioritizedEpisodeReplayBuffer(
    EpisodeBufferBase,
    CheckpointedBuffer,
    ModuleCounts,
    MultiAgentPrioritizedEpisodeReplayBuffer,
    metaclass=EpisodeBufferMeta,
):
    """RLlib's `MultiAgentPrioritizedEpisodeReplayBuffer`, fast, and in Ray actors.

    Use it as `AccPrioritizedEpisodeReplayBuffer`, with the same keys. Every module has a replay of
    its own, with its own priorities, in this process or in `num_shards` actors; it is started when
    the module's first steps come. `capacity` counts steps of the environment: whole multi-agent
    episodes are evicted, oldest first, from all modules.
    """

    _ended_by_close = ("_modules", "_ledger", "_activity", "_last_samples")
    stands_for = (
        "MultiAgentPrioritizedEpisodeReplayBuffer",
        "rllib_per_acc.AccMultiAgentPrioritizedEpisodeReplayBuffer",
    )

    def __init__(self, capacity: int = 10000, **options: Any) -> None:
        """Builds the buffer; see `EpisodeBufferBase`."""
        super().__init__(capacity, **options)
        self._modules = ModuleReplays(self._new_client, self._replay_options)
        self._watch = ModuleWatch()
        self._ledger = self._new_ledger()
        self._activity = MultiAgentActivity(self._replay_options.metrics_window)
        self._rng = np.random.default_rng(self._replay_options.seed)  # of synchronized samples

    def _new_ledger(self) -> MultiAgentLedger:
        return MultiAgentLedger(self.capacity, self._shard_options.prefetch)

    def _new_client(self, module_id: ModuleID) -> ReplayClient:
        options = self._replay_options
        if options.seed is not None:
            entropy = [options.seed, zlib.crc32(text_of(module_id).encode())]
            seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
            options = dataclasses.replace(options, seed=seed)
        return replay_client(type(self), None, options, self._shard_options)

    @override(MultiAgentPrioritizedEpisodeReplayBuffer)
    @serialized
    def add(
        self,
        episodes: list[MultiAgentEpisode] | MultiAgentEpisode,
        weight: float | Mapping[ModuleID, float] | None = None,
    ) -> None:
        """Stores multi-agent episodes, or chunks that continue stored ones.

        Args:
            episodes: What to store; nothing of it is changed or kept.
            weight: First priority: one number, or numbers by module; by default, and for modules
                that are not named, the maximum priority of the module.

        Raises:
            TypeError, ValueError: If an episode or a weight does not fit; nothing is changed. With
                the rows in actors a later call may raise this.
        """
        episodes = force_list(episodes)
        for episode in episodes:
            if not isinstance(episode, MultiAgentEpisode):
                raise TypeError(
                    f"episodes: got a {type(episode).__name__}, expected a MultiAgentEpisode"
                )
        self._remove_gone()
        plan = self._ledger.plan([multi_agent_chunk_of(episode) for episode in episodes])
        change = Change()
        self._modules.plan_add(change, plan, weight)
        self._activity.plan_add(change, plan, self._ledger)
        self._ledger.plan_commit(change, plan)
        self._commit(change)
        self._drop_overdue_draws()

    @serialized
    def remove_module(self, module_id: ModuleID) -> None:
        """Forgets everything of a module: its replay ends, with its actors, and so do its metrics.

        `Algorithm.remove_module` has it called with `enable`, and else at the next `add` or
        `sample` of the algorithm. Multi-agent episodes in which no other module acts go too, and
        count as evicted. Steps that come later for this module start it anew.

        Args:
            module_id: The module; one without steps is none too many.
        """
        self._last_samples.forget(module_id)
        if module_id not in self._modules.clients:
            return
        before, self._ledger = self._ledger, self._ledger.without(module_id)
        self._ledger.departed.forget(module_id)
        self._activity.log_removal(before, self._ledger)
        self._modules.remove(module_id)

    def _remove_gone(self) -> None:
        """Forgets modules that the algorithm has removed since it last called."""
        for module_id in self._watch.gone():
            self.remove_module(module_id)

    def _drop_overdue_draws(self) -> None:
        """Gives up batches that were drawn ahead for modules which are not sampled any more."""
        departed = self._ledger.departed
        for module_id in departed.overdue(len(self._ledger.agents)):
            drop_draws(self._modules.clients[module_id])
            departed.forget(module_id)

    @override(MultiAgentPrioritizedEpisodeReplayBuffer)
    @serialized
    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,
        batch_length_T: int | None = None,
        n_step: int | tuple[int, int] | None = 1,
        gamma: float = 0.99,
        include_infos: bool | None = None,
        include_extra_model_outputs: bool | None = None,
        replay_mode: str = "independent",
        modules_to_sample: Collection[ModuleID] | None = None,
        beta: Any = 0.0,
        to_numpy: bool = False,
        lookback: int = 0,
        min_batch_length_T: int = 0,
        sample_episodes: bool = True,
    ) -> list[MultiAgentEpisode] | list[SingleAgentEpisode] | dict[ModuleID, dict[str, Any]]:
        """Draws transitions of every module, proportional to `priority ** alpha` in the module.

        Args:
            num_items: How many transitions of each module (or `batch_size_B`, not both).
            batch_size_B: The same under another name.
            batch_length_T: 0 or 1: single transitions.
            n_step: Steps (of the agent) of each transition, or a closed range `(low, high)`.
            gamma: Discount per step of the n-step reward.
            include_infos: Whether the infos come along; None as the key of this name says.
            include_extra_model_outputs: Likewise the stored extra model outputs.
            replay_mode: `"independent"`, or `"synchronized"`: `num_items` steps of the environment,
                all equally likely, and from each of them on the transitions of all agents that
                observe at every one of the `n_step` steps. `beta` has no meaning then.
            modules_to_sample: The modules; None for all. A module without steps, or without an
                episode as long as `n_step`, is left out.
            beta: Exponent of the importance weights, or a schedule of it; None for the buffer's.
            to_numpy: Whether one-step episodes hold arrays (row groups always do).
            lookback: Steps (of the agent) before each transition that come along, or so many as
                the key of this name says, if they are more; row groups have none.
            min_batch_length_T: Kept for RLlib.
            sample_episodes: Kept for RLlib: always episodes.

        Returns:
            By `sample_format` one `MultiAgentRows` of row groups, or one-step episodes, module by
            module, with `weights` and `n_step` among their extra model outputs. Synchronized: by
            module a dict of columns, as RLlib's buffer returns it; its learners do not take it.

        Raises:
            TypeError, ValueError: If an argument is wrong, or no module can be sampled.
        """
        self._remove_gone()
        count = self._num_items(num_items, batch_size_B)
        if (batch_length_T or self.batch_length_T) > 1 or (batch_length_T and lookback):
            raise ValueError(
                f"sample: got batch_length_T={batch_length_T or self.batch_length_T} and "
                f"lookback={lookback}, expected single transitions: sequences for stateful modules "
                "are for one agent only"
            )
        include = self._include(include_infos, include_extra_model_outputs)
        if replay_mode == "synchronized":
            module_ids = self._modules.known("modules_to_sample", modules_to_sample)
            return self._sample_together(
                count,
                n_step_range(1 if n_step is None else n_step),
                module_ids,
                gamma=non_negative("gamma", gamma),
                **include,
            )
        if replay_mode != "independent":
            raise ValueError(
                f"replay_mode: got {replay_mode!r}, expected 'independent' or 'synchronized'"
            )
        exponent = beta_at(
            self._replay_options.beta if beta is None else beta,
            lambda: self._lifetimes.steps_added,
        )
        batches = self._modules.sample(
            modules_to_sample,
            count,
            n_step=1 if n_step is None else n_step,
            gamma=gamma,
            beta=exponent,
            include_episode_ids=True,
            sequences=self._steps_before(lookback),
            **include,
        )
        agents = {m: self._ledger.find(b.columns["episode_id"]) for m, b in batches.items()}
        self._ledger.departed.batches_read(batches)
        self._activity.log_sample(
            [Drawn(agents[m], batch.t, batch.n_step) for m, batch in batches.items()], count
        )
        sent = {}
        if self.sample_format == "rows":
            groups = {}
            for m, batch in batches.items():
                del batch.columns["episode_id"]
                groups[m], record = row_groups(batch, Owner("rows", m, m))
                sent[m] = SentSample(batch, record)
            return self._last_samples.drawn([MultiAgentRows(groups)], sent)
        episodes: list[SingleAgentEpisode] = []
        for m, batch in batches.items():
            owners = [agent.owner for agent in agents[m]]
            some, record = one_step_episodes(
                batch, self._modules.spaces_of(m), owners, to_numpy=to_numpy
            )
            sent[m] = SentSample(batch, record)
            episodes += some
        return self._last_samples.drawn(episodes, sent)

    def _sample_together(
        self, count: int, n_step: tuple[int, int], module_ids: list[ModuleID], **options: Any
    ) -> dict[ModuleID, dict[str, Any]]:
        drawn = draw_together(self._ledger, self._rng, count, n_step, module_ids)
        self._activity.log_together({m: len(steps) for m, steps in drawn.items()}, count)
        return read_together(self._modules.clients, drawn, **options)

    @override(MultiAgentPrioritizedEpisodeReplayBuffer)
    @serialized
    def update_priorities(
        self,
        priorities: NDArray[np.floating[Any]],
        module_id: ModuleID | None = None,
        *,
        sample_id: int | None = None,
    ) -> None:
        """Gives the rows of a module in the last sample new priorities.

        Args:
            priorities: Absolute TD errors of shape (B,), in the order in which RLlib's learners
                return them.
            module_id: The module.
            sample_id: An attribute of what `sample` returned; None for the last sample.

        Raises:
            RuntimeError: If the module was not sampled since its last update, if another thread
                drew the last sample, if in an actor there are several (see `LastSamples`), or if
                not every row was sent to exactly one learner.
            TypeError, ValueError: If the priorities are not B finite numbers. Nothing is changed.
        """
        self._last_samples.update(module_id, priorities, sample_id)

    @override(MultiAgentPrioritizedEpisodeReplayBuffer)
    @serialized
    def get_metrics(self) -> ResultDict:
        """RLlib's metrics of what happened since the last call, reduced, and each shard's."""
        window = self._metrics_num_episodes_for_smoothing
        env, agents = self._activity.take()
        for module_id, client in self._modules.clients.items():
            activity = client.take_activity()
            env.counts.resampled += activity.counts.resampled
            log_level(self.metrics, MODULE, module_id, activity, window)
            log_shards(self.metrics, client.shard_metrics(), module_id)
        log_level(self.metrics, ENV, None, env, window)
        # Which agent's rows were drawn again is not known.
        level = AGENT._replace(resampled=())
        for agent_id, activity in agents.items():
            log_level(self.metrics, level, agent_id, activity, window)
        return self.metrics.reduce()

    # Looking at it

    @property
    def episodes(self) -> Any:
        """Not kept as multi-agent episodes: see `module_episodes`."""
        raise NotImplementedError(
            "episodes: multi-agent episodes are kept as the episodes of their agents; "
            "module_episodes(module_id) has those of a module"
        )

    @serialized
    def module_episodes(self, module_id: ModuleID) -> EpisodesView:
        """The stored episodes of a module's agents, oldest first; reading it copies them out.

        Each says by `multi_agent_episode_id`, `agent_id` and `module_id` whose it is.
        """
        (module_id,) = self._modules.known("module_id", [module_id])
        client, spaces = self._modules.clients[module_id], self._modules.spaces_of(module_id)
        return EpisodesView(client, spaces, self._owner_of)

    @serialized
    def _owner_of(self, agent_episode_id: Any) -> Owner:
        agent = self._ledger.agents.get(agent_episode_id)
        return NOBODY if agent is None else agent.owner

    @serialized
    def get_shard_info(self) -> list[dict[str, Any]]:
        """For each shard its `module_id`, where it runs (`pid`, `node`), `device` and counters."""
        return self._modules.shard_info()

    @serialized
    def get_priorities(self, module_id: ModuleID | None = None) -> dict[str, np.ndarray]:
        """The mass (`priority ** alpha`) of every stored step of a module, or of all.

        Returns:
            `module_id`, `agent_id`, `episode_id` (of the agent's episode; object), `t` (int64, the
            agent's time step) and `mass` (float64), each of shape (steps,).
        """
        held = self._modules.get_priorities(None if module_id is None else [module_id])
        agents = self._ledger.find(held["episode_id"])
        agent_ids = np.fromiter((a.owner.agent_id for a in agents), object, len(agents))
        return held | {"agent_id": agent_ids}

    # State

    @override(MultiAgentPrioritizedEpisodeReplayBuffer)
    @serialized
    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on, as copies (the spaces of the episodes included)."""
        return {
            "modules": self._modules.get_state(),
            "episodes": self._ledger.state(),
            "counts": self._activity.state(),
            "rng": self._rng.bit_generator.state,
        }

    @override(MultiAgentPrioritizedEpisodeReplayBuffer)
    @serialized
    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what `get_state` returned, also of a buffer of another capacity.

        The replays of all modules are started anew. Where the capacity is less, the oldest episodes
        are evicted. A sample taken before can no longer be updated.

        Raises:
            ValueError: If it is not such a state; nothing is changed.
        """
        try:
            records = self._records(state["episodes"], state["counts"], state["rng"])
            modules = self._modules.restored(state["modules"])
        except NOT_A_STATE as error:
            raise ValueError(f"state: cannot be restored, {error!r}") from error
        self._take_over(modules, *records)

    def _records(
        self, episodes: dict[str, Any], counts: dict[str, int], rng_state: Any
    ) -> tuple[MultiAgentLedger, MultiAgentActivity, np.random.Generator]:
        ledger = self._new_ledger()
        ledger.restore(episodes)
        activity = MultiAgentActivity(self._replay_options.metrics_window)
        activity.restore(counts)
        return ledger, activity, generator_from(rng_state)

    def _take_over(
        self,
        modules: ModuleReplays,
        ledger: MultiAgentLedger,
        activity: MultiAgentActivity,
        rng: np.random.Generator,
    ) -> None:
        for module_id, client in modules.clients.items():
            held = client.get_priorities()
            ledger.check_holds(module_id, held["episode_id"], held["t"])
        self._ledger, self._activity, self._modules, self._rng = ledger, activity, modules, rng
        self._last_samples.clear()
        if ledger.num_steps > self.capacity:
            self.add([])

    @override(CheckpointedBuffer)
    def _replays(self) -> dict[str, ReplayClient]:
        return {text_of(module_id): client for module_id, client in self._modules.clients.items()}

    @override(CheckpointedBuffer)
    def _more_to_save(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        state = self._ledger.state()
        episodes = state["description"]["episodes"]
        module_ids = self._modules.clients
        arrays = {
            "modules": np.fromiter(module_ids, object, len(module_ids)),
            "episodes": np.fromiter(episodes, object, len(episodes)),
            **state["arrays"],
        }
        more = {"counts": self._activity.state(), "rng": self._rng.bit_generator.state}
        return more, arrays

    @override(CheckpointedBuffer)
    def _restore(self, saved: SavedReplays) -> None:
        """See there. The spaces are not saved: they come with the next steps of each module."""
        try:
            arrays = dict(saved.arrays)
            module_ids = list(arrays.pop("modules", saved.names))  # older saves: all are strings
            description = {"episodes": arrays.pop("episodes")}
            given = {"description": description, "arrays": arrays}
            records = self._records(given, saved.more["counts"], saved.more["rng"])
        except NOT_A_STATE as error:
            raise ValueError(
                f"{saved.manifest}: not the save of a multi-agent buffer, {error!r}"
            ) from error
        modules = self._modules.started(module_ids)
        saved.restore({text_of(module_id): modules.clients[module_id] for module_id in module_ids})
        with named(saved.manifest):
            self._take_over(modules, *records)
