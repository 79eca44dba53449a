"""Arguments that another thread writes to during the call: checked values are the ones used."""

import threading
import time

import numpy as np

from rllib_per_acc import PriorityTree


def test_a_batch_changed_by_another_thread_never_gets_past_the_checks(device):
    tree = PriorityTree(1024, device=device)
    indices, masses = np.zeros(100_000, np.int64), np.ones(100_000)
    done = threading.Event()

    def spoil():
        half = len(indices) // 2
        while not done.is_set():
            indices[half:] = 2**40
            masses[half:] = np.nan
            indices[half:] = 0
            masses[half:] = 1.0

    writer = threading.Thread(target=spoil)
    writer.start()
    refused = accepted = 0
    end = time.monotonic() + 2.0
    try:
        while time.monotonic() < end:
            try:
                tree.update(indices, masses)
                accepted += 1
            except (IndexError, ValueError):
                refused += 1
            assert tree.sum() in (0.0, 1.0)
    finally:
        done.set()
        writer.join()
    assert refused + accepted > 0
