"""Which backend a tree runs on, and what this build and machine have."""

from __future__ import annotations

from typing import Any

from rllib_per_acc import _core

_DEVICES = ("auto", "cpu", "gpu")


class BackendUnavailableError(RuntimeError):
    """A device was asked for that this build or this machine does not have."""


def resolve_device(device: str) -> str:
    """Turns a requested device into the one to use.

    Args:
        device: ``"cpu"``, ``"gpu"``, or ``"auto"``: a GPU if the build and the machine have one.

    Returns:
        ``"cpu"`` or ``"gpu"``.

    Raises:
        ValueError: if `device` is none of these.
        BackendUnavailableError: if a GPU is asked for and cannot be used; says what is missing.
    """
    if device not in _DEVICES:
        raise ValueError(f"device is {device!r}: expected one of {', '.join(map(repr, _DEVICES))}")
    if device == "gpu":
        raise BackendUnavailableError(f"device='gpu' is not available: {_gpu_problem()}")
    return "cpu"


def _gpu_problem() -> str:
    return (
        "this build has no OpenACC backend (it was configured with RLLIB_PER_ACC_OPENACC=none); "
        "device='cpu' works"
    )


def build_info() -> dict[str, Any]:
    """Describes this build and the devices it can use.

    Returns:
        ``version``; ``compilers`` and ``flags``, each by backend; ``backends``, the names of
        those compiled; ``devices``, those that can be used.
    """
    host = _core.build_info()
    return {
        "version": _core.__version__,
        "backends": ["host"],
        "compilers": {"host": host["compiler"]},
        "flags": {"host": host["flags"]},
        "devices": ["cpu"],
    }
