"""The tree's own update algorithms over the size of the batch, and how well it chooses."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rllib_per_acc import _core
from rllib_per_acc.bench.baselines import Batch, CTree
from rllib_per_acc.bench.report import Settings, Table
from rllib_per_acc.bench.timing import interleaved
from rllib_per_acc.segment_tree import PriorityTree

# Leaves, as exponents of two.
TREES, QUICK_TREES = (10, 16, 21, 24), (10, 16, 21)
DESCENT_TREES, QUICK_DESCENT_TREES = (12, 16, 18, 21, 23), (12, 18, 21)
DESCENT_BATCHES = (64, 512, 4096, 32768)
ALGORITHMS = ("per_element", "touched", "rebuild")


def run(
    settings: Settings, plain_c: CTree, ours: PriorityTree, rng: np.random.Generator
) -> list[Table]:
    """The tables of the crossover picture and of the choice by costs."""
    return [
        _crossover(settings, plain_c, ours, rng),
        _dispatch(settings, rng),
        _descents(settings, rng),
    ]


def _crossover(
    settings: Settings, plain_c: CTree, ours: PriorityTree, rng: np.random.Generator
) -> Table:
    """Update time over the size of the batch; drawn by plot.py."""
    tree = ours._tree
    contenders: dict[str, Any] = {
        "ours": lambda batch: tree.update(batch.indices, batch.values),
        "ours, touched ancestors": _by(tree, "touched"),
        "ours, rebuild": _by(tree, "rebuild"),
        "plain C, per element": plain_c.update,
        "plain C, rebuild": plain_c.rebuild,
    }
    rows: list[list[Any]] = []
    most = ours.capacity.bit_length() - 1
    for exponent in range(0, most, 3) if settings.quick else range(most + 1):
        k = 1 << exponent
        settings.progress(f"tree: crossover, updates of {k:,}")
        times = interleaved(
            contenders,
            partial(Batch.draw, rng, k, ours.capacity, 1.0, lists=False),
            repeats=15,
            seconds=0.3 if settings.quick else 2.0,
        )
        rows.append([k, *(timing.median * 1e6 for timing in times.values())])
    return Table(
        name="tree.crossover",
        title=f"Update time over the size of the batch, 2^{most} leaves, microseconds",
        columns=("k", *contenders),
        rows=rows,
    )


def _by(tree: Any, algorithm: str) -> Any:
    return lambda batch: tree.update_by(batch.indices, batch.values, algorithm)


def _dispatch(settings: Settings, rng: np.random.Generator) -> Table:
    """For each size of tree the batch at which the choice is furthest from the best."""
    rows = []
    for exponent in QUICK_TREES if settings.quick else TREES:
        n = 1 << exponent
        tree = _core.PriorityTree(n)
        tree.assign(rng.random(n))
        worst, worst_k, chosen_best = 0.0, 0, ""
        for k in (1 << e for e in range(0, exponent + 1, 4 if settings.quick else 1)):
            settings.progress(f"tree: choice of algorithm, {k:,} of 2^{exponent} leaves")
            excess, best = _steady_excess(settings, tree, k, rng)
            if excess > worst:
                worst, worst_k, chosen_best = excess, k, best
        rows.append((f"2^{exponent}", worst, worst_k, chosen_best))
    return Table(
        name="tree.dispatch",
        title="The chosen update algorithm against the best of the three",
        columns=("leaves", "largest time / best", "at batch", "best there"),
        rows=rows,
        notes=(
            "Batches of 1, 2, 4, ... leaves. Left out where it is many times slower than the best: "
            "per_element above 4,096, rebuild below 1/256 of the leaves. Where the choice seems "
            "more than 15% off it is measured twice more, and the median of the three counts.",
            f"Costs measured on this machine, in ns: {_core.cost_table()}",
        ),
    )


def _find_by(tree: Any, name: str) -> Any:
    return lambda masses: tree.find_by(masses, name)


def _descents(settings: Settings, rng: np.random.Generator) -> Table:
    """All paths of the descent beside the one that was chosen."""
    names = _core.allowed_descents()
    rows: list[list[Any]] = []
    for exponent in QUICK_DESCENT_TREES if settings.quick else DESCENT_TREES:
        n = 1 << exponent
        tree = _core.PriorityTree(n)
        tree.assign(rng.random(n) + 0.01)
        limit = 0.8 * tree.sum()
        for k in DESCENT_BATCHES:
            settings.progress(f"tree: descents, {k:,} in 2^{exponent} leaves")
            fresh = partial(rng.uniform, 0.0, limit, k)
            while _core.chosen_descent(n, k) is None:
                tree.find_prefixsum(fresh())
            contenders: dict[str, Any] = {name: _find_by(tree, name) for name in names}
            times = interleaved(
                contenders,
                fresh,
                repeats=11 if settings.quick else 41,
                seconds=0.3 if settings.quick else 2.0,
            )
            chosen = str(_core.chosen_descent(n, k))
            best = min(times, key=lambda name: times[name].median)
            loss = times[best].times_faster_than(times[chosen])
            rows.append(
                [f"2^{exponent}", k, *(timing.median * 1e6 for timing in times.values()),
                 chosen, best, loss]
            )  # fmt: skip
    return Table(
        name="tree.descents",
        title="Descents by every path, microseconds, and the path that was chosen",
        columns=("leaves", "batch", *names, "chosen", "best", "chosen / best"),
        rows=rows,
        notes=(
            f"This processor has {', '.join(_core.descents())}. The choice was made by trials for "
            "each size, before these times were taken.",
        ),
    )


def _steady_excess(
    settings: Settings, tree: Any, k: int, rng: np.random.Generator
) -> tuple[float, str]:
    """As `_excess`; among so many points one is always disturbed, and the worst one is shown."""
    first = _excess(settings, tree, k, rng)
    if first[0] <= 1.15:
        return first
    return sorted([first, *(_excess(settings, tree, k, rng) for _ in range(2))])[1]


def _excess(settings: Settings, tree: Any, k: int, rng: np.random.Generator) -> tuple[float, str]:
    """Time of the chosen algorithm over that of the best, and the best's name."""
    n = tree.capacity
    contenders: dict[str, Any] = {"chosen": lambda batch: tree.update(batch.indices, batch.values)}
    for name in ALGORITHMS:
        if not _hopeless(name, k, n):
            contenders[name] = _by(tree, name)
    times = interleaved(
        contenders,
        partial(Batch.draw, rng, k, n, 1.0, lists=False),
        repeats=11 if settings.quick else 41,
        seconds=0.3 if settings.quick else 4.0,
    )
    chosen = times.pop("chosen")
    best = min(times, key=lambda name: times[name].median)
    return times[best].times_faster_than(chosen), best


def _hopeless(algorithm: str, k: int, n: int) -> bool:
    """Whether the algorithm is many times slower than the best, and takes up to seconds."""
    if algorithm == "rebuild":
        return 256 * k < n
    return algorithm == "per_element" and k > 4096
