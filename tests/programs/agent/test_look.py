"""What a look at a node keeps of the topology before."""

from dataclasses import replace

import pytest

from tests.hardware.topology.machines import a100_pcie_bridged, hgx_h100
from webhook.hardware.topology.health import HealthState, node_health
from webhook.hardware.topology.model import UNKNOWN, Gpu, LostGpu, MigMode, NodeTopology, NvLink
from webhook.programs.agent.look import with_known_ends


def dark(topology: NodeTopology, index: int) -> NodeTopology:
    """The topology in which one GPU has no link up, and NVML does not say where its links led."""
    count = sum(link.count for link in topology.gpus[index].nvlinks)
    return with_gpu(topology, index, nvlinks=(NvLink(target=UNKNOWN, count=count, active=0),))


def with_gpu(topology: NodeTopology, index: int, **changes: object) -> NodeTopology:
    gpus: list[Gpu] = [*topology.gpus]
    gpus[index] = replace(gpus[index], **changes)  # type: ignore[arg-type]  # fields of a GPU
    return replace(topology, gpus=tuple(gpus))


@pytest.mark.parametrize("machine", [a100_pcie_bridged(), hgx_h100()], ids=["bridges", "switches"])
def test_links_that_were_up_before_are_down_with_their_other_end(machine: NodeTopology) -> None:
    found = with_known_ends(dark(machine, 1), machine)
    (link,) = found.gpus[1].nvlinks
    (before,) = machine.gpus[1].nvlinks
    assert link == replace(before, active=0)
    assert node_health(found).state is HealthState.DEGRADED
    assert 1 in node_health(found).ailing


def test_they_stay_down_in_the_rounds_that_follow() -> None:
    machine = a100_pcie_bridged()
    once = with_known_ends(dark(machine, 1), machine)
    assert with_known_ends(dark(machine, 1), once) == once


def test_links_that_were_never_up_and_links_that_are_up_change_nothing() -> None:
    machine = a100_pcie_bridged()
    now = dark(machine, 1)
    assert with_known_ends(now, None) is now
    assert with_known_ends(now, now) is now
    assert with_known_ends(machine, now) is machine


def test_links_to_a_gpu_that_is_gone_lost_or_in_mig_mode_are_no_fault() -> None:
    machine = a100_pcie_bridged()
    now = dark(machine, 1)
    gone = replace(now, gpus=now.gpus[1:])
    lost = replace(gone, lost=(LostGpu(index=0, problem="GPU is lost", uuid=now.gpus[0].uuid),))
    mig = with_gpu(now, 0, mig_mode=MigMode.ENABLED, nvlinks=())
    for after in (gone, lost, mig):
        assert with_known_ends(after, machine) is after


def test_another_gpu_at_the_same_index_is_no_other_end() -> None:
    machine = a100_pcie_bridged()
    now = with_gpu(dark(machine, 1), 0, uuid="GPU-another")
    assert with_known_ends(now, machine) is now
