"""What a full replay takes of this machine's memory, said before it is full."""

from __future__ import annotations

import logging
import os
from pathlib import Path

logger = logging.getLogger(__name__)

BOOKKEEPING = 64
"""Bytes for a row beside its values: links, generation, and its share of the tree."""

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int:
    """Bytes of memory of this machine, or of this container if that may have less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in map(Path, _LIMITS):
        limit = path.read_text().strip() if path.is_file() else "max"
        if limit != "max":
            limits.append(int(limit))
    return min(limits)


def check_capacity(capacity: int, bytes_per_step: int) -> None:
    """Logs what a full replay takes, about.

    Args:
        capacity: In steps.
        bytes_per_step: What one takes, beside the bookkeeping.

    Raises:
        ValueError: If this machine does not have so much memory.
    """
    row = bytes_per_step + BOOKKEEPING
    row += row // 32  # arrays are allocated somewhat ahead
    total, available = capacity * row, machine_memory()
    logger.info(
        "A full replay of %d steps takes about %.3g GiB (%d bytes a step); "
        "this machine has %.3g GiB of memory",
        capacity,
        total / 2**30,
        row,
        available / 2**30,
    )
    if total > available:
        raise ValueError(
            f"capacity: got {capacity} steps of about {row} bytes, {total / 2**30:.3g} GiB in all, "
            f"expected at most {available // row}: this machine has {available / 2**30:.3g} GiB "
            "of memory. For stacked images see frame_stack"
        )
