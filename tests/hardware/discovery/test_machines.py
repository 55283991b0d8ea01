"""Each machine, read through the real bindings and its files, is the topology that somebody else typed."""

import pytest

from tests.nvml import machines
from tests.nvml.machines import Machine
from tests.nvml.stub import Play
from tests.topology import machines as topologies
from webhook.discovery.discover import discover
from webhook.topology.document import format_topology, parse_topology
from webhook.topology.model import NodeTopology

KNOWN = [
    (machines.hgx_a100(), topologies.hgx_a100()),
    (machines.hgx_h100(), topologies.hgx_h100()),
    (machines.h20(), topologies.h20()),
    (machines.hgx_b200(), topologies.hgx_b200()),
    (machines.dgx1_v100(), topologies.dgx1_v100()),
    (machines.a100_pcie_bridged(), topologies.a100_pcie_bridged()),
    (machines.l40s(), topologies.l40s()),
    (machines.gb200_tray(), topologies.gb200_tray()),
    (machines.hidden_switches(), topologies.hidden_switches()),
]


@pytest.mark.parametrize(("machine", "expected"), KNOWN, ids=[machine.name for machine, _ in KNOWN])
def test_a_machine_is_seen_as_it_is(machine: Machine, expected: NodeTopology, play: Play) -> None:
    found = discover(node=machine.name, root=play(machine))
    assert found == expected
    assert parse_topology(format_topology(found), source="itself") == found


def test_a_machine_seen_twice_is_the_same_although_nvml_was_ended_in_between(play: Play) -> None:
    root = play(machines.h20())
    assert discover(node="h20-node-1", root=root) == discover(node="h20-node-1", root=root)


def test_one_process_sees_one_machine_after_another_as_after_a_change_of_the_driver(play: Play) -> None:
    assert len(discover(node="n", root=play(machines.h20())).gpus) == 8
    assert len(discover(node="n", root=play(machines.gb200_tray())).gpus) == 4
    assert len(discover(node="n", root=play(machines.l40s())).gpus) == 8
