"""What a caller gave, as it was at the call."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import ray

LARGE_BUFFER = 1 << 12
"""Bytes from which on the memory of an array is not copied into the pickle, but beside it."""


class Frozen:
    """A value as it is now: what the caller does with its arrays later does not change it.

    Sent to another process it stays frozen, so that a value that cannot be read there fails where
    it is read, and takes nothing with it that was sent along.

    Args:
        value: Anything that Ray could send.
    """

    def __init__(self, value: Any) -> None:
        self._buffers: list[Any] = []

        def beside(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < LARGE_BUFFER:
                return True  # into the pickle
            self._buffers.append(bytearray(raw))
            return False

        try:
            self._pickled = pickle.dumps(value, protocol=5, buffer_callback=beside)
            by_value = b"__main__" in self._pickled  # which is another module there
        except (AttributeError, TypeError, pickle.PicklingError):
            by_value = True
        if by_value:  # a third as fast
            self._buffers.clear()
            self._pickled = ray.cloudpickle.dumps(value, protocol=5, buffer_callback=beside)

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self._pickled, [pickle.PickleBuffer(b) for b in self._buffers])

    def thaw(self) -> Any:
        """The value; its larger arrays are views of what this holds."""
        return pickle.loads(self._pickled, buffers=self._buffers)


def _received(pickled: bytes, buffers: Sequence[Any]) -> Frozen:
    frozen = Frozen.__new__(Frozen)
    frozen._pickled, frozen._buffers = pickled, list(buffers)
    return frozen
