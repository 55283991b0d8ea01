"""A comparison as a table for people."""

from rich.table import Table

from bench.fleet.comparison import Comparison
from bench.fleet.contenders import HAMI
from bench.fleet.figures import Waits
from bench.fleet.hami import Policy

BESIDE = f"{HAMI}{Policy.BINPACK}"
"""The contender with which waits are compared."""


def table_of(comparison: Comparison) -> Table:
    """Returns one line for each contender."""
    figures = comparison.figures
    table = Table(title=f"{comparison.fleet}, {comparison.mix}")
    table.add_column("")
    sizes = next(iter(figures.values())).by_size
    headings = "linked", "weakest", "of best", "wait", "p95", "of HAMi", *(f"{size} cards" for size in sizes)
    for heading in (*headings, "pairs", "quads", "never", "ms"):
        table.add_column(heading, justify="right")
    beside = figures[BESIDE].waits.mean if BESIDE in figures else 0.0
    for name, each in figures.items():
        table.add_row(
            name,
            f"{each.linked:.0%}",
            f"{each.weakest:.0f}",
            f"{each.share:.0%}",
            f"{each.waits.mean:.0f} s",
            f"{each.waits.p95:.0f} s",
            f"{each.waits.mean / beside:.2f}" if beside else "",
            *(_of_size(waits) for waits in each.by_size.values()),
            f"{each.pairs:.0%}",
            f"{each.quads:.0%}",
            str(each.never or ""),
            f"{each.cpu_ms:.1f}" if each.cpu_ms else "",
        )
    return table


def _of_size(waits: Waits) -> str:
    return f"{waits.mean:.0f} / {waits.longest:.0f}"
