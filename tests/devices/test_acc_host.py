"""The GPU backend on the host: what it moves, beside whom it can live, and after a fork."""

import importlib.util
import itertools

import numpy as np
import pytest
from fresh_python import run_python

from rllib_per_acc import PriorityTree

pytestmark = pytest.mark.usefixtures("acc_build")

LIBRARIES = [
    name for name in ("torch", "sklearn", "ray") if importlib.util.find_spec(name) is not None
]


@pytest.fixture
def tree(acc_build):
    return PriorityTree(100_000, device="acc-host")


def spent(tree, call):
    before = tree._tree.traffic()
    call()
    return {key: value - before[key] for key, value in tree._tree.traffic().items()}


@pytest.mark.parametrize("n", [1, 50, 512, 20_000])
def test_a_call_moves_its_batch_and_nothing_else(tree, n):
    rng = np.random.default_rng(n)
    indices, masses = rng.integers(0, 100_000, n), rng.random(n)
    update = spent(tree, lambda: tree.update(indices, masses))
    launches = update.pop("launches")
    assert 1 <= launches <= 20
    assert update == {
        "transfers_in": 1,
        "bytes_in": 16 * n,
        "transfers_out": 1,
        "bytes_out": 16,
        "allocations": 0,
    }
    find = spent(tree, lambda: tree.find_prefixsum(masses))
    assert find == {
        "launches": 1,
        "transfers_in": 1,
        "bytes_in": 8 * n,
        "transfers_out": 1,
        "bytes_out": 8 * n,
        "allocations": 0,
    }
    roots = spent(tree, lambda: (tree.sum(), tree.min()))
    assert not any(roots.values())


def test_a_refused_call_moves_nothing(tree):
    def refused():
        with pytest.raises(ValueError, match="masses"):
            tree.update([1, 2], [1.0, float("nan")])
        with pytest.raises(IndexError, match="indices"):
            tree.update([1, 100_000], [1.0, 1.0])
        with pytest.raises(ValueError, match="sum is 0"):
            tree.find_prefixsum([0.5])

    assert not any(spent(tree, refused).values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", itertools.permutations([*LIBRARIES, "rllib_per_acc"]), ids="-".join
)
def test_it_loads_in_every_order(order):
    code = "\n".join(
        f"import {name}"
        + ("\ntree = rllib_per_acc.PriorityTree(9, device='acc-host')" * (name == "rllib_per_acc"))
        for name in order
    )
    code += """
tree.update([1, 2, 2], [1.0, 2.0, 3.0])
assert tree.sum() == 4.0 and tree.find_prefixsum(2.0) == 2
import sys
if "torch" in sys.modules:
    assert (torch.ones(300, 300) @ torch.ones(300, 300)).sum() == 300.0**3
print("done")
"""
    assert run_python(code) == "done"


@pytest.mark.parametrize("device", ["cpu", "acc-host"])
def test_it_works_after_a_fork(device):
    code = """
import os
import rllib_per_acc
tree = rllib_per_acc.PriorityTree(9, DEVICE)
tree.update([1], [1.0])
if os.fork() == 0:
    tree.update([2], [2.0])
    other = rllib_per_acc.PriorityTree(9, DEVICE)
    other.update([3], [5.0])
    os._exit(int(tree.sum() + other.sum()))
_, status = os.wait()
print(os.waitstatus_to_exitcode(status), tree.sum())
"""
    assert run_python(code.replace("DEVICE", repr(device))) == "8 1.0"
