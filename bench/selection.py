"""`python -m bench.selection`: the cost of choosing GPUs, compared with a plain loop over every set.

Each row is measured in turn with its floor, as CPU time of this process. Figures are medians over the rounds. A number
of milliseconds describes the machine as much as the code; the ratio to the floor describes only the code.

- `interchangeable`: 8 of 16 GPUs on NVSwitches, where only the numbers on the two NUMA nodes make a difference.
- `unlike`: 8 of 16 GPUs, each pair with another number of NVLinks, so that all 12,870 sets differ.
- `bridged`: like `unlike` with fewer links, so that many pairs reach each other only through a third GPU of their set.
- `PCIe`: 8 of 16 GPUs without NVLinks, two below each PCIe switch, on four NUMA nodes, by several policies; `unmet`
  asks for one NUMA node and NVLink, neither of which can be met.
- `cube mesh`: 4 of the 8 GPUs of a DGX-1.
- `prepare`: the computation that each node needs once, before its first choice; its floor is to make the connections.
- `plan`: 64 GPUs out of 1,000 nodes with eight each, half of them in use at random, by each policy for nodes.

The floor of a choice computes the weakest pair of each set and the sum over its pairs, from a matrix. It ignores links
through third GPUs, NUMA nodes, memory and the GPUs left for others, and it orders no ring. The floor of a plan is one
choice on each node by itself, measured on every tenth node and counted ten times.

A missed target does not change the exit code.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median

from rich.console import Console
from rich.table import Table

from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.model import NVSWITCH, Cpu, Gpu, Nic, NodeTopology, NvLink, Pcie, PciSwitch
from webhook.hardware.topology.planning.plan import PlanRequest, plan
from webhook.hardware.topology.selection.choice import Selector, select
from webhook.hardware.topology.selection.request import UNCONSTRAINED, Constraints, NodeFree, Policy, Request
from webhook.words.choices import NodePolicy

ROUNDS, QUICK_ROUNDS = 7, 1
NODES, SAMPLED = 1000, 10
MAX_CHOICE_MS, MAX_PREPARE_MS, MAX_PLAN_MS = 50.0, 10.0, 1000.0
CUBE_MESH = {1: ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))} | {
    2: ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
}
"""The pairs of GPUs by their number of NVLinks."""

Work = Callable[[], object]
Pairs = Mapping[tuple[int, int], int]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table: work to measure, and its floor."""

    name: str
    prepare: Callable[[], Work]
    """Returns the work to measure. It is called before each round, outside the measurement."""
    floor: Work
    floor_counts: int = 1
    """The factor by which one run of the floor is counted."""
    target_ms: float


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The medians over the rounds."""

    ms: float
    floor_ms: float
    ratio: float


def main() -> int:
    """Measures, prints, and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.selection", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="one round: does it work at all?")
    arguments = parser.parse_args()
    rounds = QUICK_ROUNDS if arguments.quick else max(arguments.rounds, 1)
    show({row: measure(row, rounds) for row in rows()}, rounds, Console())
    return 0


def rows() -> Iterator[Row]:
    """Yields all rows."""
    pairs = list(combinations(range(16), 2))
    unlike = linked(16, {pair: scattered(*pair) % 18 + 1 for pair in pairs})
    bridged = linked(16, {pair: scattered(*pair) % 4 + 1 for pair in pairs if scattered(*pair) % 100 < 40})
    mesh = linked(8, {pair: links for links, joined in CUBE_MESH.items() for pair in joined})
    yield choice("interchangeable, 8 of 16", switched(16), 8)
    yield choice("unlike, 8 of 16", unlike, 8)
    yield choice("bridged, 8 of 16", bridged, 8)
    for policy in Policy:
        yield choice(f"PCIe, {policy}, 8 of 16", on_pcie(), 8, policy=policy)
    yield choice("PCIe, unmet, 8 of 16", on_pcie(), 8, constraints=Constraints(same_numa=True, require_nvlink=True))
    yield choice("cube mesh, 4 of 8", mesh, 4)
    yield Row(
        name="prepare, 16 GPUs",
        prepare=lambda: lambda: Selector(bridged),
        floor=lambda: Connections(bridged),
        target_ms=MAX_PREPARE_MS,
    )
    nodes = fleet()
    for node_policy in NodePolicy:
        yield placement(nodes, node_policy)


def choice(
    name: str,
    topology: NodeTopology,
    count: int,
    *,
    policy: Policy = Policy.BEST_FIT,
    constraints: Constraints = UNCONSTRAINED,
) -> Row:
    """Returns the row of the first choice on an empty node that has been prepared."""
    request = Request(count=count, policy=policy, constraints=constraints)

    def prepare() -> Work:
        selector = Selector(topology)
        return lambda: selector.select(request)

    bandwidth = matrix(topology)
    return Row(name=name, prepare=prepare, floor=lambda: every_set(bandwidth, count), target_ms=MAX_CHOICE_MS)


def placement(nodes: Sequence[NodeFree], policy: NodePolicy) -> Row:
    """Returns the row of a plan over all nodes, which begins with their topologies."""
    request = PlanRequest(count=64, policy=policy)
    return Row(
        name=f"plan, {policy}",
        prepare=lambda: lambda: plan(nodes, request),
        floor=lambda: [select(node.topology, Request(count=1, busy=node.busy)) for node in nodes[::SAMPLED]],
        floor_counts=SAMPLED,
        target_ms=MAX_PLAN_MS,
    )


