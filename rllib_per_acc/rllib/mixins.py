"""What `enable` adds to RLlib's configs and algorithms: one mixin for each."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any, ClassVar

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.connectors.common import AddObservationsFromEpisodesToBatch
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES
from ray.rllib.utils import force_list
from ray.rllib.utils.annotations import override
from ray.rllib.utils.replay_buffers.multi_agent_episode_buffer import MultiAgentEpisodeReplayBuffer
from ray.rllib.utils.serialization import deserialize_type
from ray.tune import PlacementGroupFactory

from rllib_per_acc.rllib.buffer_base import EpisodeBufferBase
from rllib_per_acc.rllib.buffer_config import check_buffer_config, shard_bundles
from rllib_per_acc.rllib.checkpoint import (
    COMPONENT_REPLAY_BUFFER,
    CheckpointedBuffer,
    holds_buffer,
)
from rllib_per_acc.rllib.compat import (
    ClassReference,
    EpisodeBufferMeta,
    shown_as_rllibs,
    with_warning,
)
from rllib_per_acc.rllib.episode_buffer import AccPrioritizedEpisodeReplayBuffer
from rllib_per_acc.rllib.learner_connector import AddRowGroupsToTrainBatch
from rllib_per_acc.rllib.multi_agent_buffer import AccMultiAgentPrioritizedEpisodeReplayBuffer

logger = logging.getLogger(__name__)

TYPE = "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer"
MULTI_AGENT_TYPE = "rllib_per_acc.AccMultiAgentPrioritizedEpisodeReplayBuffer"
REPLACES = {
    "EpisodeReplayBuffer": TYPE,
    "PrioritizedEpisodeReplayBuffer": TYPE,
    "MultiAgentEpisodeReplayBuffer": MULTI_AGENT_TYPE,
    "MultiAgentPrioritizedEpisodeReplayBuffer": MULTI_AGENT_TYPE,
}
"""RLlib's buffers, and this package's buffer that an enabled config has in their place."""
OWN_BUFFERS = (AccPrioritizedEpisodeReplayBuffer, AccMultiAgentPrioritizedEpisodeReplayBuffer)
PAIRS: dict[tuple[type, type], type[AccConfigMixin]] = {}
"""The enabled config for a config class and an algorithm class."""


def buffer_class_of(replay_buffer_config: dict[str, Any]) -> type | None:
    """The buffer class of this package that `type` means, or None if it means another."""
    type_ = replay_buffer_config.get("type")
    class_ = deserialize_type(type_) if isinstance(type_, str | type) else None
    return class_ if isinstance(class_, EpisodeBufferMeta) else None


def set_own_type(replay_buffer_config: dict[str, Any], *, is_multi_agent: bool = False) -> None:
    """Puts this package's buffer in the place of RLlib's; in multi-agent setups that for them."""
    type_ = replay_buffer_config.get("type")
    if not isinstance(type_, str):
        return
    if is_multi_agent and type_ in (*REPLACES, TYPE):
        replay_buffer_config["type"] = MULTI_AGENT_TYPE
    elif type_ in REPLACES:
        replay_buffer_config["type"] = REPLACES[type_]


class AccConfigMixin(AlgorithmConfig):
    """Put before one of RLlib's config classes, or a class of yours derived from one.

    Its settings are those of that class; only the default `type` in `replay_buffer_config` is
    `rllib_per_acc.AccPrioritizedEpisodeReplayBuffer`. `AccAlgorithmMixin` pairs it with an
    algorithm.
    """

    paired: ClassVar[ClassReference]

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__()
        self.algo_class = algo_class or self.paired.referenced
        set_own_type(self.replay_buffer_config)

    @override(AlgorithmConfig)
    def validate(self) -> None:
        if self.total_train_batch_size < max(1, self.num_learners):
            raise ValueError(
                f"train_batch_size_per_learner: got {self.train_batch_size_per_learner} "
                f"(train_batch_size={self.train_batch_size}, num_learners={self.num_learners}), "
                "expected at least one row for each learner"
            )
        buffer_class = buffer_class_of(self.replay_buffer_config)
        if buffer_class is None:
            logger.warning(
                "This config was enabled for rllib_per_acc, but replay_buffer_config names "
                "another buffer: got type=%r, expected %r",
                self.replay_buffer_config.get("type"),
                TYPE,
            )
            super().validate()
            return
        if buffer_class in OWN_BUFFERS:
            check_buffer_config(self.replay_buffer_config)
        if issubclass(buffer_class, EpisodeBufferBase):
            self._check_agents(issubclass(buffer_class, MultiAgentEpisodeReplayBuffer))
        try:
            with shown_as_rllibs(self.replay_buffer_config):
                super().validate()
        except TypeError as error:
            n_step, fragment = getattr(self, "n_step", 1), self.rollout_fragment_length
            if isinstance(n_step, tuple | list) and fragment != "auto":  # DQN compares the two
                raise ValueError(
                    f"rollout_fragment_length: got {fragment} with n_step={n_step}, expected "
                    '"auto": RLlib takes no other with a range of n_step here'
                ) from error
            raise

    def _check_agents(self, multi_agent_buffer: bool) -> None:
        if multi_agent_buffer != self.is_multi_agent:
            raise ValueError(
                f"type: got {self.replay_buffer_config['type']!r} in replay_buffer_config, "
                f"expected {MULTI_AGENT_TYPE if self.is_multi_agent else TYPE!r} with the policies "
                f"{list(self.policies)}"
            )

    @override(AlgorithmConfig)
    def to_dict(self) -> dict[str, Any]:
        return with_warning(super().to_dict())

    @override(AlgorithmConfig)
    def build_learner_connector(
        self, input_observation_space: Any, input_action_space: Any, device: Any = None
    ) -> Any:
        pipeline = super().build_learner_connector(
            input_observation_space, input_action_space, device
        )
        if self.add_default_connectors_to_learner_pipeline:
            pipeline.insert_before(AddObservationsFromEpisodesToBatch, AddRowGroupsToTrainBatch())
        return pipeline


class AccAlgorithmMixin(Algorithm):
    """Put before one of RLlib's algorithms, or a class of yours derived from one.

    Two lines enable an algorithm of your own:

        class AccMyConfig(rllib_per_acc.AccConfigMixin, MyConfig): pass
        class AccMyDQN(rllib_per_acc.AccAlgorithmMixin, MyDQN): config_class = AccMyConfig

    From then on `rllib_per_acc.enable()` takes a `MyConfig`.
    """

    config_class: ClassVar[type[AccConfigMixin]]
    is_enabled = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "config_class" in vars(cls):
            cls.config_class.paired = ClassReference(cls)
            if AccAlgorithmMixin in cls.__bases__:
                pair = _after(cls.config_class, AccConfigMixin), _after(cls, AccAlgorithmMixin)
                PAIRS[pair] = cls.config_class

    @override(Algorithm)
    def setup(self, config: Any) -> None:
        """RLlib's, and an error for a buffer that can only become too large."""
        super().setup(config)
        buffer, spaces = self.local_replay_buffer, self.spaces or {}
        if (
            isinstance(buffer, AccPrioritizedEpisodeReplayBuffer)
            and INPUT_ENV_SINGLE_SPACES in spaces
        ):
            try:
                buffer.check_memory(*spaces[INPUT_ENV_SINGLE_SPACES])
            except ValueError:
                self.cleanup()
                raise

    @override(Algorithm)
    def remove_module(self, module_id: Any, **kwargs: Any) -> Any:
        """RLlib's; the rows of the module go with it."""
        spec = super().remove_module(module_id, **kwargs)
        self._tell_buffer("remove_module", module_id)
        return spec

    @override(Algorithm)
    def cleanup(self) -> None:
        """RLlib's, and the end of the buffer with its actors. `stop` calls it."""
        super().cleanup()
        self._tell_buffer("close")

    def _tell_buffer(self, method: str, *arguments: Any) -> None:
        """Calls a method of the buffer, if there is one that has it."""
        told = getattr(getattr(self, "local_replay_buffer", None), method, None)
        if told is not None:
            told(*arguments)

    @classmethod
    @override(Algorithm)
    def get_default_config(cls) -> AccConfigMixin:
        return cls.config_class()

    @classmethod
    @override(Algorithm)
    def default_resource_request(cls, config: Any) -> PlacementGroupFactory:
        """RLlib's request, and a bundle for each shard (of each module) that asks for resources."""
        request = super().default_resource_request(config)
        full_config = cls.get_default_config().update_from_dict(config)
        replay_buffer_config = full_config.replay_buffer_config
        if buffer_class_of(replay_buffer_config) is None:
            return request
        shards = shard_bundles(replay_buffer_config) * len(full_config.policies)
        head: list[dict[str, float]] = [{}] if request.head_bundle_is_empty else []
        bundles = [*head, *request.bundles, *shards]
        return PlacementGroupFactory(bundles, strategy=request.strategy)

    # The buffer in checkpoints. It is the first component: it takes the most room, and nothing else
    # has been written over yet when there is none.

    @override(Algorithm)
    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """RLlib's, and the buffer before them if `store_buffer_in_checkpoints` says so."""
        components = super().get_checkpointable_components()
        if self._stores_buffer:
            return [(COMPONENT_REPLAY_BUFFER, self.local_replay_buffer), *components]
        return components

    @property
    def _stores_buffer(self) -> bool:
        asked = getattr(self.config, "store_buffer_in_checkpoints", False)
        return bool(asked) and isinstance(self.local_replay_buffer, CheckpointedBuffer)

    @override(Algorithm)
    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """RLlib's state, which never holds the buffer: only `save_to_path` writes that."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if components is not None and COMPONENT_REPLAY_BUFFER in force_list(components):
            state[COMPONENT_REPLAY_BUFFER] = {}  # `save_to_path` asks; the buffer writes itself
        return state

    @override(Algorithm)
    def restore_from_path(self, path: Any, *args: Any, **kwargs: Any) -> None:
        """RLlib's; says in the log when the buffer is not there, or is there and left out."""
        super().restore_from_path(path, *args, **kwargs)
        if kwargs.get("component") is not None or kwargs.get("inference_only"):
            return
        held = holds_buffer(path, kwargs.get("filesystem"))
        if self._stores_buffer and not held:
            logger.warning(
                "The checkpoint at %s holds no replay buffer, although "
                "store_buffer_in_checkpoints=True: the buffer stays as it is, with %d steps",
                path,
                self.local_replay_buffer.get_num_timesteps(),
            )
        elif held and not self._stores_buffer:
            logger.warning(
                "The checkpoint at %s holds a replay buffer, which is not restored, since "
                "store_buffer_in_checkpoints=False",
                path,
            )


def _after(cls: type, mixin: type) -> type:
    """The class that `mixin` was put before in `cls`."""
    order = cls.__mro__
    return order[order.index(mixin) + 1]
