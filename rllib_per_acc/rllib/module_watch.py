"""Which modules RLlib has: it says nothing to a buffer when one is removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule

from rllib_per_acc.rllib.compat import caller


class ModuleWatch:
    """Finds out which modules an algorithm has removed, whenever it calls the buffer.

    `Algorithm.remove_module` runs `del self.config.policies[module_id]`, and `add_module`
    `self.config.policies[module_id] = PolicySpec()`, a new one also under a name that there was
    before. On the old API stack `remove_policy` runs `del self.policy_map[policy_id]`.
    """

    def __init__(self) -> None:
        self._policies: Mapping[Any, Any] | None = None
        self._seen: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ModuleWatch, ()  # a copy belongs to no algorithm yet

    def gone(self) -> list[Any]:
        """The modules (policies) that the calling algorithm had at its last call, and has not now.

        None where no algorithm calls, or another one does.
        """
        algorithm = caller("self", Algorithm)
        if algorithm is None:
            return []
        policies = _policies_of(algorithm)
        before, is_new = self._seen, policies is not self._policies
        self._policies, self._seen = policies, _specs(policies)
        if is_new:
            return []
        return [m for m, spec in before.items() if self._seen.get(m) is not spec]


def _policies_of(algorithm: Algorithm) -> Mapping[Any, Any]:
    config: Any = algorithm.config
    on_new_stack = config.enable_env_runner_and_connector_v2
    policies: Mapping[Any, Any] = (
        config.policies if on_new_stack else algorithm.env_runner.policy_map
    )
    return policies


def _specs(policies: Mapping[Any, Any]) -> dict[Any, Any]:
    """The object that stands for each. A `PolicyMap` may have to load what it is asked for."""
    return dict(policies) if type(policies) is dict else dict.fromkeys(policies.keys(), True)


def is_learned(module_id: Any) -> bool:
    """Whether the learner whose connector pieces are calling has this module.

    `BatchIndividualItems` batches only columns of modules for which `column in rl_module`; from the
    others, a list of pieces of unequal lengths, `Learner` cannot make its `SampleBatch`. There are
    some after `remove_module`, and after `add_module(add_to_learners=False)`.
    """
    rl_module = caller("rl_module", MultiRLModule)
    return rl_module is None or module_id in rl_module
