"""What is installed, what works here, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rllib_per_acc.devices import build_info
from rllib_per_acc.segment_tree import PriorityTree

_TESTED_RAY = "2.60."
# Distribution, module, what for.
_OPTIONAL = (
    ("torch", "torch", "RLlib's algorithms"),
    ("matplotlib", "matplotlib", "bench --plot"),
    ("torchrl", "torchrl", "a comparison in bench"),
    ("tianshou", "tianshou", "a comparison in bench"),
    ("cpprb", "cpprb", "a comparison in bench"),
)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    state: Literal["works", "absent", "broken"]
    detail: str
    advice: str = ""


def examine() -> list[Finding]:
    """Looks at this installation and this machine; changes nothing."""
    info = build_info()
    return [*_package(info), *_gpu(info), *_ray(), *_optional()]


def main() -> int:
    """Prints what `examine` finds; returns 1 if something is broken, else 0."""
    findings = examine()
    for finding in findings:
        print(f"{finding.state:>6}  {finding.what}: {finding.detail}")
        if finding.advice:
            print(f"{'':6}  -> {finding.advice}")
    return int(any(finding.state == "broken" for finding in findings))


def _package(info: dict[str, Any]) -> Iterator[Finding]:
    yield Finding(
        "rllib_per_acc", "works", f"{info['version']}, Python {platform.python_version()}, "
        f"compiled by {info['compilers']['host']} with {info['flags']['host']}",
    )  # fmt: skip
    problem = _tree_problem("cpu")
    yield Finding(
        "tree on the CPU",
        "broken" if problem else "works",
        problem
        or f"descends by the fastest of {', '.join(info['descents'])}, chosen for each size",
        "Reinstall the package; if that does not help, report this." if problem else "",
    )


def _gpu(info: dict[str, Any]) -> Iterator[Finding]:
    problem = info["problems"].get("gpu", "")
    if problem:
        yield Finding("tree on a GPU", "absent", problem)
        return
    trouble = _tree_problem("gpu")
    gpu = info["gpu"]
    yield Finding(
        "tree on a GPU",
        "broken" if trouble else "works",
        trouble or f"{gpu['name']}, driver {gpu['driver']}; device='auto' is {info['auto']!r}",
    )


def _tree_problem(device: str) -> str:
    """What a small tree does wrong on a device, or ``""``."""
    masses = np.arange(1.0, 1001.0)
    tree = PriorityTree(1000, device=device)
    tree.update(np.arange(1000), masses)
    ends = np.cumsum(masses)
    if tree.sum() != ends[-1] or tree.min() != 1.0:
        return f"the sum of 1 ... 1000 is {tree.sum()}, the minimum {tree.min()}"
    if not np.array_equal(tree.find_prefixsum(ends - 0.5), np.arange(1000)):
        return "a lookup by prefix sum returns wrong leaves"
    return ""


def _ray() -> Iterator[Finding]:
    version = _version("ray")
    if version is None:
        yield Finding(
            "Ray",
            "absent",
            "not installed; the plain buffer works without",
            "pip install 'ray[rllib]'",
        )
        return
    tested = version.startswith(_TESTED_RAY)
    yield Finding(
        "Ray", "works" if tested else "broken", version,
        "" if tested else f"This version of the package is tested with Ray {_TESTED_RAY}*.",
    )  # fmt: skip


def _optional() -> Iterator[Finding]:
    for distribution, module, purpose in _OPTIONAL:
        version = _version(distribution)
        if version is None or importlib.util.find_spec(module) is None:
            advice = f"pip install {distribution}, if you want {purpose}"
            yield Finding(distribution, "absent", "not installed", advice)
        else:
            yield Finding(distribution, "works", version)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
