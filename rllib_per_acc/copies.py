"""Independent copies: what `copy` and `pickle` make of objects that keep rows."""

from __future__ import annotations

import copy
from types import MemberDescriptorType
from typing import Any, NoReturn


class IndependentCopies:
    """All copies have everything for themselves, also shallow ones and those in pickles.

    Two replays over the same rows would take each other's for their own.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = object.__new__(type(self))
        memo[id(self)] = made
        made.__setstate__(self._copied(memo))
        return made

    def __copy__(self) -> Any:
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        return self._copied({id(self): self})

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def _copied(self, memo: dict[int, Any]) -> dict[str, Any]:
        """Copies of all attributes."""
        return {name: copy.deepcopy(v, memo) for name, v in attributes_of(self).items()}


class NoCopies:
    """What is no copy if copied: the rows are elsewhere, and would be the same ones."""

    def __copy__(self) -> NoReturn:
        self._refuse()

    def __deepcopy__(self, _: Any) -> NoReturn:
        self._refuse()

    def __reduce_ex__(self, _: Any) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__}: cannot be copied or pickled, its rows are in actors; "
            "get_state() is a copy of them for set_state() of another one, and save() or "
            "save_to_path() writes them to files"
        )


def attributes_of(one: Any) -> dict[str, Any]:
    """What an object has in its `__dict__`, and in slots that no property stands before."""
    found = dict(vars(one))
    for kind in type(one).__mro__:
        for name, slot in vars(kind).items():
            if isinstance(slot, MemberDescriptorType) and getattr(type(one), name) is slot:
                try:
                    found[name] = slot.__get__(one)
                except AttributeError:  # never set
                    continue
    return found
