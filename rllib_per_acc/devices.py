"""Which backend a tree runs on, and what this build and machine have.

The backend for GPUs is a module of its own, ``_core_acc``. It is imported only once a GPU has been
asked for or chosen, and the driver has said that there is one: the OpenACC runtime in it ends the
process where it is told to use a device that is not there.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from rllib_per_acc import _core
from rllib_per_acc.cuda_driver import driver_problem

if TYPE_CHECKING:
    from rllib_per_acc import _core_acc

_DEVICES = ("auto", "cpu", "gpu")
# For the tests: "acc-host" is the GPU backend where there is no GPU, run by OpenACC on the host.
_ACC_HOST = "acc-host"
_ACC_HOST_VARIABLE = "RLLIB_PER_ACC_TEST_ACC_HOST"


class BackendUnavailableError(RuntimeError):
    """A device was asked for that this build or this machine does not have."""


def resolve_device(device: str) -> str:
    """Turns a requested device into the one to use.

    Args:
        device: ``"cpu"``, ``"gpu"``, or ``"auto"``: a GPU if the build and the machine have one,
            and, inside a Ray worker, only if Ray assigned one to it.

    Returns:
        ``"cpu"`` or ``"gpu"``.

    Raises:
        ValueError: if `device` is none of these.
        BackendUnavailableError: if a GPU is asked for and cannot be used; says what is missing.
    """
    if device == _ACC_HOST and os.environ.get(_ACC_HOST_VARIABLE) == "1":
        _require(device, _build_problem())
        return device
    if device not in _DEVICES:
        raise ValueError(f"device is {device!r}: expected one of {', '.join(map(repr, _DEVICES))}")
    if device == "gpu":
        _require(device, _gpu_problem())
    if device == "auto":
        return "cpu" if _auto_problem() else "gpu"
    return device


def make_priority_tree(capacity: int, device: str) -> _core.PriorityTree | _core_acc.PriorityTree:
    """Makes the compiled tree on a device that `resolve_device` returned.

    Raises:
        BackendUnavailableError: if the device is gone since.
        MemoryError: if it has not enough free memory.
    """
    if device == "cpu":
        return _core.PriorityTree(capacity)
    backend = _load_acc()
    try:
        tree: _core_acc.PriorityTree = backend.PriorityTree(capacity, host=device == _ACC_HOST)
        return tree
    except RuntimeError as error:
        raise BackendUnavailableError(f"device={device!r} is not available: {error}") from None


def _require(device: str, problem: str) -> None:
    if problem:
        raise BackendUnavailableError(
            f"device={device!r} is not available: {problem}. device='cpu' works."
        )


def _load_acc() -> Any:
    return importlib.import_module("rllib_per_acc._core_acc")


def _build_problem() -> str:
    """Why this build cannot use a GPU, or ``""``."""
    if _core.build_info()["openacc"] == "none":
        return (
            "this build has no OpenACC backend for a GPU: install the package from source with "
            "the environment variable RLLIB_PER_ACC_OPENACC=gcc-nvptx"
        )
    folder = pathlib.Path(_core.__file__).parent
    if _core.build_info()["openacc"] == "gcc-nvptx":
        for name in ("libgomp-rpa.so.1", "libgomp-plugin-nvptx.so.1"):
            if not (folder / name).exists():
                return f"{folder / name}, a part of the OpenACC runtime, is missing: reinstall"
    return ""


def _gpu_problem() -> str:
    """Why no GPU can be used here, or ``""``; loads the backend if the driver has a device."""
    problem = _build_problem() or driver_problem()
    if problem:
        return problem
    try:
        return str(_load_acc().device_problem())
    except ImportError as error:
        return f"the OpenACC backend cannot be loaded ({error})"


def _auto_problem() -> str:
    """Why ``"auto"`` does not choose a GPU, or ``""``."""
    if not _build_problem() and _in_ray_worker_without_gpu():
        return "this process is a Ray worker to which Ray assigned no GPU (num_gpus=0)"
    return _gpu_problem()


def _in_ray_worker_without_gpu() -> bool:
    ray = sys.modules.get("ray")  # a Ray worker has imported it
    if ray is None or not getattr(ray, "is_initialized", bool)():
        return False
    context = ray.get_runtime_context()
    if context.worker.mode != ray.WORKER_MODE:
        return False
    return not context.get_accelerator_ids().get("GPU")


def build_info() -> dict[str, Any]:
    """Describes this build and the devices it can use. Where there is a GPU, this starts CUDA.

    Returns:
        ``version``; ``compilers`` and ``flags``, each by backend; ``backends``, the names of
        those compiled (``"host"``, ``"acc"``); ``openacc``, what the latter was compiled with;
        ``devices``, those that can be used; ``auto``, the one that ``"auto"`` chooses;
        ``problems``, by what is not chosen (``"gpu"``, ``"auto"``) the reason; ``gpu``, name,
        driver and memory of the GPU or None; ``descents``, the ways to descend the
        host's tree that this processor has.
    """
    host = _core.build_info()
    info: dict[str, Any] = {
        "version": _core.__version__,
        "backends": ["host"],
        "compilers": {"host": host["compiler"]},
        "flags": {"host": host["flags"]},
        "openacc": host["openacc"],
    }
    if host["openacc"] != "none":
        info["backends"].append("acc")
        info["compilers"]["acc"] = host["compiler"]
        info["flags"]["acc"] = host["openacc_flags"]
    problems = {"gpu": _gpu_problem(), "auto": _auto_problem()}
    info["devices"] = ["cpu"] if problems["gpu"] else ["cpu", "gpu"]
    info["auto"] = "cpu" if problems["auto"] else "gpu"
    info["problems"] = {what: problem for what, problem in problems.items() if problem}
    info["gpu"] = None if problems["gpu"] else _load_acc().accelerator()
    info["descents"] = list(_core.descents())
    return info
