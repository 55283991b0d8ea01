"""What holds over every NVML, that of the stub and those of others: how NVML answers, and what is made of it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from ctypes import byref
from itertools import permutations
from typing import Any

import pynvml  # type: ignore[import-untyped]  # NVIDIA's bindings carry no types
import pytest

from tests.go_programs.run_apart import ROOT
from tests.hardware.topology.nccl_rules import faults
from tests.nvml.any_driver import AnyMachine
from webhook.hardware.discovery.field_values import read_fields
from webhook.hardware.discovery.machine import discover
from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.matrix import format_matrix, matrix
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.nccl_file import format_nccl_topology
from webhook.hardware.topology.sets import assess

pytestmark = pytest.mark.any_driver

LINK_COUNT, DATA_TX, NO_FIELD = 91, 138, 4711


@pytest.fixture
def seen(any_machine: AnyMachine) -> NodeTopology:
    return discover(node="node-1", root=any_machine.root)


@pytest.fixture
def handles(any_machine: AnyMachine) -> Iterator[list[Any]]:
    """The GPUs that answer, by their indices, with NVML started."""
    pynvml.nvmlInit()
    every = range(pynvml.nvmlDeviceGetCount())
    yield [pynvml.nvmlDeviceGetHandleByIndex(index) for index in every if index not in any_machine.lost]
    pynvml.nvmlShutdown()


# How NVML answers


@pytest.mark.slow
def test_nothing_answers_before_nvml_is_started(any_machine: AnyMachine) -> None:
    assert any_machine.environment
    with pytest.raises(pynvml.NVMLError, match="Uninitialized"):
        pynvml.nvmlDeviceGetCount()


def test_gpus_have_uuids_and_places_of_their_own(handles: list[Any]) -> None:
    assert len({pynvml.nvmlDeviceGetUUID(handle) for handle in handles}) == len(handles)
    assert len({pynvml.nvmlDeviceGetPciInfo(handle).busId for handle in handles}) == len(handles)


def test_bus_ids_have_the_layout_of_nvml(handles: list[Any]) -> None:
    for info in map(pynvml.nvmlDeviceGetPciInfo, handles):
        domain, bus, device = info.busId.removesuffix(".0").split(":")
        assert (int(domain, 16), int(bus, 16), int(device, 16)) == (info.domain, info.bus, info.device)


def test_memory_has_the_layout_of_nvml(handles: list[Any]) -> None:
    for memory in map(pynvml.nvmlDeviceGetMemoryInfo, handles):
        assert 2**30 < memory.total < 2**40
        assert 0 <= memory.used <= memory.total


def test_field_values_stand_in_the_order_of_the_question_with_an_error_each(handles: list[Any]) -> None:
    asked: list[int | tuple[int, int]] = [(DATA_TX, 1), LINK_COUNT, NO_FIELD, (DATA_TX, 0)]
    for handle in handles:
        found = read_fields(handle, asked)
        assert [(value.field, value.scope) for value in found] == [(DATA_TX, 1), (91, 0), (NO_FIELD, 0), (DATA_TX, 0)]
        assert (found[2].value, found[2].error != 0) == (None, True)


def test_nothing_asked_is_nothing_answered(handles: list[Any]) -> None:
    assert read_fields(handles[0], ()) == ()


def test_the_fabric_has_the_layout_of_nvml(handles: list[Any]) -> None:
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    said = answer(pynvml.nvmlDeviceGetGpuFabricInfoV, handles[0], byref(info))
    assert said in ("Not Supported", "Function Not Found") or info.state in range(4)


def test_a_link_beyond_the_last_is_no_link(handles: list[Any]) -> None:
    for call, arguments in (
        (pynvml.nvmlDeviceGetNvLinkState, ()),
        (pynvml.nvmlDeviceGetNvLinkCapability, (0,)),
        (pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, ()),
    ):
        with pytest.raises(pynvml.NVMLError, match=r"Invalid Argument|Not Supported"):
            call(handles[0], pynvml.NVML_NVLINK_MAX_LINKS, *arguments)


def test_no_more_links_are_up_than_the_driver_counts(any_machine: AnyMachine, handles: list[Any]) -> None:
    # Those that are down are in the count of NVIDIA's drivers, and in that of others not.
    gpus = discover(node="node-1", root=any_machine.root).gpus
    for handle, gpu in zip(handles, gpus, strict=True):
        (count,) = read_fields(handle, [LINK_COUNT])
        assert gpu.active_links <= (count.unsigned or 0)


def test_what_is_asked_about_two_gpus_is_the_same_in_both_directions(handles: list[Any]) -> None:
    for call, arguments in (
        (pynvml.nvmlDeviceGetTopologyCommonAncestor, ()),
        (pynvml.nvmlDeviceGetP2PStatus, (0,)),
    ):
        pairs = permutations(range(len(handles)), 2)
        said = {(one, other): answer(call, handles[one], handles[other], *arguments) for one, other in pairs}
        assert all(said[one, other] == said[other, one] for one, other in said)


def answer(call: Callable[..., Any], *arguments: Any) -> object:
    """What NVML says, or its error."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        return str(error)


