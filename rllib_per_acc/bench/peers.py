"""Other people's trees behind one face: RLlib's, and those of libraries that are installed."""

from __future__ import annotations

import contextlib
import pathlib
import re
import runpy
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rllib_per_acc.bench.baselines import Batch, heaps


class Peer(Protocol):
    """A tree made from its leaves: float64, shape (a power of two,)."""

    def update(self, batch: Batch) -> object:
        """Sets leaves."""

    @property
    def find(self) -> Callable[[Batch], object] | None:
        """One descent for each value; None where the library's tree cannot be asked from Python."""


class RLlibTree:
    """RLlib's two Python trees, one element at a time, as its buffers use them."""

    def __init__(self, leaves: NDArray[np.float64]) -> None:
        """Starts from these leaves."""
        from ray.rllib.execution.segment_tree import MinSegmentTree, SumSegmentTree

        self._sum, self._min = SumSegmentTree(len(leaves)), MinSegmentTree(len(leaves))
        for tree, nodes in zip((self._sum, self._min), heaps(leaves), strict=True):
            tree.set_state(nodes.tolist())

    def update(self, batch: Batch) -> None:
        """Sets leaves in both trees."""
        for index, value in zip(batch.index_list, batch.value_list, strict=True):
            self._sum[index] = value
            self._min[index] = value

    def find(self, batch: Batch) -> list[int]:
        """Descends once for each value."""
        return [self._sum.find_prefixsum_idx(mass) for mass in batch.value_list]


class TorchRLTree:
    """torchrl's two C++ trees, batched."""

    def __init__(self, leaves: NDArray[np.float64]) -> None:
        """Starts from these leaves."""
        trees = import_module("torchrl._torchrl")
        n = len(leaves)
        self._trees = (trees.SumSegmentTreeFp64(n), trees.MinSegmentTreeFp64(n))
        for tree in self._trees:
            tree[np.arange(n)] = leaves

    def update(self, batch: Batch) -> None:
        """Sets leaves in both trees."""
        for tree in self._trees:
            tree[batch.indices] = batch.values

    def find(self, batch: Batch) -> Any:
        """Descends once for each value."""
        return self._trees[0].scan_lower_bound(batch.values)


class TianshouTree:
    """tianshou's numba tree, batched; a sum only."""

    def __init__(self, leaves: NDArray[np.float64]) -> None:
        """Starts from these leaves."""
        package = find_spec("tianshou")
        if package is None or package.origin is None:
            raise ModuleNotFoundError("No module named 'tianshou'")
        # This file alone: what the package imports beside it takes many seconds.
        file = pathlib.Path(package.origin).parent / "data" / "utils" / "segtree.py"
        self._tree = runpy.run_path(str(file))["SegmentTree"](len(leaves))
        self._tree[np.arange(len(leaves))] = leaves

    def update(self, batch: Batch) -> None:
        """Sets leaves."""
        self._tree[batch.indices] = batch.values

    def find(self, batch: Batch) -> Any:
        """Descends once for each value."""
        return self._tree.get_prefix_sum_idx(batch.values)


class CpprbTree:
    """The tree inside cpprb's buffer, which only its priorities reach; alpha = 1."""

    find = None

    def __init__(self, leaves: NDArray[np.float64]) -> None:
        """Starts from these leaves."""
        make = import_module("cpprb").PrioritizedReplayBuffer
        self._buffer = make(len(leaves), {"value": {}}, alpha=1.0, eps=0.0)
        self._buffer.add(value=leaves, priorities=leaves)

    def update(self, batch: Batch) -> None:
        """Sets priorities."""
        self._buffer.update_priorities(batch.indices, batch.values)


PEERS: dict[str, Callable[[NDArray[np.float64]], Peer]] = {
    "RLlib": RLlibTree,
    "torchrl": TorchRLTree,
    "tianshou (sum only)": TianshouTree,
    "cpprb": CpprbTree,
}


@contextlib.contextmanager
def noting_absence(name: str, missing: dict[str, str]) -> Iterator[None]:
    """An ImportError within is noted as the reason why `name` is missing, cut short."""
    try:
        yield
    except ImportError as error:
        missing[name] = re.sub(r"\S*/", "", str(error).splitlines()[0])[:100]


def make_peers(
    leaves: NDArray[np.float64], *, quick: bool = False
) -> tuple[dict[str, Peer], dict[str, str]]:
    """Makes a tree of every library that can be imported; if `quick`, without slow ones.

    Returns:
        The trees by name, and for each name that is missing the reason.
    """
    peers: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for name, make in PEERS.items():
        with noting_absence(name, missing):
            if quick and make is TianshouTree:
                raise ImportError("not with --quick: numba compiles it for many seconds")
            peers[name] = make(leaves)
    return peers, missing
