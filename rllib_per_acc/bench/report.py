"""What a benchmark found: tables, printed by rich and written as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = str | float | int | None


@dataclass(frozen=True)
class Table:
    """One table; `name` is how JSON and plots find it."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Settings:
    """What a section of the benchmark is asked to do."""

    quick: bool = False
    # Called with what is being measured, for the progress display.
    progress: Callable[[str], None] = field(default=lambda _: None)


def machine() -> dict[str, Any]:
    """Describes the machine: processor, number of usable cores, system, Python."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write_json(path: pathlib.Path, tables: Sequence[Table], build: dict[str, Any]) -> None:
    """Writes the tables with the machine and the build they were measured on."""
    report = {
        "machine": machine(),
        "build": build,
        "tables": [dataclasses.asdict(table) for table in tables],
    }
    path.write_text(json.dumps(report, indent=1) + "\n")


def print_table(table: Table) -> None:
    """Prints a table, figures to three digits."""
    from rich.console import Console
    from rich.table import Table as RichTable

    shown = RichTable(title=table.title, title_justify="left")
    for at, column in enumerate(table.columns):
        shown.add_column(column, justify="left" if at == 0 else "right")
    for row in table.rows:
        shown.add_row(*map(_text, row))
    terminal = Console()
    # Into a file or a pipe nothing is cut.
    console = terminal if terminal.is_terminal else Console(width=160)
    console.print(shown)
    for note in table.notes:
        console.print(note, markup=False, highlight=False)


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else cell
