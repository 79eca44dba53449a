"""Prioritized replay for Ray RLlib: Ray actors over an OpenACC C++ segment tree.

Public names are imported on first use, so that ``import rllib_per_acc`` needs neither Ray nor
torch and touches no device.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rllib_per_acc._version import __version__

if TYPE_CHECKING:
    from rllib_per_acc.devices import BackendUnavailableError, build_info
    from rllib_per_acc.episode_chunk import EpisodeChunk
    from rllib_per_acc.replay import PrioritizedReplay
    from rllib_per_acc.replay_options import SequenceShape
    from rllib_per_acc.rllib.config import (  # noqa: TID251 - for type checkers only
        AccDQN,
        AccDQNConfig,
        AccSAC,
        AccSACConfig,
        enable,
    )
    from rllib_per_acc.rllib.episode_buffer import (  # noqa: TID251 - for type checkers only
        AccPrioritizedEpisodeReplayBuffer,
    )
    from rllib_per_acc.rllib.mixins import (  # noqa: TID251 - for type checkers only
        AccAlgorithmMixin,
        AccConfigMixin,
    )
    from rllib_per_acc.rllib.multi_agent_buffer import (  # noqa: TID251 - for type checkers only
        AccMultiAgentPrioritizedEpisodeReplayBuffer,
    )
    from rllib_per_acc.rllib.old_stack.multi_agent_buffer import (  # noqa: TID251
        AccMultiAgentPrioritizedReplayBuffer,
    )
    from rllib_per_acc.rllib.old_stack.prioritized_buffer import (  # noqa: TID251
        AccPrioritizedReplayBuffer,
    )
    from rllib_per_acc.rllib.tqc import (  # noqa: TID251 - for type checkers only
        AccTQC,
        AccTQCConfig,
    )
    from rllib_per_acc.segment_tree import MinSegmentTree, PriorityTree, SumSegmentTree
    from rllib_per_acc.transition_replay import TransitionReplay
    from rllib_per_acc.transition_store import TransitionStore

# Public name -> the module that defines it.
_EXPORTS = {
    "AccAlgorithmMixin": "rllib.mixins",
    "AccConfigMixin": "rllib.mixins",
    "AccDQN": "rllib.config",
    "AccDQNConfig": "rllib.config",
    "AccMultiAgentPrioritizedEpisodeReplayBuffer": "rllib.multi_agent_buffer",
    "AccMultiAgentPrioritizedReplayBuffer": "rllib.old_stack.multi_agent_buffer",
    "AccPrioritizedEpisodeReplayBuffer": "rllib.episode_buffer",
    "AccPrioritizedReplayBuffer": "rllib.old_stack.prioritized_buffer",
    "AccSAC": "rllib.config",
    "AccSACConfig": "rllib.config",
    "AccTQC": "rllib.tqc",
    "AccTQCConfig": "rllib.tqc",
    "BackendUnavailableError": "devices",
    "EpisodeChunk": "episode_chunk",
    "MinSegmentTree": "segment_tree",
    "PrioritizedReplay": "replay",
    "PriorityTree": "segment_tree",
    "SequenceShape": "replay_options",
    "SumSegmentTree": "segment_tree",
    "TransitionReplay": "transition_replay",
    "TransitionStore": "transition_store",
    "build_info": "devices",
    "enable": "rllib.config",
}

__all__ = [
    "AccAlgorithmMixin",
    "AccConfigMixin",
    "AccDQN",
    "AccDQNConfig",
    "AccMultiAgentPrioritizedEpisodeReplayBuffer",
    "AccMultiAgentPrioritizedReplayBuffer",
    "AccPrioritizedEpisodeReplayBuffer",
    "AccPrioritizedReplayBuffer",
    "AccSAC",
    "AccSACConfig",
    "AccTQC",
    "AccTQCConfig",
    "BackendUnavailableError",
    "EpisodeChunk",
    "MinSegmentTree",
    "PrioritizedReplay",
    "PriorityTree",
    "SequenceShape",
    "SumSegmentTree",
    "TransitionReplay",
    "TransitionStore",
    "__version__",
    "build_info",
    "enable",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
