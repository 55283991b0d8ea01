"""Pairs of GPUs, against what NCCL 2.30 computes for the same machines.

The types and GB/s come from NCCL's own topology code, run on descriptions of these machines.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from tests.hardware.topology.machines import (
    a100_pcie_bridged,
    bent,
    dgx1_v100,
    gb200_tray,
    h20,
    hgx_a100,
    hgx_b200,
    hgx_h100,
    hidden_switches,
    intel,
    l40s,
    with_switch_links,
)
from webhook.hardware.topology.connections import Connection, Connections
from webhook.hardware.topology.model import Cpu, Gpu, MigMode, Nic, NodeTopology, NvLink, Pcie, PciSwitch
from webhook.hardware.topology.pcie import PciePath, PcieTree, link_bandwidth, socket_bandwidth


def seen(topology: NodeTopology, one: int, other: int, members: Sequence[int] | None = None) -> str:
    """As NCCL prints it: ``NVL/370.8``."""
    everyone = [gpu.index for gpu in topology.gpus]
    connection = Connections(topology).within(one, other, everyone if members is None else members)
    return f"{connection.type}/{connection.bandwidth:g}"


def all_pairs(topology: NodeTopology) -> set[str]:
    return {seen(topology, *pair) for pair in permutations([gpu.index for gpu in topology.gpus], 2)}


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (hgx_h100(), {"NVL/370.8"}),
        (h20(), {"NVL/370.8"}),
        (hidden_switches(), {"NVL/370.8"}),
        (hgx_b200(), {"NVL/721.8"}),
        (gb200_tray(), {"NVL/721.8"}),
        (hgx_a100(), {"NVL/240"}),
        (dgx1_v100(), {"NVL/20", "NVL/40", "NVB/20", "NVB/40"}),
        (a100_pcie_bridged(), {"NVL/240", "SYS/10"}),
        (l40s(), {"PIX/24", "PHB/24", "SYS/22"}),
    ],
    ids=lambda value: value.node if isinstance(value, NodeTopology) else "",
)
def test_all_pairs_of_a_machine_are_as_nccl_sees_them(topology: NodeTopology, expected: set[str]) -> None:
    assert all_pairs(topology) == expected


def without_links(topology: NodeTopology) -> NodeTopology:
    return replace(topology, gpus=tuple(replace(gpu, nvlinks=()) for gpu in topology.gpus))


def with_cpus(topology: NodeTopology, **kind: object) -> NodeTopology:
    cpus = tuple(replace(cpu, **kind) for cpu in topology.cpus)  # type: ignore[arg-type]  # fields that exist
    return replace(topology, cpus=cpus)


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (without_links(hgx_h100()), {"PHB/48", "SYS/22"}),
        (without_links(hgx_a100()), {"PIX/24", "SYS/16"}),
        (without_links(gb200_tray()), {"C2C/447.12", "SYS/6"}),
        (with_cpus(l40s(), vendor="AuthenticAMD"), {"PIX/24", "PHB/24", "SYS/16"}),
        (with_cpus(l40s(), model=106), {"PIX/24", "PHB/24", "SYS/10"}),
        (with_cpus(l40s(), model=207), {"PIX/24", "PHB/24", "SYS/24"}),
    ],
    ids=["h100", "a100", "gb200", "l40s on AMD", "l40s on Ice Lake", "l40s on Emerald Rapids"],
)
def test_without_nvlink_pcie_remains(topology: NodeTopology, expected: set[str]) -> None:
    assert all_pairs(topology) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [([0, 3], "NVL/40"), ([0, 1], "NVL/20"), ([0, 5], "SYS/6"), ([0, 4], "NVL/40"), ([0, 2], "NVL/20")],
)
def test_a_pair_of_a_cube_mesh_has_what_its_own_links_carry(members: list[int], expected: str) -> None:
    assert seen(dgx1_v100(), members[0], members[1], members) == expected


def test_a_gpu_outside_of_the_job_bridges_nothing() -> None:
    assert seen(dgx1_v100(), 0, 7, [0, 1, 7]) == "SYS/6"


def test_a_degraded_gpu_slows_down_only_its_own_pairs() -> None:
    topology = with_switch_links(hgx_h100(), 2, 10)
    assert {seen(topology, 2, other) for other in range(8) if other != 2} == {"NVL/206"}
    assert {seen(topology, *pair) for pair in permutations([0, 1, 3, 4, 5, 6, 7], 2)} == {"NVL/370.8"}


def test_direct_links_count_in_each_direction_by_themselves() -> None:
    topology = bent(a100_pcie_bridged(), 1, nvlinks=(NvLink(target="GPU0", count=12, active=6),))
    assert seen(topology, 0, 1) == "NVL/240"
    assert seen(topology, 1, 0) == "NVL/120"


def test_a_link_that_one_side_calls_down_carries_nothing() -> None:
    topology = bent(a100_pcie_bridged(), 1, nvlinks=(NvLink(target="GPU0", count=12, active=0),))
    assert seen(topology, 0, 1) == "PHB/24"


def test_a_gpu_in_mig_mode_has_no_nvlink() -> None:
    topology = bent(hgx_h100(), 1, mig_mode=MigMode.ENABLED)
    assert seen(topology, 0, 1) == "PHB/48"
    assert seen(topology, 0, 2) == "NVL/370.8"


@pytest.mark.parametrize(
    ("capability", "count", "expected"),
    [
        ("6.0", 4, 72.0),
        ("7.0", 6, 120.0),
        ("7.5", 2, 40.0),
        ("8.0", 12, 240.0),
        ("8.6", 4, 48.0),
        ("8.7", 2, 40.0),
        ("9.0", 18, 370.8),
        ("10.0", 18, 721.8),
        ("10.3", 18, 721.8),
        ("", 18, 370.8),
        ("", 12, 240.0),
        ("", 6, 120.0),
        ("", 4, 48.0),
    ],
)
def test_the_generation_and_the_links_make_the_bandwidth(capability: str, count: int, expected: float) -> None:
    gpus = tuple(
        Gpu(
            index=index,
            compute_capability=capability,
            nvlinks=(NvLink(target=f"GPU{1 - index}", count=count, active=count),),
        )
        for index in range(2)
    )
    assert Connections(NodeTopology(node="n", source="nvml", gpus=gpus)).direct(0, 1) == Connection(
        type=Connections(a100_pcie_bridged()).direct(0, 1).type, bandwidth=expected, links=count, pcie=PciePath.SYS
    )


def test_the_word_is_that_of_nvidia_smi() -> None:
    connections = Connections(dgx1_v100())
    words = [connections.direct(0, other).word for other in range(1, 8)]
    assert words == ["NV1", "NV1", "NV2", "NV2", "SYS", "SYS", "SYS"]
    assert Connections(with_switch_links(hgx_h100(), 2, 10)).direct(0, 2).word == "NV10"
    assert Connections(without_links(hgx_h100())).direct(0, 1).word == "NODE"


@pytest.mark.parametrize(
    ("pcie", "expected"),
    [
        (Pcie(generation=1, width=16), 3.0),
        (Pcie(generation=3, width=16), 12.0),
        (Pcie(generation=4, width=16), 24.0),
        (Pcie(generation=5, width=16), 48.0),
        (Pcie(generation=6, width=16), 96.0),
        (Pcie(generation=7, width=16), 96.0),
        (Pcie(generation=4, width=8), 12.0),
        (None, 12.0),
    ],
)
def test_a_pcie_link_carries_what_nccl_reckons(pcie: Pcie | None, expected: float) -> None:
    assert link_bandwidth(pcie) == expected


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        (Cpu(numa_node=0, vendor="AuthenticAMD", family=25, model=1), 16.0),
        (Cpu(numa_node=0, vendor="GenuineIntel", family=6, model=207), 40.0),
        (Cpu(numa_node=0, vendor="GenuineIntel", family=6, model=143), 22.0),
        (Cpu(numa_node=0, vendor="GenuineIntel", family=6, model=106), 10.0),
        (Cpu(numa_node=0, vendor="GenuineIntel", family=6, model=79), 6.0),
        (Cpu(numa_node=0, arch="arm64"), 6.0),
        (Cpu(numa_node=0, arch="ppc64"), 32.0),
        (Cpu(numa_node=0, vendor="CentaurHauls"), 6.0),
        (Cpu(numa_node=0, vendor="HygonGenuine"), 6.0),
    ],
    ids=lambda value: f"{value.vendor or value.arch} {value.model}" if isinstance(value, Cpu) else "",
)
def test_the_first_cpu_limits_what_goes_between_sockets(cpu: Cpu, expected: float) -> None:
    assert socket_bandwidth(NodeTopology(node="n", source="nvml", cpus=(cpu,))) == expected


def test_nothing_is_promised_about_a_cpu_that_nobody_named() -> None:
    assert socket_bandwidth(NodeTopology(node="n", source="hami")) == 6.0


def test_paths_follow_the_tree() -> None:
    inner = PciSwitch(pci_bus_id="0000:03:00.0", parent="0000:01:00.0", root="0000:00", numa_node=0)
    outer = PciSwitch(pci_bus_id="0000:01:00.0", root="0000:00", numa_node=0, pcie=Pcie(generation=4, width=8))
    below_inner, beside, above, elsewhere, far = (
        Gpu(index=0, parent=inner.pci_bus_id, root="0000:00", numa_node=0),
        Gpu(index=1, parent=inner.pci_bus_id, root="0000:00", numa_node=0),
        Gpu(index=2, parent=outer.pci_bus_id, root="0000:00", numa_node=0),
        Gpu(index=3, root="0000:40", numa_node=0),
        Gpu(index=4, root="0000:80", numa_node=1),
    )
    same_bridge = Gpu(index=5, root="0000:00", numa_node=0)
    gpus = (below_inner, beside, above, elsewhere, far, same_bridge)
    tree = PcieTree(NodeTopology(node="n", source="nvml", gpus=gpus, switches=(inner, outer), cpus=intel(143, "", "")))
    words = [tree.path(below_inner, other).value for other in gpus[1:]]
    assert words == ["PIX", "PXB", "NODE", "SYS", "PHB"]
    assert [tree.path(other, below_inner).value for other in gpus[1:]] == words
    # below one switch its uplink does not matter, beyond it does
    assert tree.bandwidth(below_inner, beside) == 12.0
    assert tree.bandwidth(above, same_bridge) == 12.0
    assert tree.bandwidth(below_inner, far) == 12.0


def test_both_ports_of_a_nic_are_as_near_as_below_one_switch() -> None:
    nics = (
        Nic(name="mlx5_0", pci_bus_id="0000:41:00.0", root="0000:40", numa_node=0),
        Nic(name="mlx5_1", pci_bus_id="0000:41:00.1", root="0000:40", numa_node=0),
        Nic(name="mlx5_2", pci_bus_id="0000:42:00.0", root="0000:40", numa_node=0),
    )
    tree = PcieTree(NodeTopology(node="n", source="nvml", nics=nics))
    assert tree.path(nics[0], nics[1]) is PciePath.PIX
    assert tree.path(nics[1], nics[2]) is PciePath.PHB


def test_a_narrow_uplink_limits_what_leaves_the_switch() -> None:
    narrow = PciSwitch(pci_bus_id="0000:1f:00.0", root="0000:1e", numa_node=0, pcie=Pcie(generation=4, width=4))
    topology = replace(l40s(), switches=(narrow, *l40s().switches[1:]))
    assert seen(topology, 0, 1) == "PIX/24"
    assert seen(topology, 0, 2) == "PHB/6"


def test_where_the_tree_is_unknown_the_source_is_believed() -> None:
    gpus = (
        Gpu(index=0, distance=(("GPU1", "PXB"),), numa_node=0),
        Gpu(index=1, numa_node=0),
        Gpu(index=2, numa_node=0),
        Gpu(index=3, numa_node=1),
    )
    tree = PcieTree(NodeTopology(node="n", source="nvidia-smi", gpus=gpus))
    assert tree.path(gpus[0], gpus[1]) is PciePath.PXB
    assert tree.path(gpus[1], gpus[0]) is PciePath.PXB
    assert tree.path(gpus[0], gpus[2]) is PciePath.NODE
    assert tree.path(gpus[0], gpus[3]) is PciePath.SYS
