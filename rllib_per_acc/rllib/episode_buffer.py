"""AccPrioritizedEpisodeReplayBuffer: RLlib's prioritized episode buffer over columns and shards."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import force_list
from ray.rllib.utils.annotations import override
from ray.rllib.utils.replay_buffers.prioritized_episode_buffer import (
    PrioritizedEpisodeReplayBuffer,
)
from ray.rllib.utils.typing import ModuleID, ResultDict

from rllib_per_acc.descriptions import anything, record
from rllib_per_acc.replay_batch import ReplayClient
from rllib_per_acc.replay_checkpoint import SavedReplays
from rllib_per_acc.replay_options import SequenceShape, non_negative_int
from rllib_per_acc.rllib.batch import row_groups
from rllib_per_acc.rllib.buffer_base import EpisodeBufferBase, check_spaces
from rllib_per_acc.rllib.checkpoint import CheckpointedBuffer
from rllib_per_acc.rllib.client import replay_client
from rllib_per_acc.rllib.compat import EpisodeBufferMeta
from rllib_per_acc.rllib.episode_chunks import EpisodesView, chunk_of
from rllib_per_acc.rllib.last_samples import SentSample
from rllib_per_acc.rllib.memory import check_memory
from rllib_per_acc.rllib.metrics import log_activity, log_shards
from rllib_per_acc.rllib.one_step_episodes import one_step_episodes
from rllib_per_acc.rllib.send_record import SendRecord
from rllib_per_acc.rllib.sequence_episodes import sequence_episodes
from rllib_per_acc.threads import serialized

_check_state = record({"replay": anything, "spaces": check_spaces})


class AccPrioritizedEpisodeReplayBuffer(
    EpisodeBufferBase,
    CheckpointedBuffer,
    PrioritizedEpisodeReplayBuffer,
    metaclass=EpisodeBufferMeta,
):
    """RLlib's `PrioritizedEpisodeReplayBuffer`, fast, and in a Ray actor of its own.

    Use it by its dotted name or as a class:

        config.training(replay_buffer_config={
            "type": "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer",
            "capacity": 1_000_000, "alpha": 0.6, "beta": 0.4,
        })

    It does what RLlib's class does (where that is right) under the same method names, but keeps
    nothing of its storage: steps are rows of columns, in this process or in an actor. Made into an
    actor by hand (`ray.remote(AccPrioritizedEpisodeReplayBuffer)`), it keeps them in itself.
    """

    _ended_by_close = ("_client", "_last_samples")
    stands_for = (
        "PrioritizedEpisodeReplayBuffer",
        "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer",
    )

    def __init__(self, capacity: int = 10000, **options: Any) -> None:
        """Builds the buffer and starts its actor; see `EpisodeBufferBase`."""
        super().__init__(capacity, **options)
        self._client = replay_client(
            type(self), self.capacity, self._replay_options, self._shard_options
        )
        self._observation_space: Any = None
        self._action_space: Any = None
        self._indices_by_id: tuple[list[Any], dict[Any, int]] | None = None

    @override(PrioritizedEpisodeReplayBuffer)
    @serialized
    def add(
        self,
        episodes: list[SingleAgentEpisode] | SingleAgentEpisode,
        weight: float | NDArray[np.floating[Any]] | None = None,
    ) -> None:
        """Stores episodes, or chunks that continue stored ones.

        Args:
            episodes: What to store; nothing of it is changed or kept.
            weight: First priority: one number, or one for each time step in order; by default the
                maximum priority.

        Raises:
            TypeError, ValueError: If an episode does not fit; nothing is changed. With the rows in
                an actor a later call raises this.
        """
        episodes = force_list(episodes)
        for episode in episodes:
            if not isinstance(episode, SingleAgentEpisode):
                raise TypeError(
                    f"episodes: got a {type(episode).__name__}, expected a SingleAgentEpisode"
                )
        if self._observation_space is None and episodes:
            self._observation_space = episodes[0].observation_space
            self._action_space = episodes[0].action_space
        self._client.add([chunk_of(episode) for episode in episodes], weight)

    @override(PrioritizedEpisodeReplayBuffer)
    @serialized
    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,
        batch_length_T: int | None = None,
        n_step: int | tuple[int, int] | None = None,
        beta: Any = 0.0,
        gamma: float = 0.99,
        include_infos: bool | None = None,
        include_extra_model_outputs: bool | None = None,
        to_numpy: bool = False,
        lookback: int = 0,
        min_batch_length_T: int = 0,
        sample_episodes: bool = True,
    ) -> list[SingleAgentEpisode]:
        """Draws transitions with probabilities proportional to `priority ** alpha`.

        Or, for stateful modules, sequences of steps, each by the priority of its first step. A
        sequence ends with its episode, and never goes on in another one.

        Args:
            num_items: How many transitions (or `batch_size_B`, not both). So many steps are in
                `ceil(num_items / batch_length_T)` sequences, unless their episodes end before.
            batch_size_B: The same under another name.
            batch_length_T: Steps of a sequence; 0, or 1 without `lookback`: single transitions.
                None for the buffer's, where 1 means single transitions too.
            n_step: Steps of each transition, or a closed range `(low, high)` to draw them from.
            beta: Exponent of the importance weights, or a schedule of it; None for the buffer's.
            gamma: Discount per step of the n-step reward.
            include_infos: Whether the infos come along; None as the key of this name says.
            include_extra_model_outputs: Likewise the stored extra model outputs.
            to_numpy: Whether one-step episodes hold arrays (row groups, sequences and episodes with
                a lookback always do).
            lookback: Steps before a sequence that come along: RLlib's connectors take the state
                that it starts with from there. With transitions the key of this name counts too,
                if it is more; row groups have none.
            min_batch_length_T: Each sequence has more steps than these first ones, whose TD errors
                do not count: RLlib's `burn_in_len`.
            sample_episodes: Kept for RLlib: always episodes.

        Returns:
            Row groups (see `rllib_per_acc.rllib.batch`) or one-step episodes, as `sample_format`
            says, or sequences as episodes, with `weights` and `n_step` among their extra model
            outputs.

        Raises:
            TypeError, ValueError: If an argument is wrong, the buffer is empty, or no episode is
                long enough.
        """
        count = self._num_items(num_items, batch_size_B)
        sequences = self._sequences(batch_length_T, lookback, min_batch_length_T)
        if sequences is not None:
            count = -(-count // sequences.length)
        batch = self._client.sample(
            count,
            n_step=1 if n_step is None else n_step,
            gamma=gamma,
            beta=beta,
            sequences=sequences or self._steps_before(lookback),
            **self._include(include_infos, True if sequences else include_extra_model_outputs),
        )
        spaces = self._observation_space, self._action_space
        episodes: list[SingleAgentEpisode]
        record: SendRecord
        if sequences is not None:
            episodes, record = sequence_episodes(batch, sequences, self.eta, spaces)
        elif self.sample_format == "rows":
            groups, record = row_groups(batch)
            episodes = [*groups]
        else:
            episodes, record = one_step_episodes(batch, spaces, to_numpy=to_numpy)
        return self._last_samples.drawn(episodes, {None: SentSample(batch, record)})

    def _sequences(self, length: int | None, lookback: int, burn_in: int) -> SequenceShape | None:
        """The shape of the sequences that `sample` is asked for, or None for transitions."""
        steps = self.batch_length_T if length is None else length
        steps = non_negative_int("batch_length_T", steps)
        if steps > 1 or (length and lookback):
            return SequenceShape(steps, lookback, burn_in + 1)
        return None

    @override(PrioritizedEpisodeReplayBuffer)
    @serialized
    def update_priorities(
        self,
        priorities: NDArray[np.floating[Any]],
        module_id: ModuleID | None = None,
        *,
        sample_id: int | None = None,
    ) -> None:
        """Gives the rows of the last sample new priorities.

        Args:
            priorities: Absolute TD errors of shape (B,), or of the steps of sequences of shape
                (B, T), in the order in which RLlib's learners return them.
            module_id: Kept for RLlib: there is one module.
            sample_id: An attribute of what `sample` returned; None for the last sample.

        Raises:
            RuntimeError: If nothing was sampled since the last update, if another thread drew the
                last sample, if in an actor there are several (see `LastSamples`), or if not every
                row was sent to exactly one learner.
            TypeError, ValueError: If the priorities are not finite numbers, one for each row.
                Nothing is changed.
        """
        self._last_samples.update(None, priorities, sample_id)

    @override(PrioritizedEpisodeReplayBuffer)
    @serialized
    def get_metrics(self) -> ResultDict:
        """RLlib's metrics of what happened since the last call, reduced, and each shard's."""
        log_activity(
            self.metrics, self._client.take_activity(), self._metrics_num_episodes_for_smoothing
        )
        log_shards(self.metrics, self._client.shard_metrics())
        return self.metrics.reduce()

    @override(PrioritizedEpisodeReplayBuffer)
    def get_num_episodes(self, module_id: ModuleID | None = None) -> int:
        """Episodes stored."""
        return self._client.info()["episodes"]

    @override(PrioritizedEpisodeReplayBuffer)
    def get_num_episodes_evicted(self, module_id: ModuleID | None = None) -> int:
        """Episodes evicted so far."""
        return self._client.info()["episodes_evicted"]

    @override(PrioritizedEpisodeReplayBuffer)
    def get_num_timesteps(self, module_id: ModuleID | None = None) -> int:
        """Time steps stored."""
        return self._client.info()["steps"]

    @override(PrioritizedEpisodeReplayBuffer)
    def get_sampled_timesteps(self, module_id: ModuleID | None = None) -> int:
        """Time steps sampled so far."""
        return self._client.info()["steps_sampled"]

    @override(PrioritizedEpisodeReplayBuffer)
    def get_added_timesteps(self, module_id: ModuleID | None = None) -> int:
        """Time steps added so far."""
        return self._client.info()["steps_added"]

    @property
    def episodes(self) -> EpisodesView:
        """The stored episodes as a sequence, oldest first; reading it copies them out."""
        return EpisodesView(self._client, (self._observation_space, self._action_space))

    @property
    def episode_id_to_index(self) -> Mapping[Any, int]:
        """The number of each stored episode by its id, as of now; evicted ones count too.

        RLlib's data workers look there which episodes they have.
        """
        info = self._client.info()
        stamp = [info.get(name) for name in ("episodes_added", "episodes_evicted", "incarnation")]
        if self._indices_by_id is None or self._indices_by_id[0] != stamp:
            first = info["episodes_evicted"]
            self._indices_by_id = (
                stamp,
                {id_: first + i for i, id_ in enumerate(self._client.episode_ids())},
            )
        return MappingProxyType(self._indices_by_id[1])

    def check_memory(self, observation_space: Any, action_space: Any) -> None:
        """See `rllib_per_acc.rllib.memory.check_memory`; `enable` has it called at build."""
        check_memory(
            self.capacity,
            self._replay_options,
            self._shard_options,
            observation_space,
            action_space,
        )

    def get_shard_info(self) -> list[dict[str, Any]]:
        """For each shard where it runs (`pid`, `node`), its `device`, and its counters."""
        return self._client.shard_info()

    def get_priorities(self) -> dict[str, np.ndarray]:
        """The mass (`priority ** alpha`) of every stored step, oldest episode first.

        Returns:
            `episode_id` (object), `t` (int64, the time step in the episode) and `mass` (float64),
            each of shape (steps,).
        """
        return self._client.get_priorities()

    @override(PrioritizedEpisodeReplayBuffer)
    @serialized
    def get_state(self) -> dict[str, Any]:
        """Everything needed to go on, as copies (the spaces of the episodes included)."""
        return {
            "replay": self._client.get_state(),
            "spaces": (self._observation_space, self._action_space),
        }

    @override(PrioritizedEpisodeReplayBuffer)
    @serialized
    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what `get_state` returned, also of a buffer of another capacity.

        Where the capacity is less, the oldest episodes are evicted. A sample taken before can no
        longer be updated.

        Raises:
            ValueError: If it is not such a state; nothing is changed.
        """
        _check_state("state", state)
        self._client.set_state(state["replay"])
        self._observation_space, self._action_space = state["spaces"]
        self._last_samples.clear()

    @override(CheckpointedBuffer)
    def _replays(self) -> dict[str, ReplayClient]:
        return {"replay": self._client}

    @override(CheckpointedBuffer)
    def _restore(self, saved: SavedReplays) -> None:
        saved.restore(self._replays())
        self._last_samples.clear()
