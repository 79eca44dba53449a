"""A replay's activity under RLlib's metric keys, with RLlib's meanings."""

from __future__ import annotations

from collections.abc import Iterable

from ray.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from ray.rllib.utils import metrics as keys
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_per_acc.activity import Activity

_Key = str | tuple[str, str]


def log_activity(
    logger: MetricsLogger,
    activity: Activity,
    window: int,
    agent_id: str = DEFAULT_AGENT_ID,
    module_id: str = DEFAULT_MODULE_ID,
) -> None:
    """Logs what happened once, instead of at every call.

    Args:
        logger: Where to.
        activity: What happened since the last call.
        window: How many calls RLlib averages the per-call values over.
        agent_id: The agent that the steps count for.
        module_id: The module that the steps count for.
    """
    if activity.counts.num_adds:
        _log_adds(logger, activity, window, agent_id, module_id)
    if activity.counts.num_samples:
        _log_samples(logger, activity, window, agent_id, module_id)


def _log_adds(
    logger: MetricsLogger, activity: Activity, window: int, agent_id: str, module_id: str
) -> None:
    _means(logger, keys.NUM_EPISODES_STORED, activity.episodes_stored, window)
    _means(logger, keys.NUM_ENV_STEPS_STORED, activity.steps_stored, window)
    counts = activity.counts
    counted = [
        (
            counts.episodes_added,
            (keys.NUM_EPISODES_ADDED, keys.NUM_EPISODES_ADDED_LIFETIME),
            (keys.NUM_AGENT_EPISODES_ADDED, keys.NUM_AGENT_EPISODES_ADDED_LIFETIME),
            (keys.NUM_MODULE_EPISODES_ADDED, keys.NUM_MODULE_EPISODES_ADDED_LIFETIME),
        ),
        (
            counts.steps_added,
            (keys.NUM_ENV_STEPS_ADDED, keys.NUM_ENV_STEPS_ADDED_LIFETIME),
            (keys.NUM_AGENT_STEPS_ADDED, keys.NUM_AGENT_STEPS_ADDED_LIFETIME),
            (keys.NUM_MODULE_STEPS_ADDED, keys.NUM_MODULE_STEPS_ADDED_LIFETIME),
        ),
        (
            counts.episodes_evicted,
            (keys.NUM_EPISODES_EVICTED, keys.NUM_EPISODES_EVICTED_LIFETIME),
            (keys.NUM_AGENT_EPISODES_EVICTED, keys.NUM_AGENT_EPISODES_EVICTED_LIFETIME),
            (keys.NUM_MODULE_EPISODES_EVICTED, keys.NUM_MODULE_EPISODES_EVICTED_LIFETIME),
        ),
        (
            counts.steps_evicted,
            (keys.NUM_ENV_STEPS_EVICTED, keys.NUM_ENV_STEPS_EVICTED_LIFETIME),
            (keys.NUM_AGENT_STEPS_EVICTED, keys.NUM_AGENT_STEPS_EVICTED_LIFETIME),
            (keys.NUM_MODULE_STEPS_EVICTED, keys.NUM_MODULE_STEPS_EVICTED_LIFETIME),
        ),
    ]
    for value, env, agent, module in counted:
        for (total, lifetime), id_ in ((env, None), (agent, agent_id), (module, module_id)):
            _sums(logger, value, id_, total, lifetime)


def _log_samples(
    logger: MetricsLogger, activity: Activity, window: int, agent_id: str, module_id: str
) -> None:
    counts = activity.counts
    sampled, distinct = counts.steps_sampled, counts.distinct_steps
    _sums(logger, counts.distinct_episodes, None, keys.NUM_EPISODES_PER_SAMPLE)
    _sums(logger, counts.distinct_episodes, agent_id, keys.NUM_AGENT_EPISODES_PER_SAMPLE)
    _sums(logger, counts.distinct_episodes, module_id, keys.NUM_MODULE_EPISODES_PER_SAMPLE)
    for id_, per_sample, per_sample_lifetime, total, lifetime, utilization, n_step, resamples in (
        (
            None,
            keys.NUM_ENV_STEPS_PER_SAMPLE,
            keys.NUM_ENV_STEPS_PER_SAMPLE_LIFETIME,
            keys.NUM_ENV_STEPS_SAMPLED,
            keys.NUM_ENV_STEPS_SAMPLED_LIFETIME,
            keys.ENV_STEP_UTILIZATION,
            keys.ACTUAL_N_STEP,
            keys.NUM_RESAMPLES,
        ),
        (
            agent_id,
            keys.NUM_AGENT_STEPS_PER_SAMPLE,
            keys.NUM_AGENT_STEPS_PER_SAMPLE_LIFETIME,
            keys.NUM_AGENT_STEPS_SAMPLED,
            keys.NUM_AGENT_STEPS_SAMPLED_LIFETIME,
            keys.AGENT_STEP_UTILIZATION,
            keys.AGENT_ACTUAL_N_STEP,
            keys.NUM_AGENT_RESAMPLES,
        ),
        (
            module_id,
            keys.NUM_MODULE_STEPS_PER_SAMPLE,
            keys.NUM_MODULE_STEPS_PER_SAMPLE_LIFETIME,
            keys.NUM_MODULE_STEPS_SAMPLED,
            keys.NUM_MODULE_STEPS_SAMPLED_LIFETIME,
            keys.MODULE_STEP_UTILIZATION,
            keys.MODULE_ACTUAL_N_STEP,
            keys.NUM_MODULE_RESAMPLES,
        ),
    ):
        _sums(logger, distinct, id_, per_sample, per_sample_lifetime)
        _sums(logger, sampled, id_, total, lifetime)
        _sums(logger, counts.resampled, id_, resamples)
        _means(logger, _key(utilization, id_), activity.utilization, window)
        _means(logger, _key(n_step, id_), activity.n_step, window)


def _key(name: str, id_: str | None) -> _Key:
    return name if id_ is None else (name, id_)


def _sums(
    logger: MetricsLogger, value: int, id_: str | None, total: str, lifetime: str | None = None
) -> None:
    logger.log_value(_key(total, id_), value, reduce="sum")
    if lifetime is not None:
        logger.log_value(_key(lifetime, id_), value, reduce="lifetime_sum")


def _means(logger: MetricsLogger, key: _Key, values: Iterable[float], window: int) -> None:
    for value in values:
        logger.log_value(key, value, reduce="mean", window=window)
