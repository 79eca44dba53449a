"""What is known of a shard's starts: what each had counted, and what was lost with it.

Everybody who notices the end of a shard tells the next one what he knew, in any order and as often
as he likes: of each start the latest knowledge counts. So nothing is lost twice or forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Life(NamedTuple):
    """A start of a shard, as of some moment.

    Attributes:
        clock: How much it had done by then.
        is_restored: Whether it went on from a save, so that what was before does not count.
        steps: Steps stored.
        counters: What it counted itself, of its part's own type.
        added_again: Steps added that had been added, and lost, before.
    """

    clock: int
    is_restored: bool
    steps: int
    counters: Any
    added_again: int


@dataclass(slots=True)
class Lives:
    """The starts of a shard by boot number, which grows.

    Attributes:
        by_boot: What is known of each.
        under_way: By client and boot number the steps that were on their way when it ended.
    """

    by_boot: dict[int, Life] = field(default_factory=dict)
    under_way: dict[tuple[str, int], int] = field(default_factory=dict)

    def merge(self, other: Lives) -> None:
        """Takes over what another one knows better."""
        for boot, life in other.by_boot.items():
            if boot not in self.by_boot or self.by_boot[boot].clock < life.clock:
                self.by_boot[boot] = life
        for key, steps in other.under_way.items():
            self.under_way[key] = max(self.under_way.get(key, 0), steps)

    def ended(self, boot: int | None) -> list[Life]:
        """The starts that count and have ended, oldest first.

        Args:
            boot: Of the one that has not; None if all have.
        """
        first = self._first()
        return [self.by_boot[b] for b in sorted(self.by_boot) if b >= first and b != boot]

    def steps_under_way(self, boot: int | None) -> int:
        """Steps that were on their way to those that have ended."""
        first = self._first()
        return sum(n for (_, b), n in self.under_way.items() if b >= first and b != boot)

    def lost_steps(self, boot: int | None) -> int:
        """Steps stored in or on their way to those that have ended, but for those added again."""
        again = sum(life.added_again for b, life in self.by_boot.items() if b >= self._first())
        return sum(life.steps for life in self.ended(boot)) + self.steps_under_way(boot) - again

    def _first(self) -> int:
        return max((b for b, life in self.by_boot.items() if life.is_restored), default=0)
