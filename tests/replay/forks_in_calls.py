"""Forks again and again while a thread uses a replay; exits with how many children failed."""

import faulthandler
import os
import sys
import threading

import numpy as np
from replay_checks import check_invariants

from rllib_per_acc import EpisodeChunk, PrioritizedReplay

FORKS = 60


def chunk(number):
    rewards = np.full(4, float(number))
    return EpisodeChunk(f"episode-{number}", np.zeros((5, 50)), rewards, rewards, terminated=True)


def use(replay, number):
    replay.add([chunk(number)])
    replay.sample(8).update(np.ones(8))


def child_of(replay, number):
    """What the child does: it ends with 0 if all is well."""
    faulthandler.dump_traceback_later(60, exit=True)
    code = 1
    try:
        replay.info()
        check_invariants(replay)
        use(replay, 10_000 + number)
        check_invariants(replay)
        code = 0
    finally:
        os._exit(code)


def main():
    sys.setswitchinterval(1e-6)
    replay = PrioritizedReplay(60, seed=1)
    replay.add([chunk(0)])
    stop = threading.Event()

    def use_until_stopped():
        number = 0
        while not stop.is_set():
            number += 1
            use(replay, number)

    thread = threading.Thread(target=use_until_stopped)
    thread.start()
    failed = 0
    for number in range(FORKS):
        child = os.fork()
        if not child:
            child_of(replay, number)
        failed += os.waitpid(child, 0)[1] != 0
    stop.set()
    thread.join(30)
    return failed


if __name__ == "__main__":
    sys.exit(main())