def measure(row: Row, rounds: int) -> Figures:
    """Runs a row and its floor in turn, and returns the medians."""
    times = [(cpu_ms(row.prepare()), cpu_ms(row.floor) * row.floor_counts) for _ in range(rounds)]
    return Figures(
        ms=median(own for own, _ in times),
        floor_ms=median(floor for _, floor in times),
        ratio=median(own / floor for own, floor in times),
    )


def cpu_ms(work: Work) -> float:
    """Returns the CPU milliseconds that the work takes."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def every_set(bandwidth: Sequence[Sequence[float]], count: int) -> tuple[float, float, tuple[int, ...]]:
    """Returns the best of all sets by weakest pair and sum, which is the floor of a choice."""
    best: tuple[float, float, tuple[int, ...]] = (0.0, 0.0, ())
    for gpus in combinations(range(len(bandwidth)), count):
        pairs = [bandwidth[one][other] for one, other in combinations(gpus, 2)]
        best = max(best, (min(pairs), sum(pairs), gpus))
    return best


def matrix(topology: NodeTopology) -> list[list[float]]:
    """Returns the GB/s per direction between each two GPUs."""
    connections, indices = Connections(topology), range(len(topology.gpus))
    return [[connections.direct(one, other).bandwidth if one != other else 0.0 for other in indices] for one in indices]


def switched(count: int, node: str = "switched") -> NodeTopology:
    """Makes GPUs with 18 links to NVSwitches on two NUMA nodes, each with a NIC."""
    gpus = tuple(
        replace(gpu(index, count, node), nvlinks=(NvLink(target=NVSWITCH, count=18, active=18),))
        for index in range(count)
    )
    nics = tuple(
        Nic(name=f"mlx5_{index}", numa_node=gpu.numa_node, speed_gbps=400, pcie=gpu.pcie, root=gpu.root)
        for index, gpu in enumerate(gpus)
    )
    return machine(node, gpus, nics)


def linked(count: int, links: Pairs) -> NodeTopology:
    """Makes GPUs with direct links on two NUMA nodes."""
    gpus = [gpu(index, count, "linked") for index in range(count)]
    for (one, other), number in links.items():
        for here, there in ((one, other), (other, one)):
            link = NvLink(target=gpus[there].label, count=number, active=number)
            gpus[here] = replace(gpus[here], nvlinks=(*gpus[here].nvlinks, link))
    return machine("linked", tuple(gpus))


def on_pcie() -> NodeTopology:
    """Makes sixteen GPUs without NVLinks, two below each PCIe switch, on four NUMA nodes."""
    gpus = tuple(
        replace(
            gpu(index, 16, "pcie"),
            numa_node=index // 4,
            parent=f"0000:{index // 2:02x}:00.0",
            root=f"0000:{index // 2:02x}",
        )
        for index in range(16)
    )
    cpus = tuple(Cpu(numa_node=number, vendor="GenuineIntel", family=6, model=143) for number in range(4))
    switches = tuple(PciSwitch(pci_bus_id=f"0000:{number:02x}:00.0", root=f"0000:{number:02x}") for number in range(8))
    return replace(machine("pcie", gpus), cpus=cpus, switches=switches)


def gpu(index: int, count: int, node: str) -> Gpu:
    """Makes a GPU below a root port of its own."""
    return Gpu(
        index=index,
        uuid=f"GPU-{node}-{index}",
        compute_capability="9.0",
        memory_mib=81559,
        numa_node=index * 2 // count,
        pcie=Pcie(generation=5, width=16),
        root=f"0000:{index:02x}",
    )


def machine(node: str, gpus: tuple[Gpu, ...], nics: tuple[Nic, ...] = ()) -> NodeTopology:
    """Makes a machine with two sockets."""
    cpus = tuple(Cpu(numa_node=number, vendor="GenuineIntel", family=6, model=143) for number in range(2))
    return NodeTopology(node=node, source="nvml", gpus=gpus, cpus=cpus, nics=nics)


def fleet() -> list[NodeFree]:
    """Makes equal nodes with half of their GPUs in use at random."""
    return [
        NodeFree(switched(8, f"node-{number:04}"), frozenset(gpu for gpu in range(8) if scattered(number, gpu) % 2))
        for number in range(NODES)
    ]


def scattered(one: int, other: int) -> int:
    """Returns a pseudorandom number, equal in each run."""
    return int.from_bytes(hashlib.sha256(f"{one} {other}".encode()).digest()[:4])


def show(results: Mapping[Row, Figures], rounds: int, console: Console) -> None:
    """Prints one line for each row."""
    table = Table(title=f"Choosing GPUs: CPU time, medians over {rounds} rounds")
    table.add_column("row")
    for heading in ("ms", "floor ms", "ms / floor", "target"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row, figures in results.items():
        verdict = "[green]met[/]" if figures.ms <= row.target_ms else "[red]missed[/]"
        values = f"{figures.ms:.2f}", f"{figures.floor_ms:.2f}", f"{figures.ratio:.3f}", f"<= {row.target_ms:g} ms"
        table.add_row(row.name, *values, verdict)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
