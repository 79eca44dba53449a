"""`python -m rllib_per_acc doctor` and `python -m rllib_per_acc bench`."""

from __future__ import annotations

import pathlib
import sys
from typing import Annotated

from rllib_per_acc import doctor as _doctor

try:
    import typer
    from rich.console import Console
except ImportError as error:
    if sys.argv[1:] == ["doctor"]:
        sys.exit(_doctor.main())
    sys.exit(f"{error}: only `doctor` works without; pip install 'rllib-per-acc[bench]'")

from rllib_per_acc import build_info
from rllib_per_acc.bench import DEFAULT_SECTIONS, SECTIONS, run
from rllib_per_acc.bench.report import Settings, Table, print_table, write_json

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Prioritized replay for Ray RLlib: check the installation, measure it.",
)


@app.command()
def doctor() -> None:
    """Says what is installed, what works, and what to do about the rest."""
    raise typer.Exit(_doctor.main())


@app.command()
def bench(
    sections: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"What to measure: {', '.join(SECTIONS)}. Default: {', '.join(DEFAULT_SECTIONS)}."
        ),
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="The same as naming the section ray.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, smaller sizes.")] = False,
    json: Annotated[
        pathlib.Path | None, typer.Option(dir_okay=False, help="Write the tables to this file.")
    ] = None,
    plot: Annotated[
        pathlib.Path | None,
        typer.Option(dir_okay=False, help="Draw update time over batch size (section tree)."),
    ] = None,
) -> None:
    """Compares with other implementations, side by side in one run: look at the ratios."""
    chosen = [*(sections or []), *(["ray"] if ray else [])] or list(DEFAULT_SECTIONS)
    for section in chosen:
        if section not in SECTIONS:
            raise typer.BadParameter(f"{section!r}: expected some of {', '.join(SECTIONS)}")
    if plot is not None and "tree" not in chosen:
        raise typer.BadParameter("--plot draws what the section 'tree' measures: name it too")
    tables: list[Table] = []
    progress = Console(stderr=True)
    for section in chosen:
        with progress.status(section) as status:
            found = run(section, Settings(quick=quick, progress=status.update))
        for table in found:
            print_table(table)
        tables += found
    if json is not None:
        write_json(json, tables, build_info())
    if plot is not None:
        from rllib_per_acc.bench.plot import draw_crossover

        draw_crossover(plot, tables)


if __name__ == "__main__":
    app(prog_name="python -m rllib_per_acc")
