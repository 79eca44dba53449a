"""AccMultiAgentPrioritizedReplayBuffer: RLlib's old multi-agent buffer over ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import ray
from ray.rllib.policy.sample_batch import SampleBatch
from ray.rllib.utils.annotations import OldAPIStack, override
from ray.rllib.utils.replay_buffers.multi_agent_prioritized_replay_buffer import (
    MultiAgentPrioritizedReplayBuffer,
)
from ray.rllib.utils.replay_buffers.multi_agent_replay_buffer import (
    MultiAgentReplayBuffer,
    ReplayMode,
)
from ray.rllib.utils.replay_buffers.replay_buffer import StorageUnit
from ray.rllib.utils.typing import PolicyID, SampleBatchType

from rllib_per_acc.copies import IndependentCopies
from rllib_per_acc.ray_versions import warn_if_newer
from rllib_per_acc.replay_options import non_negative, positive_int
from rllib_per_acc.rllib.closed import Closed
from rllib_per_acc.rllib.compat import ApplyMixin, EpisodeBufferMeta, made_into_actor
from rllib_per_acc.rllib.ids import text_of
from rllib_per_acc.rllib.module_watch import ModuleWatch
from rllib_per_acc.rllib.old_stack.options import OldStackOptions, split_options
from rllib_per_acc.rllib.old_stack.prioritized_buffer import (
    AccPrioritizedReplayBuffer,
    checked_unit,
)
from rllib_per_acc.rllib.old_stack.rings import RingMaker, ring_maker
from rllib_per_acc.rllib.old_stack.sample_batches import is_plain
from rllib_per_acc.sampling import PRIORITY_FLOOR, checked_priorities

_OWN_KEYS = (
    "capacity",
    "storage_unit",
    "replay_mode",
    "replay_sequence_override",
    "replay_sequence_length",
    "replay_burn_in",
    "replay_zero_init_states",
    "underlying_buffer_config",
    "prioritized_replay_alpha",
    "prioritized_replay_beta",
    "prioritized_replay_eps",
)


@OldAPIStack
class AccMultiAgentPrioritizedReplayBuffer(
    ApplyMixin, IndependentCopies, MultiAgentPrioritizedReplayBuffer, metaclass=EpisodeBufferMeta
):
    """RLlib's `MultiAgentPrioritizedReplayBuffer` (old API stack), fast.

    For DQN and SAC on the old API stack, with one agent or several, by its dotted name or as a
    class:

        config.api_stack(
            enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False
        ).training(replay_buffer_config={
            "type": "rllib_per_acc.AccMultiAgentPrioritizedReplayBuffer",
            "capacity": 1_000_000, "prioritized_replay_alpha": 0.6,
        })

    There is an `AccPrioritizedReplayBuffer` for each policy; `num_shards` actors hold the rows of
    all. Made into an actor by hand, as RLlib's former Ape-X did it, it keeps them in itself:
    `ray.remote(num_cpus=0, max_restarts=-1)(AccMultiAgentPrioritizedReplayBuffer)`. Not for use by
    several threads.
    """

    stands_for = ("rllib_per_acc.AccMultiAgentPrioritizedReplayBuffer",)

    def __init__(
        self,
        capacity: int = 10000,
        storage_unit: str | StorageUnit = "timesteps",
        num_shards: int = 1,
        replay_mode: str | ReplayMode = "independent",
        replay_sequence_override: bool = True,
        replay_sequence_length: int = 1,
        replay_burn_in: int = 0,
        replay_zero_init_states: bool = True,
        underlying_buffer_config: dict[str, Any] | None = None,
        prioritized_replay_alpha: float = 0.6,
        prioritized_replay_beta: Any = 0.4,
        prioritized_replay_eps: float = 1e-6,
        **options: Any,
    ) -> None:
        """Builds the buffer; its actors are started when it is first used.

        Args:
            capacity: Time steps to keep for each policy, in all shards together.
            storage_unit: What an item is: `timesteps`, `sequences`, `episodes` or `fragments`.
            num_shards: Ray actors that hold the rows; 0: this process does. In an actor made by
                hand it is RLlib's number of such actors: this one keeps `capacity // num_shards`.
            replay_mode: `independent`: policy by policy; `lockstep`: steps of all policies
                together, not prioritized (RLlib's algorithms refuse it).
            replay_sequence_override: As RLlib; for sequences.
            replay_sequence_length: As RLlib; for sequences.
            replay_burn_in: As RLlib; for sequences.
            replay_zero_init_states: As RLlib; for sequences.
            underlying_buffer_config: As RLlib: buffers of another kind for each policy.
            prioritized_replay_alpha: Exponent of the priorities, >= 0; 0 draws uniformly.
            prioritized_replay_beta: Exponent of the importance weights, or a schedule of it.
            prioritized_replay_eps: Added to the absolute TD errors.
            **options: The fields of `PriorityOptions`, `ShardOptions` and `CallOptions`.

        Raises:
            TypeError, ValueError: If a key is unknown (the nearest known one is named) or a value
                is wrong.
        """
        warn_if_newer(ray.__version__)
        capacity = positive_int("capacity", capacity)
        unit = checked_unit(storage_unit)
        split = split_options(
            options | {"num_shards": num_shards},
            _OWN_KEYS,
            prioritized_replay_alpha,
            prioritized_replay_beta,
        )
        if made_into_actor(type(self)) and num_shards:
            capacity = positive_int("capacity // num_shards", capacity // num_shards)
        super().__init__(
            capacity=capacity,
            storage_unit=unit,
            replay_mode=replay_mode,
            replay_sequence_override=replay_sequence_override,
            replay_sequence_length=replay_sequence_length,
            replay_burn_in=replay_burn_in,
            replay_zero_init_states=replay_zero_init_states,
            underlying_buffer_config=underlying_buffer_config,
            prioritized_replay_eps=non_negative("prioritized_replay_eps", prioritized_replay_eps),
        )
        self._watch = ModuleWatch()
        self._is_ours = underlying_buffer_config is None
        if self._is_ours:
            self.underlying_buffer_call_args: dict[str, Any] = {}
            if self.replay_mode is ReplayMode.LOCKSTEP or unit is not StorageUnit.TIMESTEPS:
                unit = StorageUnit.FRAGMENTS  # this class cuts, theirs keep what they get
            maker = ring_maker(type(self), capacity, split.replay, split.shards)
            self.replay_buffers: Any = _PolicyBuffers(
                partial(_PolicyBuffer, capacity, unit, split, maker)
            )

    @override(MultiAgentPrioritizedReplayBuffer)
    def add(self, batch: SampleBatchType, **kwargs: Any) -> None:
        """Stores the items of a batch, policy by policy.

        Args:
            batch: A `SampleBatch` or a `MultiAgentBatch`.
            **kwargs: `weight`: see `_add_to_underlying_buffer`.
        """
        for policy_id in self._watch.gone():
            self.remove_policy(policy_id)
        super().add(batch, **kwargs)

    @override(MultiAgentPrioritizedReplayBuffer)
    def _add_to_underlying_buffer(
        self, policy_id: PolicyID, batch: SampleBatchType, **kwargs: Any
    ) -> None:
        """Cuts a policy's batch into items and stores them.

        First priorities are the argument `weight`, or else those that come in the batch's column
        `weights` (worker-side prioritization): of each item its own mean.
        """
        if not self._is_ours:
            super()._add_to_underlying_buffer(policy_id, batch, **kwargs)
            return
        if self.replay_mode is ReplayMode.LOCKSTEP:
            kwargs.pop("weight", None)
        if self.storage_unit is StorageUnit.TIMESTEPS and is_plain(batch):
            self.replay_buffers[policy_id].add(batch, **kwargs)
        else:
            # RLlib's prioritized version gives all items of a batch the weight of the first one.
            MultiAgentReplayBuffer._add_to_underlying_buffer(self, policy_id, batch, **kwargs)

    @override(MultiAgentPrioritizedReplayBuffer)
    def update_priorities(self, prio_dict: dict[PolicyID, tuple[Any, Any]]) -> None:
        """Gives items the priorities `|TD error| + prioritized_replay_eps`.

        Args:
            prio_dict: For each policy the `batch_indexes` of items, integers of shape (n,), and
                their TD errors, numbers of shape (n,).

        Raises:
            TypeError, IndexError, ValueError: If they are not. Nothing of that policy is changed.
        """
        with self.update_priorities_timer:
            for policy_id, (indexes, td_errors) in prio_dict.items():
                if policy_id not in self.replay_buffers:
                    raise ValueError(
                        f"prio_dict: got the policy {policy_id!r}, expected one of "
                        f"{list(self.replay_buffers)}"
                    )
                errors = np.abs(checked_priorities(td_errors, len(indexes)))
                priorities = np.maximum(errors + self.prioritized_replay_eps, PRIORITY_FLOOR)
                self.replay_buffers[policy_id].update_priorities(indexes, priorities)

    def remove_policy(self, policy_id: PolicyID) -> None:
        """Forgets everything of a policy: its buffer ends.

        After `Algorithm.remove_policy` the algorithm's next `add` calls it. Items that come later
        for this policy start it anew.

        Args:
            policy_id: The policy; one without items is none too many.
        """
        removed = self.replay_buffers.pop(policy_id, None)
        if self._is_ours and removed is not None:
            removed.close()

    def close(self) -> None:
        """Ends the buffers of all policies, and the actors. Again: does nothing.

        Every later call raises a `ReplayClosedError`.
        """
        if isinstance(self.replay_buffers, Closed):
            return
        for policy_id in list(self.replay_buffers):
            self.remove_policy(policy_id)
        self.replay_buffers = Closed()

    def get_shard_info(self) -> list[dict[str, Any]]:
        """For each policy and actor: `policy_id` and `AccPrioritizedReplayBuffer.get_shard_info`.

        Raises:
            AttributeError: If the policies' buffers are others (`underlying_buffer_config`).
        """
        return [
            {"policy_id": policy_id} | info
            for policy_id, buffer in self.replay_buffers.items()
            for info in buffer.get_shard_info()
        ]


class _PolicyBuffers(dict[PolicyID, "_PolicyBuffer"]):
    """Makes the buffer of a policy when it is first asked for."""

    def __init__(self, make: Callable[[PolicyID], _PolicyBuffer]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, policy_id: PolicyID) -> _PolicyBuffer:
        self[policy_id] = self._make(policy_id)
        return self[policy_id]


class _PolicyBuffer(AccPrioritizedReplayBuffer):
    """The buffer of one policy, whose ring is one of several."""

    def __init__(
        self,
        capacity: int,
        unit: StorageUnit,
        options: OldStackOptions,
        maker: RingMaker,
        policy_id: PolicyID,
    ) -> None:
        self._set_up(capacity, unit, options, maker, text_of(policy_id))

    @override(AccPrioritizedReplayBuffer)
    def add(self, batch: SampleBatchType, **kwargs: Any) -> None:
        if isinstance(batch, SampleBatch) and kwargs.get("weight") is None and batch.count:
            kwargs["weight"] = _weight_in(batch, self.storage_unit)
        super().add(batch, **kwargs)


def _weight_in(batch: SampleBatch, unit: StorageUnit) -> Any:
    """First priorities from the column `weights`, one for each time step or their mean; or None."""
    weights = dict.get(batch, "weights")
    if weights is None or not len(weights):
        return None
    weights = np.asarray(weights)
    if unit is StorageUnit.TIMESTEPS and is_plain(batch):
        return weights.reshape(batch.count, -1).mean(axis=1)
    return weights.mean()
