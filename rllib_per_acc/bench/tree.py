"""The tree against the plain ways to write it and against other libraries' trees."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.bench import tree_algorithms
from rllib_per_acc.bench.baselines import Batch, CTree, PythonTree
from rllib_per_acc.bench.peers import Peer, make_peers
from rllib_per_acc.bench.report import Settings, Table
from rllib_per_acc.bench.timing import STRETCH, Timing, interleaved
from rllib_per_acc.segment_tree import PriorityTree

LEAVES = 1 << 21  # a power of two
BATCHES = (8, 50, 512, 4096, 32768)
_SIZE = f"2^{LEAVES.bit_length() - 1}"
_TIMES = "Times in microseconds, medians; ratios are medians over the repeats."
_PLAIN_C = (
    "Plain C: cpp/bench/baselines.cpp, one call for a batch, no checks, NumPy's memory (which asks "
    "for huge pages, as ours does). Ours: PriorityTree from Python, checks included, one thread."
)

# Figures of the write-up that this tree follows: "Putting prioritized replay's segment tree on a
# GPU", on a laptop with Apple silicon. Its batch of 512 descents, and its update of k leaves.
_POST_FIND = {"loop": 430.7, "calls": 131.0, "batch": 19.1}
_POST_UPDATE = {
    8: (7.2, 1.9, 516.3),
    50: (49.2, 11.6, 477.7),
    512: (554.9, 120.7, 487.6),
    2048: (2279.3, 489.4, 500.2),
    32768: (52270.1, 8819.7, 568.0),
}

Contenders = dict[str, Callable[[Batch], object]]


class _Bench:
    """Our tree and the baselines over the same leaves, and how to race them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rng = np.random.default_rng(0)
        self.leaves: NDArray[np.float64] = self.rng.random(LEAVES) + 0.01
        self.ours = PriorityTree(LEAVES, device="cpu")
        self.ours.set_state({"capacity": LEAVES, "leaves": self.leaves})
        self.plain_c = CTree(self.leaves, max(BATCHES))
        self.python = PythonTree(self.leaves)

    def update(self, batch: Batch) -> None:
        self.ours.update(batch.indices, batch.values)

    def find(self, batch: Batch) -> Any:
        return self.ours.find_prefixsum(batch.values)

    def find_each(self, batch: Batch) -> list[int]:
        find = self.ours.find_prefixsum
        return [find(mass) for mass in batch.value_list]

    def race(
        self, contenders: Contenders, k: int, limit: float = 1.0, stretch: float = STRETCH
    ) -> dict[str, Timing]:
        quick = self.settings.quick
        return interleaved(
            contenders,
            partial(Batch.draw, self.rng, k, LEAVES, limit),
            repeats=15 if quick else 100,
            seconds=0.7 if quick else 8.0,
            stretch=stretch,
        )

    def race_finds(
        self, contenders: Contenders, k: int, stretch: float = STRETCH
    ) -> dict[str, Timing]:
        # Below every contender's sum: their leaves differ by the random updates they were given.
        return self.race(contenders, k, 0.8 * float(self.ours.sum()), stretch)


def run(settings: Settings) -> list[Table]:
    """The tables of the tree; those that the goals of this package are about come first."""
    settings.progress("tree: making trees")
    bench = _Bench(settings)
    return [
        _against_plain_c(bench),
        _against_peers(bench),
        _calls(bench),
        _post_find(bench),
        _post_update(bench),
        *tree_algorithms.run(settings, bench.plain_c, bench.ours, bench.rng),
    ]


def _microseconds(timing: Timing) -> float:
    return timing.median * 1e6


def _against_plain_c(bench: _Bench) -> Table:
    rows = []
    for k in BATCHES:
        bench.settings.progress(f"tree: batches of {k:,} against plain C")
        finds = bench.race_finds({"ours": bench.find, "c": bench.plain_c.find}, k)
        updates = bench.race({"ours": bench.update, "c": bench.plain_c.update}, k)
        row: list[float] = []
        for times in (finds, updates):
            row += [_microseconds(times["c"]), _microseconds(times["ours"])]
            row.append(times["ours"].times_faster_than(times["c"]))
        rows.append([k, *row])
    return Table(
        name="tree.plain_c",
        title=f"Batches on a tree of {_SIZE} leaves, sum and min, against plain C",
        columns=(
            "batch",
            "find: plain C",
            "ours",
            "ratio",
            "update: plain C",
            "ours",
            "ratio",
        ),
        rows=rows,
        notes=(_TIMES, _PLAIN_C),
    )


