"""enable: a config whose algorithm and buffer know of each other."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.sac import SAC, SACConfig
from ray.tune.search.sample import Domain

from rllib_per_acc.rllib.buffer_config import check_keys
from rllib_per_acc.rllib.compat import HAS_TQC
from rllib_per_acc.rllib.mixins import (
    OWN_BUFFERS,
    PAIRS,
    REPLACES,
    TYPE,
    AccAlgorithmMixin,
    AccConfigMixin,
    buffer_class_of,
    set_own_type,
)

if HAS_TQC:
    import rllib_per_acc.rllib.tqc  # noqa: F401 - adds to PAIRS


class AccDQNConfig(AccConfigMixin, DQNConfig):
    """RLlib's `DQNConfig`, enabled."""


class AccSACConfig(AccConfigMixin, SACConfig):
    """RLlib's `SACConfig`, enabled."""


class AccDQN(AccAlgorithmMixin, DQN):
    """RLlib's `DQN`, enabled."""

    config_class = AccDQNConfig


class AccSAC(AccAlgorithmMixin, SAC):
    """RLlib's `SAC`, enabled."""

    config_class = AccSACConfig


def enable(config: AlgorithmConfig, **options: Any) -> AccConfigMixin:
    """A new config with this package's buffer, and what a key in `replay_buffer_config` cannot do.

    The key alone (`"type": "rllib_per_acc.AccPrioritizedEpisodeReplayBuffer"`) is enough for most;
    `enable` adds:

    - SAC and TQC with the buffer's dotted name and `build_algo()`, which RLlib alone refuses (it
      takes the class there, and both forms with DQN, and all of them under Tune);
    - resources of shards (`num_cpus_per_shard`, `num_gpus_per_shard`) in a Tune trial's placement
      group;
    - the buffer in checkpoints, with `training(store_buffer_in_checkpoints=True)`;
    - a learner connector that hands sampled rows over as whole columns, after your own connectors.
      The train batch is the same bit by bit.

    In a multi-agent setup (`config.multi_agent(policies=...)` before) the buffer is
    `rllib_per_acc.AccMultiAgentPrioritizedEpisodeReplayBuffer`.

    Under Tune give the algorithm with the config: `tune.Tuner(config.algo_class,
    param_space=config)`.

    Args:
        config: A `DQNConfig`, `SACConfig` or `TQCConfig`, an enabled config, or a config for which
            there is a pair of mixins. It is not changed.
        **options: Keys for `replay_buffer_config` beside those that are there, `type` included;
            values may be search spaces of Tune.

    Returns:
        An `AccDQNConfig`, `AccSACConfig`, `AccTQCConfig` or your own class with the mixin, not
        frozen.

    Raises:
        TypeError: If `config` is of a class without such a pair (the message says how to make
            one), or if a key is unknown (the nearest known one is named).
        ValueError: If `type` is not a buffer of this package, or none is known that replaces it.
    """
    enabled = _enabled_copy(config)
    buffer_config = enabled.replay_buffer_config | options
    set_own_type(buffer_config, is_multi_agent=enabled.is_multi_agent)
    buffer_class = buffer_class_of(buffer_config)
    # What Tune is to choose for each trial is checked there.
    type_ = buffer_config.get("type")
    is_searched = isinstance(type_, Domain) or (isinstance(type_, dict) and "grid_search" in type_)
    if buffer_class is None and not is_searched:
        raise ValueError(
            f"type: got {type_!r} in replay_buffer_config, expected {TYPE!r}, "
            f"that class, or one of RLlib's that it replaces: {', '.join(REPLACES)}"
        )
    if buffer_class in OWN_BUFFERS or is_searched:
        check_keys(key for key in buffer_config if key != "type")
    enabled.replay_buffer_config = buffer_config
    return enabled


def _enabled_copy(config: Any) -> AccConfigMixin:
    if not isinstance(config, AlgorithmConfig) or not hasattr(config, "replay_buffer_config"):
        raise TypeError(
            f"config: got a {type(config).__name__}, expected a DQNConfig, SACConfig or TQCConfig"
        )
    pair = type(config), config.algo_class
    if isinstance(config, AccConfigMixin) and issubclass(pair[1], AccAlgorithmMixin):
        return config.copy(copy_frozen=False)
    if pair not in PAIRS:
        names = [getattr(class_, "__name__", class_) for class_ in pair]
        known = ", ".join(f"{one.__name__} with {two.__name__}" for one, two in PAIRS)
        raise TypeError(
            f"config: got a {names[0]} with the algorithm {names[1]}, expected {known}. "
            "For a class of your own, define once in a module:\n"
            f"    class Acc{names[0]}(rllib_per_acc.AccConfigMixin, {names[0]}): pass\n"
            f"    class Acc{names[1]}(rllib_per_acc.AccAlgorithmMixin, {names[1]}): "
            f"config_class = Acc{names[0]}"
        )
    enabled = PAIRS[pair]()
    settings = vars(config.copy(copy_frozen=False))
    enabled.__dict__.update(settings | {"algo_class": enabled.algo_class})
    return enabled
