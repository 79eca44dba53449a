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
    from rllib_per_acc.segment_tree import MinSegmentTree, PriorityTree, SumSegmentTree

# Public name -> the module that defines it.
_EXPORTS = {
    "BackendUnavailableError": "devices",
    "MinSegmentTree": "segment_tree",
    "PriorityTree": "segment_tree",
    "SumSegmentTree": "segment_tree",
    "build_info": "devices",
}

__all__ = [
    "BackendUnavailableError",
    "MinSegmentTree",
    "PriorityTree",
    "SumSegmentTree",
    "__version__",
    "build_info",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
