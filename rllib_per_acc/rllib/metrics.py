"""A replay's activity under RLlib's metric keys, with RLlib's meanings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ray.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from ray.rllib.utils import metrics as keys
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_per_acc.activity import Activity
from rllib_per_acc.rllib.compat import reduction
from rllib_per_acc.rllib.ids import metric_key

_Key = str | tuple[str, str]
_Sum = tuple[str, ...]
"""Keys of a sum: since the last reading and, where there is one, over the lifetime."""


class Level(NamedTuple):
    """RLlib's keys for one way to count: by environment, by agent or by module."""

    episodes_added: _Sum
    steps_added: _Sum
    episodes_evicted: _Sum
    steps_evicted: _Sum
    distinct_episodes: _Sum
    distinct_steps: _Sum
    steps_sampled: _Sum
    resampled: _Sum
    utilization: str
    n_step: str


ENV = Level(
    (keys.NUM_EPISODES_ADDED, keys.NUM_EPISODES_ADDED_LIFETIME),
    (keys.NUM_ENV_STEPS_ADDED, keys.NUM_ENV_STEPS_ADDED_LIFETIME),
    (keys.NUM_EPISODES_EVICTED, keys.NUM_EPISODES_EVICTED_LIFETIME),
    (keys.NUM_ENV_STEPS_EVICTED, keys.NUM_ENV_STEPS_EVICTED_LIFETIME),
    (keys.NUM_EPISODES_PER_SAMPLE,),
    (keys.NUM_ENV_STEPS_PER_SAMPLE, keys.NUM_ENV_STEPS_PER_SAMPLE_LIFETIME),
    (keys.NUM_ENV_STEPS_SAMPLED, keys.NUM_ENV_STEPS_SAMPLED_LIFETIME),
    (keys.NUM_RESAMPLES,),
    keys.ENV_STEP_UTILIZATION,
    keys.ACTUAL_N_STEP,
)
AGENT = Level(
    (keys.NUM_AGENT_EPISODES_ADDED, keys.NUM_AGENT_EPISODES_ADDED_LIFETIME),
    (keys.NUM_AGENT_STEPS_ADDED, keys.NUM_AGENT_STEPS_ADDED_LIFETIME),
    (keys.NUM_AGENT_EPISODES_EVICTED, keys.NUM_AGENT_EPISODES_EVICTED_LIFETIME),
    (keys.NUM_AGENT_STEPS_EVICTED, keys.NUM_AGENT_STEPS_EVICTED_LIFETIME),
    (keys.NUM_AGENT_EPISODES_PER_SAMPLE,),
    (keys.NUM_AGENT_STEPS_PER_SAMPLE, keys.NUM_AGENT_STEPS_PER_SAMPLE_LIFETIME),
    (keys.NUM_AGENT_STEPS_SAMPLED, keys.NUM_AGENT_STEPS_SAMPLED_LIFETIME),
    (keys.NUM_AGENT_RESAMPLES,),
    keys.AGENT_STEP_UTILIZATION,
    keys.AGENT_ACTUAL_N_STEP,
)
MODULE = Level(
    (keys.NUM_MODULE_EPISODES_ADDED, keys.NUM_MODULE_EPISODES_ADDED_LIFETIME),
    (keys.NUM_MODULE_STEPS_ADDED, keys.NUM_MODULE_STEPS_ADDED_LIFETIME),
    (keys.NUM_MODULE_EPISODES_EVICTED, keys.NUM_MODULE_EPISODES_EVICTED_LIFETIME),
    (keys.NUM_MODULE_STEPS_EVICTED, keys.NUM_MODULE_STEPS_EVICTED_LIFETIME),
    (keys.NUM_MODULE_EPISODES_PER_SAMPLE,),
    (keys.NUM_MODULE_STEPS_PER_SAMPLE, keys.NUM_MODULE_STEPS_PER_SAMPLE_LIFETIME),
    (keys.NUM_MODULE_STEPS_SAMPLED, keys.NUM_MODULE_STEPS_SAMPLED_LIFETIME),
    (keys.NUM_MODULE_RESAMPLES,),
    keys.MODULE_STEP_UTILIZATION,
    keys.MODULE_ACTUAL_N_STEP,
)
_OF_ADDS = ("episodes_added", "steps_added", "episodes_evicted", "steps_evicted")
_OF_SAMPLES = ("distinct_episodes", "distinct_steps", "steps_sampled", "resampled")


def log_activity(logger: MetricsLogger, activity: Activity, window: int) -> None:
    """Logs what happened in a buffer of one agent once, instead of at every call.

    Args:
        logger: Where to.
        activity: What happened since the last call.
        window: How many calls RLlib averages the per-call values over.
    """
    log_level(logger, ENV, None, activity, window)
    log_level(logger, AGENT, DEFAULT_AGENT_ID, activity, window)
    log_level(logger, MODULE, DEFAULT_MODULE_ID, activity, window)


def log_shards(
    logger: MetricsLogger, shards: Sequence[Mapping[str, float]], *module_id: Any
) -> None:
    """Logs the last numbers of each shard, under `shards`, the module if any, and the number."""
    path = "shards", *map(metric_key, module_id)
    for index, numbers in enumerate(shards):
        for name, value in numbers.items():
            logger.log_value((*path, str(index), name), value, **reduction("item"))


def log_level(
    logger: MetricsLogger, level: Level, id_: Any, activity: Activity, window: int
) -> None:
    """Logs what happened on one level.

    Args:
        logger: Where to.
        level: Of what the counts are.
        id_: The agent or module that they are of; None for the environment.
        activity: What happened since the last call.
        window: How many calls RLlib averages the per-call values over.
    """
    counts = activity.counts
    if counts.num_adds:
        if level is ENV:
            _means(logger, keys.NUM_EPISODES_STORED, activity.episodes_stored, window)
            _means(logger, keys.NUM_ENV_STEPS_STORED, activity.steps_stored, window)
        for name in _OF_ADDS:
            _sums(logger, getattr(level, name), id_, getattr(counts, name))
    if counts.num_samples:
        for name in _OF_SAMPLES:
            _sums(logger, getattr(level, name), id_, getattr(counts, name))
        _means(logger, _key(level.utilization, id_), activity.utilization, window)
        _means(logger, _key(level.n_step, id_), activity.n_step, window)


def _key(name: str, id_: Any) -> _Key:
    return name if id_ is None else (name, metric_key(id_))


def _sums(logger: MetricsLogger, names: _Sum, id_: Any, value: int) -> None:
    for name, way in zip(names, ("sum", "lifetime_sum"), strict=False):
        logger.log_value(_key(name, id_), value, **reduction(way))


def _means(logger: MetricsLogger, key: _Key, values: Iterable[float], window: int) -> None:
    for value in values:
        logger.log_value(key, value, reduce="mean", window=window)
