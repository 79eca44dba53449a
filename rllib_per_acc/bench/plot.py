"""The crossover picture: update time over the size of the batch, for each algorithm."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from rllib_per_acc.bench.report import Table, machine


def draw_crossover(path: pathlib.Path, tables: Sequence[Table]) -> None:
    """Draws the table ``tree.crossover`` to an image of the type that `path` ends with.

    Raises:
        ValueError: if there is no such table.
    """
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    table = next((table for table in tables if table.name == "tree.crossover"), None)
    if table is None:
        raise ValueError("there is nothing to draw: the section 'tree' was not run")
    figure, axes = plt.subplots(figsize=(8, 5))
    sizes, *series = (list(map(float, column)) for column in zip(*table.rows, strict=True))
    for name, times in zip(table.columns[1:], series, strict=True):
        ours = name == "ours"
        axes.plot(
            sizes,
            times,
            label=name,
            linewidth=4 if ours else 1.5,
            alpha=0.5 if ours else 1.0,
            linestyle="--" if name.startswith("plain") else "-",
        )
    axes.set(xscale="log", yscale="log", xlabel="leaves updated by one call", ylabel="microseconds")
    axes.grid(which="major", alpha=0.3)
    axes.legend()
    axes.set_title(f"{table.title}\n{_on()}", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _on() -> str:
    here = machine()
    return f"{here['processor']}, one thread of {here['cores']} cores"
