"""TQC, enabled, where RLlib has it."""

from __future__ import annotations

import ray

from rllib_per_acc.rllib.compat import HAS_TQC
from rllib_per_acc.rllib.mixins import AccAlgorithmMixin, AccConfigMixin

if not HAS_TQC:
    raise ImportError(
        f"AccTQC: got Ray {ray.__version__}, which has no ray.rllib.algorithms.tqc; expected "
        "2.54 or newer. DQN and SAC work with this one."
    )

from ray.rllib.algorithms.tqc import TQC, TQCConfig


class AccTQCConfig(AccConfigMixin, TQCConfig):
    """RLlib's `TQCConfig`, enabled."""


class AccTQC(AccAlgorithmMixin, TQC):
    """RLlib's `TQC`, enabled."""

    config_class = AccTQCConfig
