"""Trees that another thread is changing while the process forks, or while it ends."""

import subprocess
import sys

import pytest

# A thread that is in an update nearly all of the time, here of the tree that `source` makes.
WRITER = """
import os, signal, sys, threading, time
import numpy as np
from rllib_per_acc import PriorityTree, SumSegmentTree, _core

n = 1 << {exponent}
tree = {source}
indices, values = np.arange(n), np.ones(n)
started = threading.Event()

def write():
    while True:
        {write}
        started.set()

{write}
threading.Thread(target=write, daemon=True).start()
started.wait()
"""

# Each child reads and writes the tree, and ends; the parent says how each of them ended.
FORKS = """
ended = []
for _ in range(10):
    time.sleep(0.003)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        whole = {sum} == n
        {write}
        os._exit(0 if whole and {sum} == n else 1)
    ended.append(os.waitpid(child, 0)[1])
print(ended)
os._exit(0)
"""

TREES = {
    "priority": {
        "source": "PriorityTree(n, device='cpu')",
        "write": "tree.update(indices, values)",
        "sum": "tree.sum()",
    },
    "single": {
        "source": "SumSegmentTree(n)",
        "write": "tree[indices] = values",
        "sum": "tree.sum()",
    },
    "first use of the costs": {
        "source": "PriorityTree(n, device='cpu')",
        "write": "_core.measure_cost_table(); tree.update(indices, values)",
        "sum": "tree.sum()",
    },
}


def run(source):
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("exponent", [8, 20])
@pytest.mark.parametrize("tree", TREES)
def test_a_child_works_whatever_another_thread_was_doing_at_the_fork(tree, exponent):
    done = run((WRITER + FORKS).format(exponent=exponent, **TREES[tree]))
    assert done.stdout.strip() == str([0] * 10), done.stdout + done.stderr


@pytest.mark.parametrize("tree", ["priority", "single"])
def test_the_process_ends_while_a_daemon_thread_is_in_a_call(tree):
    for _ in range(3):
        done = run(WRITER.format(exponent=20, **TREES[tree]) + "time.sleep(0.1)")
        assert (done.returncode, done.stderr) == (0, "")
