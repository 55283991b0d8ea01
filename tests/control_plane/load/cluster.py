"""A cluster with many nodes: a control plane of its own, and two replicas that know every node."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.proc import resident_mib
from tests.control_plane.control_plane import Binaries, running_control_plane
from tests.control_plane.installation import Installation, installed
from tests.control_plane.load.nodes import create_nodes, machines
from tests.programs.server.conftest import until

KNOWN = 'gpu_topology_nodes{topology="fresh"} '


@dataclass(frozen=True)
class Cluster:
    """All that runs.

    Attributes:
        nodes: How many there are.
        memory: MiB resident of each replica before there were nodes, and with them.
    """

    ours: Installation
    nodes: int
    memory: tuple[tuple[float, ...], tuple[float, ...]]


@contextmanager
def running_cluster(binaries: Binaries, directory: Path, nodes: int) -> Iterator[Cluster]:
    """Starts everything; nothing of ours is registered yet.

    Raises:
        NotRunningError: a program ended or does not become ready.
    """
    for part in ("control-plane", "ours"):
        (directory / part).mkdir()
    with (
        running_control_plane(binaries, directory / "control-plane") as control_plane,
        installed(control_plane, directory / "ours", {}, directory, hami="2.10.0") as ours,
    ):
        before = resident(ours)
        create_nodes(control_plane, machines(nodes))
        until(lambda: known_nodes(ours) == [nodes] * len(ours.replicas), "replicas that know all nodes")
        yield Cluster(ours, nodes, (before, resident(ours)))


def resident(ours: Installation) -> tuple[float, ...]:
    """MiB of each replica."""
    return tuple(resident_mib(replica.process.pid) for _, replica in sorted(ours.replicas.items()))


def known_nodes(ours: Installation) -> list[float]:
    """How many nodes with a fresh topology each replica knows."""
    return [float(line.removeprefix(KNOWN)) for lines in ours.metrics() for line in lines if line.startswith(KNOWN)]
