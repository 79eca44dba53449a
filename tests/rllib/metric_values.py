"""Metrics as an algorithm shows them."""

from typing import Any

import numpy as np
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger


def flat(metrics: Any, path: tuple = ()) -> dict[tuple, Any]:
    """Each statistic by its path."""
    if isinstance(metrics, dict):
        return {k: v for name in metrics for k, v in flat(metrics[name], (*path, name)).items()}
    return {path: metrics}


def values(reduced: dict) -> dict[tuple, float]:
    """What an algorithm shows after it has taken the metrics in."""
    logger = MetricsLogger(root=True)
    logger.aggregate([reduced], key="buffer")
    return {path: float(np.asarray(v)) for path, v in flat(logger.peek("buffer")).items()}
