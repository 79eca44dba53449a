"""What is left of a buffer after `close()`: an error that says so."""

from __future__ import annotations

from typing import Any, NoReturn

from rllib_per_acc.shards.owned_shards import ReplayClosedError


class Closed:
    """Stands for a part of a buffer that was ended; whatever is asked of it is an error."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()

    def _refuse(self, *_: Any) -> NoReturn:
        raise ReplayClosedError("got a call after close(), which ended the replay buffer")

    __contains__ = __getitem__ = __iter__ = __len__ = _refuse
