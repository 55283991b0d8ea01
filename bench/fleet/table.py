"""A comparison as a table for people."""

from rich.table import Table

from bench.fleet.comparison import Comparison
from bench.fleet.contenders import HAMI
from bench.fleet.figures import OfSlices, Waits
from bench.fleet.hami import Policy

BESIDE = f"{HAMI}{Policy.BINPACK}"
"""The contender with which waits are compared."""


def table_of(comparison: Comparison) -> Table:
    """Returns one line for each contender."""
    figures = comparison.figures
    table = Table(title=f"{comparison.fleet}, {comparison.mix}")
    table.add_column("")
    first = next(iter(figures.values()))
    headings = "linked", "weakest", "of best", "wait", "p95", "of HAMi", *(f"{size} cards" for size in first.by_size)
    if first.slices:
        headings += "slices linked", "weakest", *(f"{size} slices" for size in first.slices.by_size)
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
            *(_of_slices(each.slices) if each.slices else ()),
            f"{each.pairs:.0%}",
            f"{each.quads:.0%}",
            str(each.never or ""),
            f"{each.cpu_ms:.1f}" if each.cpu_ms else "",
        )
    return table


def _of_slices(slices: OfSlices) -> list[str]:
    return [f"{slices.linked:.0%}", f"{slices.weakest:.0f}", *(_of_size(waits) for waits in slices.by_size.values())]


def _of_size(waits: Waits) -> str:
    return f"{waits.mean:.0f} / {waits.longest:.0f}"
