"""Each machine, read through the real bindings and its files, is the topology that was typed by hand."""

import pytest

from tests.hardware.topology import machines as topologies
from tests.nvml import machines
from tests.nvml.stub import Play
from webhook.hardware.discovery.machine import discover
from webhook.hardware.topology.document import format_topology, parse_topology


@pytest.mark.parametrize("name", machines.MACHINES)
def test_a_machine_is_seen_as_it_is(name: str, play: Play) -> None:
    machine = machines.MACHINES[name]()
    found = discover(node=machine.name, root=play(machine))
    assert found == topologies.MACHINES[machine.name]
    assert parse_topology(format_topology(found), source="itself") == found


def test_one_process_sees_one_machine_after_another_as_after_a_change_of_the_driver(play: Play) -> None:
    assert len(discover(node="n", root=play(machines.h20())).gpus) == 8
    assert len(discover(node="n", root=play(machines.gb200_tray())).gpus) == 4
    assert len(discover(node="n", root=play(machines.l40s())).gpus) == 8
