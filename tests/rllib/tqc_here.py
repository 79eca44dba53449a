"""TQC where this Ray has it, and the mark of tests that need it."""

import pytest
import ray

from rllib_per_acc.rllib.compat import HAS_TQC

needs_tqc = pytest.mark.skipif(
    not HAS_TQC, reason=f"Ray {ray.__version__} has no TQC: it came with 2.54"
)
if HAS_TQC:
    from ray.rllib.algorithms.tqc import TQC, TQCConfig

    from rllib_per_acc import AccTQC, AccTQCConfig
else:
    TQC = TQCConfig = AccTQC = AccTQCConfig = None