# What is made of it


def test_every_gpu_is_found_or_lost(any_machine: AnyMachine, seen: NodeTopology, handles: list[Any]) -> None:
    assert [gpu.index for gpu in seen.lost] == list(any_machine.lost)
    assert {gpu.uuid for gpu in seen.gpus} == {pynvml.nvmlDeviceGetUUID(handle) for handle in handles}
    assert "contradicts itself" not in seen.problem


def test_a_machine_seen_twice_is_the_same_although_nvml_was_ended_in_between(
    any_machine: AnyMachine, seen: NodeTopology
) -> None:
    assert discover(node="node-1", root=any_machine.root) == seen


def test_the_topology_is_read_back_as_it_was_written(seen: NodeTopology) -> None:
    assert parse_topology(format_topology(seen), source="itself") == seen


def test_a_node_is_as_well_as_it_is_known_to_be(any_machine: AnyMachine, seen: NodeTopology) -> None:
    health = node_health(seen)
    assert health.state in any_machine.health, health.findings
    assert set(any_machine.lost) <= set(health.ailing)


def test_nccl_takes_the_file_that_is_written_for_it(seen: NodeTopology) -> None:
    assert faults(format_nccl_topology(seen)) == []


def test_every_gpu_stands_in_the_matrix(seen: NodeTopology) -> None:
    text = format_matrix(matrix(seen))
    assert all(gpu.label in text for gpu in seen.gpus)


def test_the_whole_node_is_a_set_that_can_be_assessed(seen: NodeTopology) -> None:
    indices = [gpu.index for gpu in seen.gpus]
    assert list(assess(seen, indices).gpus) == indices


def test_pairs_with_links_are_faster_than_those_without(seen: NodeTopology) -> None:
    connections = Connections(seen)
    found = [connections.direct(one.index, other.index) for one, other in permutations(seen.gpus, 2)]
    linked = [pair.bandwidth for pair in found if pair.links]
    others = [pair.bandwidth for pair in found if not pair.links]
    assert not linked or not others or min(linked) > max(others)
    assert bool(linked) == any(gpu.active_links for gpu in seen.gpus)


def test_facts_that_every_card_has_are_read(seen: NodeTopology) -> None:
    for gpu in seen.gpus:
        assert gpu.name
        assert gpu.memory_mib > 1024
        assert gpu.compute_capability
        assert gpu.pcie is not None
        assert gpu.mig_mode is not MigMode.ENABLED
    assert seen.driver_version
    assert seen.cuda_version


def test_gpus_are_found_in_sysfs_at_the_bus_ids_of_nvml(any_machine: AnyMachine, seen: NodeTopology) -> None:
    devices = any_machine.root / "sys" / "bus" / "pci" / "devices"
    known = {path.name for path in devices.iterdir()} if devices.exists() else set()
    assert {gpu.pci_bus_id for gpu in seen.gpus if gpu.root} == {gpu.pci_bus_id for gpu in seen.gpus} & known


@pytest.mark.slow
def test_a_process_of_its_own_finds_the_library_by_its_path(any_machine: AnyMachine, seen: NodeTopology) -> None:
    program = (
        "import sys; from pathlib import Path; from webhook.hardware.discovery.machine import discover; "
        "print(len(discover(node='n', root=Path(sys.argv[1])).gpus))"
    )
    command = [sys.executable, "-c", program, str(any_machine.root)]
    done = subprocess.run(command, env=any_machine.environment, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"{len(seen.gpus)}\n"
