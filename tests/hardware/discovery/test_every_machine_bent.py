"""Every machine, bent in every way that happens, ends in a topology that says so and that everything else can use."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hardware.topology.nccl_rules import faults
from tests.nvml import machines
from tests.nvml.machines import Machine
from tests.nvml.stub import Play
from webhook.hardware.discovery.machine import discover
from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.matrix import format_matrix, matrix
from webhook.hardware.topology.model import NodeTopology, NvLink
from webhook.hardware.topology.nccl_file import format_nccl_topology
from webhook.hardware.topology.sets import assess
from webhook.words.errors import FormatError


@dataclass(frozen=True)
class Expected:
    """Of GPU0: its links, a GPU that it has links to, and GB/s to it with all links, without one and with few."""

    machine: Machine
    links: int
    peer: int
    whole: float
    one_down: float
    few: float
    """With links 10 and beyond down, of a DGX-1 links 3 and beyond."""
    state: str = "healthy"


LINKED = [
    Expected(machines.hgx_a100(), 12, 1, 240.0, 220.0, 200.0),
    Expected(machines.hgx_h100(), 18, 1, 370.8, 350.2, 206.0),
    Expected(machines.h20(), 18, 1, 370.8, 350.2, 206.0),
    Expected(machines.hgx_b200(), 18, 1, 721.8, 681.7, 401.0),
    Expected(machines.dgx1_v100(), 6, 3, 40.0, 20.0, 20.0),
    Expected(machines.a100_pcie_bridged(), 12, 1, 240.0, 220.0, 200.0),
    Expected(machines.gb200_tray(), 18, 1, 721.8, 681.7, 401.0),
    Expected(machines.hidden_switches(), 18, 1, 370.8, 350.2, 206.0),
]
ALL = [*LINKED, Expected(machines.l40s(), 0, 1, 24.0, 24.0, 24.0, "absent")]


def named(expected: Expected) -> str:
    return expected.machine.name


def seen(root: Path) -> NodeTopology:
    """What is discovered, after everything that is made of a topology was made of it."""
    found = discover(node="node-1", root=root)
    assert parse_topology(format_topology(found), source="itself") == found
    assert format_matrix(matrix(found))
    if found.gpus:
        assert faults(format_nccl_topology(found)) == []
        assert assess(found, [gpu.index for gpu in found.gpus]).gpus
    return found


@pytest.mark.parametrize("expected", ALL, ids=named)
def test_a_whole_machine(expected: Expected, play: Play) -> None:
    found = seen(play(expected.machine))
    assert found.gpus[0].active_links == expected.links
    assert Connections(found).direct(0, expected.peer).bandwidth == expected.whole
    assert node_health(found).state == expected.state


@pytest.mark.parametrize("expected", LINKED, ids=named)
def test_one_link_down(expected: Expected, play: Play) -> None:
    found = seen(play(expected.machine.with_links_down(0, 2)))
    assert found.gpus[0].active_links == expected.links - 1
    assert Connections(found).direct(0, expected.peer).bandwidth == expected.one_down
    assert node_health(found).state == "degraded"
    assert 0 in node_health(found).ailing


def links_seen(machine: Machine, play: Play) -> list[tuple[NvLink, ...]]:
    return [gpu.nvlinks for gpu in discover(node="node-1", root=play(machine)).gpus]


@pytest.mark.slow
@pytest.mark.parametrize("expected", LINKED, ids=named)
def test_links_that_are_not_there_change_nothing(expected: Expected, play: Play) -> None:
    for machine in (expected.machine, expected.machine.with_links_down(0, 2)):
        assert links_seen(machine.with_slots(36), play) == links_seen(machine, play)
        assert links_seen(machine.with_slots(36, p2p=True), play) == links_seen(machine, play)


@pytest.mark.slow
@pytest.mark.parametrize("expected", LINKED, ids=named)
def test_a_driver_that_does_not_count_its_links_changes_nothing(expected: Expected, play: Play) -> None:
    for machine in (expected.machine, expected.machine.with_links_down(0, 2)):
        assert links_seen(machine.without_link_count(), play) == links_seen(machine, play)


@pytest.mark.parametrize("expected", LINKED, ids=named)
def test_a_gpu_with_few_links(expected: Expected, play: Play) -> None:
    few = 3 if expected.links == 6 else 10
    found = seen(play(expected.machine.with_links_down(0, *range(few, expected.links))))
    assert found.gpus[0].active_links == few
    assert Connections(found).direct(0, expected.peer).bandwidth == expected.few
    assert node_health(found).state == "degraded"


@pytest.mark.parametrize("expected", ALL, ids=named)
def test_a_lost_gpu(expected: Expected, play: Play) -> None:
    found = seen(play(expected.machine.with_lost(expected.peer)))
    assert [gpu.index for gpu in found.lost] == [expected.peer]
    assert expected.peer not in [gpu.index for gpu in found.gpus]
    assert len(found.gpus) == len(expected.machine.cards) - 1
    assert f"GPU{expected.peer} cannot be reached: GPU is lost" in node_health(found).findings


@pytest.mark.parametrize("expected", ALL, ids=named)
def test_a_gpu_in_mig_mode(expected: Expected, play: Play) -> None:
    found = seen(play(expected.machine.with_mig(0)))
    assert found.gpus[0].mig_mode == "enabled"
    assert Connections(found).direct(0, expected.peer).links == 0
    assert found.gpus[0].pci_bus_id not in format_nccl_topology(found)


def test_no_gpu(play: Play) -> None:
    found = seen(play(machines.hgx_h100().without_gpus()))
    assert (found.gpus, found.lost) == ((), ())
    assert found.problem.startswith("the NVIDIA driver lists no GPU: ")
    assert node_health(found).state == "absent"
    with pytest.raises(FormatError, match="expected a GPU outside of MIG mode, found"):
        format_nccl_topology(found)


def test_no_driver(play: Play) -> None:
    machine = machines.hgx_h100()
    found = seen(play(machine.with_lines("error nvmlInitWithFlags 9")))
    assert (found.gpus, found.lost) == ((), ())
    assert found.problem.startswith("the NVIDIA driver is not loaded: ")
    assert [cpu.vendor for cpu in found.cpus] == [cpu.vendor for cpu in seen(play(machine)).cpus]
