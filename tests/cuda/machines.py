"""Machines as CUDA and NCCL show them: the description that the stubs of both play, beside the machine of NVML.

Rates are those of the topology's model, unless a test changes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

from tests.nvml.machines import Machine, write_machine
from webhook.hardware.discovery.machine import discover
from webhook.hardware.measurement.verdict import Expectations
from webhook.hardware.topology.connections import Connections, PathType

STAGED = 9.0
"""GB/s through the memory of the host."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """The way from one card to another."""

    gbps: float
    over: str = "pcie"
    """``nvlink``, ``pcie``, or ``half``: NVLink whose counters rise by half of the bytes."""
    access: bool = True


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The cards of a machine with the ways between them. Cards are named by their NVML indices."""

    machine: Machine
    ways: dict[tuple[int, int], Way]
    set_way: Way
    order: tuple[int, ...]
    """CUDA's order of the cards: the fastest first, which here is the last one."""
    counters: bool = True
    """Whether the driver counts bytes over NVLink."""
    lines: tuple[str, ...] = ()
    """Further lines of the description for the stub of CUDA: ``hang cuMemcpyPeerAsync 10``."""

    def with_way(self, one: int, other: int, way: Way) -> "Bench":
        """Returns the bench with another way in one direction."""
        return replace(self, ways={**self.ways, (one, other): way})

    def with_ways(self, one: int, other: int, way: Way) -> "Bench":
        """Returns the bench with another way in both directions."""
        return self.with_way(one, other, way).with_way(other, one, way)

    def with_set(self, way: Way) -> "Bench":
        """Returns the bench with all-reduces that have the rate and the way of ``way``."""
        return replace(self, set_way=way)

    def with_lines(self, *lines: str) -> "Bench":
        """Returns the bench with further lines of the stub's description."""
        return replace(self, lines=(*self.lines, *lines))

    def without_counters(self) -> "Bench":
        """Returns the bench with a driver that has no counters."""
        return replace(self, counters=False)

    def seeing(self, *cards: int) -> "Bench":
        """Returns the bench with a CUDA that sees only these cards."""
        return replace(self, order=cards)

    def on(self, machine: Machine) -> "Bench":
        """Returns the bench with the same ways and another machine of NVML."""
        return replace(self, machine=machine)


def bench(machine: Machine, directory: Path) -> Bench:
    """Returns the bench of a machine whose ways have the rates of its topology, with NVLink where it should be used.

    The stub of NVML must play the machine already, because the topology is read from it.
    """
    topology = discover(node=machine.name, root=directory)
    connections, indices = Connections(topology), [gpu.index for gpu in topology.gpus]
    ways = {}
    for one, other in permutations(indices, 2):
        found = connections.direct(one, other)
        over = "nvlink" if found.type is PathType.NVL else "pcie"
        ways[one, other] = Way(gbps=found.bandwidth, over=over)
    together = Expectations(topology).set([gpu.uuid for gpu in topology.gpus], nvls=True) if indices else None
    over = "nvlink" if together and together.over_nvlink else "pcie"
    rate = together.gbps if together else 1.0
    return Bench(machine=machine, ways=ways, set_way=Way(gbps=rate, over=over), order=tuple(reversed(indices)))


def write_bench(found: Bench, directory: Path) -> tuple[Path, Path]:
    """Writes the descriptions of both stubs. Returns the paths of NVML's and of CUDA's."""
    traffic = directory / "traffic"
    counting = (f"traffic {traffic}",) if found.counters else ()
    nvml = write_machine(found.machine.with_lines(*counting), directory)
    cuda = directory / "cuda.txt"
    cuda.write_text("".join(f"{line}\n" for line in description_of(found, traffic)), encoding="utf-8")
    return nvml, cuda


def description_of(found: Bench, traffic: Path) -> Sequence[str]:
    """Returns the lines of the description that the stub of CUDA reads."""
    cards = found.machine.cards
    return [
        "version 12080",
        f"traffic {traffic}",
        "latency 2.5",
        f"staged {STAGED}",
        f"free {64 * 1024**3}",
        f"set {found.set_way.gbps} {found.set_way.over}",
        *(f"gpu {number} {card} {cards[card].uuid}" for number, card in enumerate(found.order)),
        *(f"pair {one} {other} {way.gbps} {way.over} {int(way.access)}" for (one, other), way in found.ways.items()),
        *found.lines,
    ]
