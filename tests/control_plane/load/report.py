"""The figures for a reader. They describe the machine, which everything shares."""

import os

from rich.console import Console
from rich.table import Table

from tests.control_plane.api_metrics import Histogram
from tests.control_plane.load.client import Sent
from tests.control_plane.load.cluster import Cluster
from tests.control_plane.load.measure import Findings

FAULTS_SHOWN = 5


def report(found: Findings, cluster: Cluster) -> None:
    """Print everything."""
    console = Console(highlight=False, soft_wrap=True)
    plan = found.plan
    console.print(table(found.without, found.injected))
    console.print(f"The API server waited for us ({found.waited.count:,} calls): {described(found.waited)}.")
    console.print(f"Our replicas took, by their own clocks: {described(found.own)}.")
    console.print(f"CPU of our replicas: {' and '.join(f'{share:.0%}' for share in found.use.cores)} of a core.")
    if found.use.planner is not None:
        console.print(f"CPU of the planner meanwhile: {found.use.planner:.2f} s.")
    console.print(f"All {os.cpu_count()} cores of the machine were busy to {found.use.machine:.0%}.")
    moments = {
        "at the start": cluster.memory[0],
        f"with {cluster.nodes:,} nodes": cluster.memory[1],
        f"after {plan.pods:,} pods": found.memory,
    }
    for moment, replicas in moments.items():
        mebibytes = " and ".join(f"{mib:.0f}" for mib in replicas)
        console.print(f"Resident memory of our replicas {moment}: {mebibytes} MiB.")
    console.print(
        f"Pods stored with what we add: {found.prepared:,} of {plan.pods:,}; "
        f"calls of our webhook that failed: {found.lost}."
    )
    for fault in found.faults[:FAULTS_SHOWN]:
        console.print(f"Not as wanted: {fault}")


def table(without: Sent, injected: Sent) -> Table:
    """What the client saw."""
    made = Table(title="Creations of pods as the client sees them, from when each was due")
    made.add_column("")
    for heading in ("pods/s", "p50 ms", "p99 ms", "max ms"):
        made.add_column(heading, justify="right")
    for name, sent in (("not asked", without), ("with our webhook", injected)):
        latencies = [sent.latencies[int(share * (len(sent.latencies) - 1))] for share in (0.5, 0.99, 1.0)]
        made.add_row(name, f"{sent.per_second:.0f}", *(f"{1000 * latency:.1f}" for latency in latencies))
    return made


def described(seen: Histogram) -> str:
    """Quantiles and shares, in milliseconds."""
    if not seen.count:
        return "nothing was seen"
    shares = []
    for bound, count in sorted(seen.cumulative.items()):
        shares.append(f"{count / seen.count:.2%} within {1000 * bound:g} ms")
        if count == seen.count:
            break
    return f"p50 {1000 * seen.quantile(0.5):.1f} ms, p99 {1000 * seen.quantile(0.99):.1f} ms ({', '.join(shares)})"
