"""A topology that cannot be true is refused, with the device that gives it away."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.hardware.topology.machines import MACHINES, bent, dgx1_v100, h20, l40s, without
from webhook.hardware.topology.consistency import checked
from webhook.hardware.topology.model import (
    NVSWITCH,
    UNKNOWN,
    C2c,
    Cpu,
    Fabric,
    Gpu,
    Nic,
    NodeTopology,
    NvLink,
    Pcie,
    PciSwitch,
)
from webhook.words.errors import FormatError

H20_NIC = h20().nics[1]


def nic(topology: NodeTopology, position: int, **changes: object) -> NodeTopology:
    nics = list(topology.nics)
    nics[position] = replace(nics[position], **changes)  # type: ignore[arg-type]  # a test names fields that exist
    return replace(topology, nics=tuple(nics))


def links(*bonds: tuple[str, int, int]) -> tuple[NvLink, ...]:
    return tuple(NvLink(target=target, count=count, active=active) for target, count, active in bonds)


def chained(count: int) -> NodeTopology:
    """A machine with one more switch above each switch, and one at the end that has so many above it."""
    ids = [f"0000:{bus:02x}:00.0" for bus in range(count + 1)]
    switches = [PciSwitch(pci_bus_id=one, parent=above) for one, above in zip(ids, ["", *ids], strict=False)]
    return replace(h20(), gpus=(), nics=(), switches=tuple(switches))


CONTRADICTIONS: dict[str, tuple[Callable[[], NodeTopology], str]] = {
    "an index twice": (lambda: bent(h20(), 4, index=3), 'expected each index of a GPU once, found "3 twice"'),
    "a UUID twice": (
        lambda: bent(h20(), 4, uuid=h20().gpus[0].uuid),
        'expected each UUID once, found "GPU-b0c5b618-67d0-f464-9905-e1fd41226305 twice"',
    ),
    "a bus id twice": (
        lambda: bent(h20(), 4, pci_bus_id="0000:0f:00.0"),
        'expected each bus id once, found "0000:0f:00.0 twice"',
    ),
    "a GPU on the bus id of a switch": (
        lambda: bent(h20(), 4, pci_bus_id="0000:0c:00.0"),
        'expected each bus id once, found "0000:0c:00.0 twice"',
    ),
    "a lost GPU that is there": (
        lambda: replace(without(h20(), 3), gpus=h20().gpus),
        'expected each index of a GPU once, found "3 twice"',
    ),
    "a NIC twice": (lambda: nic(h20(), 1, name="ibp14s0"), 'expected each NIC once, found "ibp14s0 twice"'),
    "a NUMA node twice": (
        lambda: replace(h20(), cpus=(Cpu(numa_node=1), Cpu(numa_node=1))),
        'expected each NUMA node once, found "1 twice"',
    ),
    "a bus id with a long domain": (
        lambda: bent(h20(), 4, pci_bus_id="00000000:87:00.0"),
        'expected PCI bus ids such as 0000:1b:00.0, found "00000000:87:00.0"',
    ),
    "a bus id in capitals": (
        lambda: bent(h20(), 6, pci_bus_id="0000:C4:00.0"),
        'expected PCI bus ids such as 0000:1b:00.0, found "0000:C4:00.0"',
    ),
    "a switch name that is no bus id": (
        lambda: replace(h20(), nvswitches=("fffffff:ffff:ff",)),
        'expected PCI bus ids such as 0000:1b:00.0, found "fffffff:ffff:ff"',
    ),
    "a UUID without end": (
        lambda: bent(h20(), 4, uuid="GPU-" * 33),
        'expected names and UUIDs of at most 128 characters, found "',
    ),
    "a NIC whose name does not end": (
        lambda: nic(h20(), 1, name="mlx5" * 33),
        'expected names and UUIDs of at most 128 characters, found "',
    ),
    "a node whose name does not end": (
        lambda: replace(h20(), node="n" * 254),
        'expected the name of a node, of at most 253 characters, found "',
    ),
    "a way back that is no path": (
        lambda: nic(nic(h20(), 0, distance=(("NIC1", "SYS"),)), 1, distance=(("NIC0", "S" * 5000),)),
        'path from NIC1 to NIC0: expected PIX or PXB or PHB or NODE or SYS, found "',
    ),
    "more switches above one another than a machine has": (
        lambda: chained(33),
        'above 0000:21:00.0: expected at most 32 PCIe switches, found "33"',
    ),
    "a link to nowhere": (
        lambda: bent(dgx1_v100(), 0, nvlinks=links(("GPU9", 1, 1))),
        'links of GPU0: expected another GPU, nvswitch or unknown, found "GPU9"',
    ),
    "a link to itself": (
        lambda: bent(dgx1_v100(), 0, nvlinks=links(("GPU0", 1, 1))),
        'links of GPU0: expected another GPU, nvswitch or unknown, found "GPU0"',
    ),
    "a link without its way back": (
        lambda: bent(dgx1_v100(), 1, nvlinks=links(("GPU2", 2, 2), ("GPU3", 1, 1), ("GPU5", 2, 2))),
        'links of GPU0: expected links back from GPU1, found "none"',
    ),
    "more active links than links": (
        lambda: bent(h20(), 2, nvlinks=links(("nvswitch", 18, 19))),
        'links of GPU2: expected 1 or more links, active ones among them, found "19/18"',
    ),
    "no links to a target": (
        lambda: bent(h20(), 2, nvlinks=links(("nvswitch", 0, 0))),
        'links of GPU2: expected 1 or more links, active ones among them, found "0/0"',
    ),
    "a target twice": (
        lambda: bent(h20(), 2, nvlinks=links(("nvswitch", 9, 9), ("nvswitch", 9, 9))),
        'links of GPU2: expected each target once, found "nvswitch twice"',
    ),
    "active links to an unknown target": (
        lambda: bent(h20(), 2, nvlinks=links((UNKNOWN, 2, 1))),
        'links of GPU2: expected no active links to an unknown target, found "1"',
    ),
    "a parent that is not there": (
        lambda: bent(h20(), 2, parent="0000:99:00.0"),
        'above GPU2: expected PCIe switches of the list, and a CPU at the top, found "0000:99:00.0"',
    ),
    "switches in a circle": (
        lambda: replace(
            l40s(),
            switches=(
                *l40s().switches[1:],
                PciSwitch(pci_bus_id="0000:1f:00.0", parent="0000:20:00.0"),
                PciSwitch(pci_bus_id="0000:20:00.0", parent="0000:1f:00.0"),
            ),
        ),
        'above GPU0: expected PCIe switches of the list, and a CPU at the top, found "0000:1f:00.0"',
    ),
    "a path word that is none": (
        lambda: nic(h20(), 0, distance=(("GPU0", "NEAR"),)),
        'path from NIC0 to GPU0: expected PIX or PXB or PHB or NODE or SYS, found "NEAR"',
    ),
    "a path to nowhere": (
        lambda: nic(h20(), 0, distance=(("GPU8", "PIX"),)),
        'path from NIC0: expected the label of another GPU or NIC, found "GPU8"',
    ),
    "a path that differs on the way back": (
        lambda: nic(h20(), 0, distance=(("NIC1", "PIX"),)),
        'path from NIC0 to NIC1: expected NODE, as on the way back, found "PIX"',
    ),
    "a fabric with more ailments than there are": (
        lambda: replace(h20(), fabric=Fabric(state="completed", ailments=("slow",) * 65)),
        'expected at most 64 ailments of the fabric, found "65"',
    ),
    "a figure of a GPU that is not there": (
        lambda: bent(h20(), 2, measured=(("GPU8", 370_000),)),
        'measured from GPU2: expected the label of another GPU, found "GPU8"',
    ),
    "a figure of a GPU and itself": (
        lambda: bent(h20(), 2, slower=(("GPU2", 370_000),)),
        'measured from GPU2: expected the label of another GPU, found "GPU2"',
    ),
    "a pair that is slower and is not": (
        lambda: bent(h20(), 2, measured=(("GPU1", 370_000),), slower=(("GPU1", 1),)),
        'measured from GPU2: expected each GPU once, found "GPU1 twice"',
    ),
    "a figure that no link has": (
        lambda: bent(h20(), 2, measured=(("GPU1", 10**7 + 1),)),
        'measured from GPU2 to GPU1: expected 1 to 10000000 MB/s, found "10000001"',
    ),
    "a PCIe link that cannot be": (
        lambda: bent(h20(), 2, pcie=Pcie(generation=0, width=16)),
        'GPU2: expected a PCIe link such as generation 5, width 16, found "0, 16"',
    ),
    "a compute capability that is none": (
        lambda: bent(h20(), 2, compute_capability="sm_90"),
        'GPU2: expected a compute capability such as 9.0, found "sm_90"',
    ),
    "a compute capability that no GPU with a driver has": (
        lambda: bent(h20(), 2, compute_capability="0.8"),
        'GPU2: expected a compute capability such as 9.0, found "0.8"',
    ),
    "C2C with a bandwidth that NCCL cannot read": (
        lambda: bent(h20(), 2, c2c=C2c(links=10, bandwidth_mbps=2**53)),
        "GPU2: expected C2C links with a bandwidth",
    ),
    "C2C without links": (
        lambda: bent(h20(), 2, c2c=C2c(links=0, bandwidth_mbps=1)),
        "GPU2: expected C2C links with a bandwidth",
    ),
    "a host bridge that is none": (
        lambda: bent(h20(), 2, root="pci0000:15"),
        'GPU2: expected a host bridge such as 0000:15, found "pci0000:15"',
    ),
    "a list of CPUs that is none": (
        lambda: bent(h20(), 2, cpu_affinity="all"),
        'GPU2: expected a list of CPUs such as 0-47,96-143, found "all"',
    ),
    "a list of CPUs that runs backwards": (
        lambda: replace(h20(), cpus=(Cpu(numa_node=0, affinity="7-3"),)),
        'NUMA node 0: expected a list of CPUs such as 0-47,96-143, found "7-3"',
    ),
    "more CPUs than exist": (
        lambda: replace(h20(), cpus=(Cpu(numa_node=0, affinity="0-99999999999"),)),
        'NUMA node 0: expected a list of CPUs such as 0-47,96-143, found "0-99999999999"',
    ),
    "a CPU vendor that breaks out of its attribute": (
        lambda: replace(h20(), cpus=(Cpu(numa_node=0, vendor='a" b="'),)),
        "NUMA node 0: expected a CPU vendor such as GenuineIntel",
    ),
    "a CPU model that NCCL cannot read": (
        lambda: replace(h20(), cpus=(Cpu(numa_node=0, family=6, model=2**31),)),
        'NUMA node 0: expected a CPU model of 65535 at most, found "2147483648"',
    ),
    "a CPU family that NCCL cannot read": (
        lambda: replace(h20(), cpus=(Cpu(numa_node=0, family=65_536, model=143),)),
        'NUMA node 0: expected a CPU family of 65535 at most, found "65536"',
    ),
    "an unknown architecture": (
        lambda: replace(h20(), cpus=(Cpu(numa_node=0, arch="aarch64"),)),
        'NUMA node 0: expected x86_64 or arm64 or ppc64, found "aarch64"',
    ),
    "too many GPUs": (
        lambda: NodeTopology(node="n", source="nvml", gpus=tuple(Gpu(index=index) for index in range(65))),
        'expected at most 64 GPUs, found "65"',
    ),
    "too many NICs": (
        lambda: replace(h20(), nics=tuple(Nic(name=f"mlx5_{number}") for number in range(129))),
        'expected at most 128 NICs, found "129"',
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_refused(name: str) -> None:
    topology, message = CONTRADICTIONS[name]
    with pytest.raises(FormatError) as refused:  # noqa: PT011 - the whole text is compared below
        checked(topology(), source="node")
    assert f"node: {message}" in str(refused.value)


def test_as_many_switches_above_one_another_as_are_allowed_are_no_contradiction() -> None:
    assert len(checked(chained(32), source="node").switches) == 33


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_that_exists_passes_unchanged(name: str) -> None:
    assert checked(MACHINES[name], source="node") == MACHINES[name]


def test_a_gpu_of_which_no_uuid_and_bus_id_is_known_passes() -> None:
    topology = NodeTopology(node="n", source="nvidia-smi", gpus=(Gpu(index=0), Gpu(index=1)))
    assert checked(topology, source="node") == topology


def below_switches(depth: int) -> NodeTopology:
    """A GPU with so many PCIe switches above it."""
    switches = tuple(
        PciSwitch(pci_bus_id=f"0000:{place:02x}:00.0", parent=f"0000:{place + 1:02x}:00.0" if place < depth else "")
        for place in range(1, depth + 1)
    )
    return NodeTopology(
        node="n", source="nvml", gpus=(Gpu(index=0, uuid="GPU-0", parent="0000:01:00.0"),), switches=switches
    )


def test_a_gpu_may_have_32_pcie_switches_above_it() -> None:
    assert checked(below_switches(32), source="it") == below_switches(32)


def test_more_pcie_switches_above_a_gpu_are_refused() -> None:
    with pytest.raises(FormatError, match='it: above GPU0: expected at most 32 PCIe switches, found "33"'):
        checked(below_switches(33), source="it")


def linked_to(targets: int) -> NodeTopology:
    """GPUs of which the first names so many targets."""
    others = tuple(
        Gpu(index=place, uuid=f"GPU-{place}", nvlinks=links(("GPU0", 1, 1))) for place in range(1, min(targets, 64))
    )
    named = [(f"GPU{place}", 1, 1) for place in range(1, targets + 1)]
    bonds = links(*named[: len(others)], (NVSWITCH, 1, 1), (UNKNOWN, 1, 0), *named[len(others) + 2 :])
    return NodeTopology(node="n", source="nvml", gpus=(Gpu(index=0, uuid="GPU-0", nvlinks=bonds), *others))


def test_a_gpu_may_have_links_to_all_others_to_switches_and_to_what_is_not_known() -> None:
    assert len(checked(linked_to(65), source="it").gpus[0].nvlinks) == 65


def test_links_to_more_than_there_can_be_are_refused() -> None:
    with pytest.raises(FormatError, match='it: links of GPU0: expected at most 65 targets, found "66"'):
        checked(linked_to(66), source="it")
