"""Workarounds, each with the line of Ray it answers, so that it can be deleted.

Those at the end are for differences between versions of Ray: they look for what is there, and say
which oldest version makes them unnecessary.
"""

from __future__ import annotations

import logging
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar

import ray
from ray.rllib.utils.metrics import metrics_logger

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FAR = 8
"""So many calls up a caller is looked for."""


class EpisodeBufferMeta(ABCMeta):
    """Lets a class stand where RLlib looks for a string.

    `Algorithm._create_local_replay_buffer_if_necessary` asks
    `"EpisodeReplayBuffer" in config["replay_buffer_config"]["type"]`, also of a class: under Tune
    `AlgorithmConfig.update_from_dict` has turned the dotted string into one by then.
    `SACConfig.validate` asks whether `type` is in a list of names of RLlib's own buffers.
    Old-stack DQN, after `validate_buffer_config` has put the class in the place of its name, asks
    the first of these even of RLlib's own buffers, which do not build for that reason.
    `deep_update`, called by `training(replay_buffer_config=...)`, drops all other keys where
    `value["type"] != original[k]["type"]`, also if one is the class and one its dotted name.
    """

    def __contains__(cls, text: object) -> bool:
        return isinstance(text, str) and text in cls.__name__

    def __eq__(cls, other: Any) -> bool:
        if isinstance(other, str):
            return other in cls.__dict__.get("stands_for", ())
        return type.__eq__(cls, other)

    __hash__ = type.__hash__


class ApplyMixin:
    """`apply` for buffers made into actors by hand, and called by a `FaultTolerantActorManager`.

    `FaultAwareApply.apply` answers an exception with `if self.config.restart_failed_env_runners`;
    a buffer has no `config`, and what the caller sees is that. It would end the actor otherwise,
    because its state may be broken; calls of this package's buffers that fail change nothing.
    """

    def apply(self, func: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Calls a function with this buffer; an error reaches the caller, and the rows stay."""
        return func(self, *args, **kwargs)


class ClassReference(NamedTuple):
    """A class kept in an attribute of another class, where the two refer to each other.

    `FunctionActorManager.compute_collision_identifier` runs `dis.dis(function_or_class, file=...)`
    on an actor's class. That goes on into every class among its attributes, without end in a cycle.
    """

    referenced: type


@contextmanager
def shown_as_rllibs(replay_buffer_config: dict[str, Any]) -> Iterator[None]:
    """Shows one of RLlib's own names as the buffer's type for a while.

    `SACConfig.validate` refuses every `type` that is not
    `in ["EpisodeReplayBuffer", "PrioritizedEpisodeReplayBuffer", ...]`.
    """
    kept = replay_buffer_config["type"]
    replay_buffer_config["type"] = "PrioritizedEpisodeReplayBuffer"
    try:
        yield
    finally:
        replay_buffer_config["type"] = kept


def warn_if_not_enabled(*, algorithm: Any, **_: Any) -> None:
    """Says what an algorithm lacks that was given an enabled config's settings, but not its class.

    `TunerInternal.param_space` runs `param_space = param_space.to_dict()`, and
    `AlgorithmConfig.to_dict` begins with `config.pop("algo_class")`: what is left cannot choose
    the algorithm. It does carry this function, as a callback.
    """
    if not getattr(algorithm, "is_enabled", False):
        logger.warning(
            "%s was given the settings of a config made by rllib_per_acc.enable(), but it is not "
            "the algorithm of that config. The replay buffer works; lost are the resources of its "
            "shards in the trial's placement group, the learner connector that hands over whole "
            "columns, and the buffer in checkpoints (store_buffer_in_checkpoints). "
            "Use tune.Tuner(config.algo_class, param_space=config).",
            type(algorithm).__name__,
        )


def with_warning(settings: dict[str, Any]) -> dict[str, Any]:
    """Adds `warn_if_not_enabled` to the callbacks in an `AlgorithmConfig.to_dict()`.

    Not on the old API stack, where `AlgorithmConfig._validate_callbacks_settings` refuses them.
    """
    if not settings["enable_env_runner_and_connector_v2"]:
        return settings
    given = settings["callbacks_on_algorithm_init"]
    functions = given if isinstance(given, list) else [] if given is None else [given]
    if warn_if_not_enabled not in functions:
        settings["callbacks_on_algorithm_init"] = [*functions, warn_if_not_enabled]
    return settings


def caller(name: str, class_: type[T]) -> T | None:
    """What the nearest caller has in the local variable `name`, if it is a `class_`."""
    frame = sys._getframe(2)
    for _ in range(_FAR):
        found = frame.f_locals.get(name) if name in frame.f_code.co_varnames else None
        if isinstance(found, class_):
            return found
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


def made_into_actor(cls: type) -> bool:
    """Whether this is called in the constructor of an actor made from `cls` by `ray.remote(cls)`.

    Ray has no call for it; the name of the running task says so (`RuntimeContext`).
    """
    return _actors_task().endswith(f".{cls.__name__}.__init__")


def in_data_worker() -> bool:
    """Whether this is called in the constructor of a worker of Ray Data.

    `OfflinePreLearner.__init__`, which `OfflineData` hands to `map_batches`, makes a buffer there
    (`prelearner_buffer_class(**prelearner_buffer_kwargs)`) that nothing else will ever ask.
    """
    return _actors_task().startswith("ray.data.")


def _actors_task() -> str:
    """The function that the actor in this process runs, with its module; "" in no actor."""
    if not ray.is_initialized():
        return ""
    context = ray.get_runtime_context()
    if context.get_actor_id() is None:
        return ""
    return context.get_task_function_name() or ""


HAS_TQC = find_spec("ray.rllib.algorithms.tqc") is not None
"""Whether RLlib has the algorithm TQC. Unnecessary from Ray 2.54 on."""


def reduction(name: str) -> dict[str, Any]:
    """The arguments of `MetricsLogger.log_value` for one of the newest RLlib's ways to reduce.

    Before `DEFAULT_STATS_CLS_LOOKUP` there were sums that were cleared and sums that were not, and
    a last value was the mean of a window of one. Unnecessary from Ray 2.53 on.

    Args:
        name: ``"sum"``, ``"lifetime_sum"`` or ``"item"``.
    """
    if hasattr(metrics_logger, "DEFAULT_STATS_CLS_LOOKUP"):
        return {"reduce": name}
    return {
        "sum": {"reduce": "sum", "clear_on_reduce": True},
        "lifetime_sum": {"reduce": "sum", "clear_on_reduce": False},
        "item": {"reduce": "mean", "window": 1},
    }[name]
