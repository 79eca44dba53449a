"""`python -m rllib_per_acc bench`: this package against others, side by side in one run.

A section is a module with ``run(settings: Settings) -> list[Table]``.
"""

from __future__ import annotations

from importlib import import_module

from rllib_per_acc.bench.report import Settings, Table

# In the order in which they run when none is named.
DEFAULT_SECTIONS = ("tree", "replay", "buffer", "multi_agent", "training")
# Those that take longer run when they are named.
SECTIONS = (*DEFAULT_SECTIONS, "old_stack", "ray")


def run(section: str, settings: Settings) -> list[Table]:
    """Runs one of SECTIONS."""
    module = import_module(f"{__name__}.{section}")
    tables: list[Table] = module.run(settings)
    return tables
