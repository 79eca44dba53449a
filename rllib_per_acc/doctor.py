"""What is installed, what works here, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rllib_per_acc.devices import build_info
from rllib_per_acc.ray_versions import TESTED_RAY, newer_than_tested, older_than_tested
from rllib_per_acc.segment_tree import PriorityTree

_IMPORT_TIMEOUT_S = 300.0
# What bench can do without: distribution and module, what for.
_OPTIONAL = (
    ("matplotlib", "bench --plot"),
    ("torchrl", "a comparison in bench"),
    ("tianshou", "a comparison in bench"),
    ("cpprb", "a comparison in bench"),
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
    return [*_package(info), *_gpu(info), *_ray(), *_torch(), *_optional()]


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
        advice = "pip install 'ray[rllib]'"
        yield Finding("Ray", "absent", "not installed; the plain buffer works without", advice)
        return
    if older_than_tested(version):
        advice = f"pip install 'ray[rllib]>={TESTED_RAY[0]}'"
        yield Finding("Ray", "broken", f"{version} is older than {TESTED_RAY[0]}", advice)
        return
    if problem := _import_problem("ray"):
        advice = "Reinstall it: pip install --force-reinstall 'ray[rllib]'"
        yield Finding("Ray", "broken", f"{version} does not import: {problem}", advice)
        return
    newest = TESTED_RAY[-1]
    is_newer = newer_than_tested(version)
    yield Finding(
        "Ray",
        "works",
        f"{version}, newer than the newest tested version {newest}" if is_newer else version,
        f"Where something fails, try ray[rllib]=={newest} first." if is_newer else "",
    )
    problem = _import_problem("rllib_per_acc.rllib.config")
    yield Finding(
        "RLlib",
        "broken" if problem else "works",
        f"does not import: {problem}" if problem else "the buffers and enable() import",
        "pip install 'ray[rllib]' torch" if problem else "",
    )


def _torch() -> Iterator[Finding]:
    version = _version("torch")
    if version is None:
        advice = "pip install torch, if you want RLlib's algorithms"
        yield Finding("torch", "absent", "not installed", advice)
    elif problem := _import_problem("torch"):
        advice = "Reinstall it: pip install --force-reinstall torch"
        yield Finding("torch", "broken", f"{version} does not import: {problem}", advice)
    else:
        yield Finding("torch", "works", version)


def _optional() -> Iterator[Finding]:
    for name, purpose in _OPTIONAL:
        version = _version(name)
        problem = _import_problem(name) if version else ""
        if version and not problem:
            yield Finding(name, "works", version)
        else:
            detail = f"{version} does not import: {problem}" if version else "not installed"
            yield Finding(name, "absent", detail, f"pip install {name}, if you want {purpose}")


def _import_problem(module: str) -> str:
    """What goes wrong when a process of its own imports `module`, or ``""``."""
    code = f"import {module}"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=_IMPORT_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"takes more than {_IMPORT_TIMEOUT_S:.0f} s"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1].strip() if lines else f"the process ended with status {done.returncode}"


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