def _against_peers(bench: _Bench) -> Table:
    k = 512
    bench.settings.progress("tree: making other libraries' trees")
    peers, missing = make_peers(bench.leaves, quick=bench.settings.quick)
    rows: list[list[Any]] = []
    for name, peer in peers.items():
        bench.settings.progress(f"tree: against {name}")
        rows.append([name, *_against_peer(bench, peer, k, STRETCH)])
        if name == "RLlib":
            rows.append(["RLlib, single calls", *_against_peer(bench, peer, k, 0.0)])
    return Table(
        name="tree.peers",
        title=f"Batches of {k} on a tree of {_SIZE} leaves against other libraries",
        columns=("library", "update", "ours faster by", "find", "ours faster by"),
        rows=rows,
        notes=(
            _TIMES,
            "RLlib takes one element at a time; the others take batches.",
            "Single calls: each call of ours right after one of RLlib's, which has had the caches "
            "for milliseconds. Elsewhere short calls are repeated, with fresh input each.",
            *(f"Not compared: {name} ({reason})." for name, reason in missing.items()),
        ),
    )


def _against_peer(bench: _Bench, peer: Peer, k: int, stretch: float) -> list[float | None]:
    """Time of an update and of a lookup, and how much faster ours are."""

    def row(times: dict[str, Timing]) -> list[float | None]:
        ours, theirs = times["ours"], times["peer"]
        return [_microseconds(theirs), ours.times_faster_than(theirs)]

    updates = row(bench.race({"ours": bench.update, "peer": peer.update}, k, stretch=stretch))
    if peer.find is None:
        return [*updates, None, None]
    return updates + row(bench.race_finds({"ours": bench.find, "peer": peer.find}, k, stretch))


def _calls(bench: _Bench) -> Table:
    """What a call costs beside its work: all of the time, on a tree where there is no work."""
    bench.settings.progress("tree: single calls")
    tree = PriorityTree(2, device="cpu")
    tree.update(0, 1.0)
    index, mass = np.array([0]), np.array([0.5])
    indices, masses = np.zeros(8, np.int64), np.full(8, 0.5)
    times = interleaved(
        {
            "update, scalars": lambda _: tree.update(0, 1.0),
            "update, arrays of 1": lambda _: tree.update(index, mass),
            "update, arrays of 8": lambda _: tree.update(indices, masses),
            "find_prefixsum, scalar": lambda _: tree.find_prefixsum(0.5),
            "find_prefixsum, array of 1": lambda _: tree.find_prefixsum(mass),
            "find_prefixsum, array of 8": lambda _: tree.find_prefixsum(masses),
            "nothing: an empty Python function": lambda _: None,
        },
        lambda: None,
        repeats=100,
    )
    return Table(
        name="tree.calls",
        title="Single calls on a tree of 2 leaves, in microseconds: little but overhead",
        columns=("call", "time"),
        rows=[(name, _microseconds(timing)) for name, timing in times.items()],
    )


def _post_find(bench: _Bench) -> Table:
    bench.settings.progress("tree: 512 descents, by loops and by batches")
    c, ours = bench.plain_c, bench
    times = bench.race_finds(
        {
            "python": bench.python.find,
            "c_each": c.find_each,
            "c": c.find,
            "ours_each": ours.find_each,
            "ours": ours.find,
        },
        512,
    )
    here = {name: _microseconds(timing) for name, timing in times.items()}
    post = _POST_FIND
    rows = [
        (
            name,
            here[key],
            times[key].times_faster_than(times["python"]),
            there,
            None if there is None else post["loop"] / there,
        )
        for name, key, there in (
            ("pure Python loop", "python", post["loop"]),
            ("plain C, one call each", "c_each", post["calls"]),
            ("plain C, one batch call", "c", post["batch"]),
            ("ours, one call each", "ours_each", None),
            ("ours, one batch call", "ours", None),
        )
    ]
    return Table(
        name="tree.post_find",
        title=f"512 descents of a tree of {_SIZE} leaves, beside the write-up's figures",
        columns=("way", "here", "faster by", "write-up", "faster by"),
        rows=rows,
        notes=(_TIMES, "The write-up: Apple silicon, the same batch in every repeat."),
    )


def _post_update(bench: _Bench) -> Table:
    rows = []
    for k, there in _POST_UPDATE.items():
        bench.settings.progress(f"tree: update of {k:,}, against the write-up's three")
        times = bench.race(
            {
                "python": bench.python.update,
                "c": bench.plain_c.update,
                "rebuild": bench.plain_c.rebuild,
                "ours": bench.update,
            },
            k,
        )
        rows.append([k, *map(_microseconds, times.values()), *there])
    return Table(
        name="tree.post_update",
        title=f"Updates of k of {_SIZE} leaves, beside the write-up's figures",
        columns=(
            "k",
            "pure Python",
            "C per element",
            "C rebuild",
            "ours",
            "write-up: Python",
            "C per element",
            "C rebuild",
        ),
        rows=rows,
        notes=(_TIMES, "Here: sum and min trees together. The write-up: Apple silicon."),
    )
