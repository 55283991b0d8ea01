"""The figures for a reader."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.control_plane.attacks.replay import Figures

FAULTS_SHOWN = 8


def report(all_figures: Sequence[Figures]) -> None:
    """Print everything."""
    console = Console(highlight=False, soft_wrap=True, width=200)
    console.print(table(all_figures))
    for figures in all_figures:
        console.print(f"{figures.attack.number}. {figures.attack.name}: {figures.found.said}", markup=False)
        for fault in figures.faults[:FAULTS_SHOWN]:
            console.print(f"   not as it should be: {fault}", markup=False)


def table(all_figures: Sequence[Figures]) -> Table:
    """What each attack cost."""
    made = Table(title="Attacks, while somebody creates pods in another namespace")
    made.add_column("", no_wrap=True)
    for heading in (
        "largest reply",
        "replica",
        "kube-apiserver",
        "waits: half",
        "99 %",
        "longest",
        "our CPU meanwhile",
        "pods",
        "held off",
    ):
        made.add_column(heading, justify="right")
    for figures in all_figures:
        made.add_row(
            f"{figures.attack.number}. {figures.attack.name}",
            f"{figures.largest_reply:,} B",
            f"{figures.replica_mib:.0f} MiB",
            f"{figures.api_server_mib:.0f} MiB",
            *(f"{wait:.2f} s" for wait in figures.waits),
            f"{figures.cpu_ms:.0f} ms",
            str(figures.probes),
            "no" if figures.faults else "yes",
        )
    return made
