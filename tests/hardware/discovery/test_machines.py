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


def test_a_machine_seen_twice_is_the_same_although_nvml_was_ended_in_between(play: Play) -> None:
    root = play(machines.h20())
    assert discover(node="h20-node-1", root=root) == discover(node="h20-node-1", root=root)


def test_one_process_sees_one_machine_after_another_as_after_a_change_of_the_driver(play: Play) -> None:
    assert len(discover(node="n", root=play(machines.h20())).gpus) == 8
    assert len(discover(node="n", root=play(machines.gb200_tray())).gpus) == 4
    assert len(discover(node="n", root=play(machines.l40s())).gpus) == 8


def test_every_machine_that_was_typed_is_seen() -> None:
    assert sorted(make().name for make in machines.MACHINES.values()) == sorted(topologies.MACHINES)
