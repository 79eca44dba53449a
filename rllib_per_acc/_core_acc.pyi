"""The OpenACC backend, compiled from the same sources; only in builds that asked for it."""

from typing import TypedDict, final

from rllib_per_acc._core import _PairTree

__version__: str

class _Traffic(TypedDict):
    launches: int
    transfers_in: int
    transfers_out: int
    bytes_in: int
    bytes_out: int
    allocations: int

class _Accelerator(TypedDict):
    name: str
    driver: str
    memory: int
    free_memory: int

def device_problem() -> str: ...
def accelerator() -> _Accelerator | None: ...

@final
class PriorityTree(_PairTree):
    def __init__(self, capacity: int, *, host: bool = False) -> None: ...
    def traffic(self) -> _Traffic: ...
