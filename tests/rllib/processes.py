"""Waiting for other processes, and whether they are there."""

import time
from collections.abc import Callable
from pathlib import Path


def comes_true(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Waits until it does; the bound is for a failure only."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def runs(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
