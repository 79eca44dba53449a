"""One tree, several threads: each call is whole, and the tree is consistent afterwards."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tree_reference import Pyramid, assert_is, same_bits, write_in_turn

from rllib_per_acc import PriorityTree, SumSegmentTree

THREADS = 4


def run_together(*calls):
    """Runs the calls at the same time and raises what any of them raised."""
    start = threading.Barrier(len(calls))

    def wait_and_run(call):
        start.wait(timeout=30)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        for future in [pool.submit(wait_and_run, call) for call in calls]:
            future.result(timeout=120)


@pytest.mark.parametrize("size", [1, 64, 3000])
def test_threads_write_and_read_one_tree(device, size):
    capacity = 5000
    tree = PriorityTree(capacity, device=device)
    tree.update(np.arange(capacity), np.ones(capacity))
    finals = np.ones(capacity)

    def write(thread):
        rng = np.random.default_rng(thread)
        mine = np.arange(thread, capacity, THREADS)
        for _ in range(100):
            indices = rng.choice(mine, size)
            masses = rng.integers(1, 100, size).astype(float)
            tree.update(indices, masses)
            write_in_turn(finals, indices, masses)

    def read():
        rng = np.random.default_rng(99)
        for _ in range(200):
            assert capacity <= tree.sum() <= 100 * capacity
            assert 1 <= tree.min() < 100
            found = tree.find_prefixsum(rng.random(100) * 100 * capacity)
            assert (found >= 0).all()
            assert (found < capacity).all()
            leaves = tree.get_state()["leaves"]
            assert ((leaves >= 1) & (leaves < 100)).all()

    run_together(*[lambda t=thread: write(t) for thread in range(THREADS)], read)
    assert_is(tree, Pyramid(finals), finals)


def test_updates_of_the_same_leaves_are_not_torn(device):
    """Each thread writes its own number everywhere: whoever comes last has written all of it."""
    capacity = 1000
    tree = PriorityTree(capacity, device=device)
    everything = np.arange(capacity)
    tree.update(everything, np.ones(capacity))

    def write(number):
        for _ in range(100):
            tree.update(everything, np.full(capacity, number))

    def read():
        for _ in range(200):
            assert len(set(tree.get_state()["leaves"].tolist())) == 1

    run_together(*[lambda n=float(thread + 1): write(n) for thread in range(THREADS)], read)
    leaves = tree.get_state()["leaves"]
    assert_is(tree, Pyramid(leaves), leaves)


def test_threads_share_a_segment_tree():
    tree = SumSegmentTree(777)

    def write(thread):
        rng = np.random.default_rng(thread)
        for _ in range(100):
            tree[rng.integers(0, 777, 500)] = rng.random(500)
            tree.reduce(3, 700)

    run_together(*[lambda t=thread: write(t) for thread in range(THREADS)])
    assert same_bits(tree.reduce(0, 512), Pyramid(tree[np.arange(512)]).sum)
