"""The versions of Ray that this package is tested with, and what is said of newer ones."""

from __future__ import annotations

import logging
from functools import cache

logger = logging.getLogger(__name__)

TESTED_RAY = ("2.47.1", "2.52.1", "2.55.1", "2.58.1", "2.60.0")
"""Oldest first: what the tests ran with. The package asks for the oldest or a newer one."""


def older_than_tested(version: str) -> bool:
    """Whether Ray's `version` is older than every tested one."""
    return _release(version) < _release(TESTED_RAY[0])


def newer_than_tested(version: str) -> bool:
    """Whether Ray's `version` is newer than every tested one, in more than its last number."""
    return _release(version) > _release(TESTED_RAY[-1])


@cache
def warn_if_newer(version: str) -> None:
    """Says once in a process that Ray's `version` is newer than every tested one."""
    if newer_than_tested(version):
        logger.warning(
            "Ray %s is newer than the newest that this version of rllib_per_acc is tested with, "
            "%s. It will probably work; where it does not, that is the first thing to look at.",
            version,
            TESTED_RAY[-1],
        )


def _release(version: str) -> tuple[int, int]:
    """The first two numbers; the third counts repairs, which need no test of ours."""
    major, minor = version.split(".")[:2]
    return int(major), int("".join(digit for digit in minor if digit.isdigit()) or 0)
