"""Machines whose links are known, as topologies typed by hand; a test bends one property of one of them.

This is the only place where they are typed: ``tests/nvml/machines.py`` makes of each what a driver and a kernel show.

PCI buses, NUMA nodes and link counts follow public dumps and vendors' diagrams; what lies between (switch ports, host
bridges) is made up and plausible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.hardware.topology.model import (
    NVSWITCH,
    C2c,
    Cpu,
    Fabric,
    Gpu,
    LostGpu,
    MigMode,
    Nic,
    NodeTopology,
    NvLink,
    Pcie,
    PciSwitch,
)

GEN3 = Pcie(generation=3, width=16)
GEN4 = Pcie(generation=4, width=16)
GEN5 = Pcie(generation=5, width=16)
DRIVER, CUDA = "570.133.20", "12.8"

H20_UUIDS = (
    "GPU-b0c5b618-67d0-f464-9905-e1fd41226305",
    "GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6",
    "GPU-4650fca3-dbba-f168-d6bd-338a4ba8f044",
    "GPU-9648f14e-6ab2-46f0-221f-777f7652630b",
    "GPU-f055d080-1808-96f1-1c87-70fad19d9040",
    "GPU-1c7e92d4-3fa8-5b06-8e41-6d20c9b7f35a",
    "GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8",
    "GPU-5af40c3e-917b-d82c-f6a5-b1e8372d0946",
)


def uuid(index: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{index:012d}"


def intel(model: int, *affinities: str) -> tuple[Cpu, ...]:
    return tuple(
        Cpu(numa_node=node, affinity=cpus, vendor="GenuineIntel", family=6, model=model)
        for node, cpus in enumerate(affinities)
    )


def to_switch(links: int) -> tuple[NvLink, ...]:
    return (NvLink(target=NVSWITCH, count=links, active=links),)


def distance(words: str, *, gpus: int) -> tuple[tuple[str, str], ...]:
    """A row of the matrix: words for the GPUs, then for the NICs; X is the NIC itself."""
    labels = [f"GPU{index}" if index < gpus else f"NIC{index - gpus}" for index in range(99)]
    return tuple((label, word) for label, word in zip(labels, words.split(), strict=False) if word != "X")


def gpus_of(
    buses: str,
    roots: str,
    cpus: tuple[Cpu, ...],
    *,
    above: str = "",
    numa: Sequence[int] = (),
    mig_mode: MigMode = MigMode.DISABLED,
    links: Sequence[tuple[NvLink, ...]] = (),
    **common: Any,
) -> tuple[Gpu, ...]:
    """GPUs by their PCI buses, host bridges and the switches above them, half of them on each of two NUMA nodes."""
    parents, count = above.split(), len(buses.split())
    return tuple(
        Gpu(
            index=index,
            uuid=uuid(index),
            minor=index,
            pci_bus_id=f"0000:{bus}:00.0",
            numa_node=(node := numa[index] if numa else index * 2 // count),
            cpu_affinity=cpus[node].affinity,
            mig_mode=mig_mode,
            nvlinks=links[index] if links else (),
            parent=f"0000:{parents[index]}:00.0" if parents else "",
            root=f"0000:{root}",
            **common,
        )
        for index, (bus, root) in enumerate(zip(buses.split(), roots.split(), strict=True))
    )


def nics_of(buses: str, beside: Sequence[Gpu], near: Sequence[str], speed_gbps: int, gpus: int = 8) -> tuple[Nic, ...]:
    """InfiniBand NICs, each below the switch of a GPU."""
    return tuple(
        Nic(
            name=f"mlx5_{number}",
            pci_bus_id=f"0000:{bus}:00.0",
            numa_node=gpu.numa_node,
            link_layer="InfiniBand",
            speed_gbps=speed_gbps,
            pcie=gpu.pcie,
            parent=gpu.parent,
            root=gpu.root,
            distance=distance(words, gpus=gpus),
        )
        for number, (bus, gpu, words) in enumerate(zip(buses.split(), beside, near, strict=True))
    )


def machine(node: str, gpus: tuple[Gpu, ...], cpus: tuple[Cpu, ...], nvswitches: str = "", **rest: Any) -> NodeTopology:
    """A machine as NVML and sysfs tell it, with the switches above its GPUs."""
    switches = {
        gpu.parent: PciSwitch(pci_bus_id=gpu.parent, root=gpu.root, numa_node=gpu.numa_node, pcie=gpu.pcie)
        for gpu in gpus
        if gpu.parent
    }
    return NodeTopology(
        node=node,
        source="nvml",
        driver_version=DRIVER,
        cuda_version=CUDA,
        gpus=gpus,
        nvswitches=tuple(f"0000:{bus}:00.0" for bus in nvswitches.split()),
        switches=tuple(switches.values()),
        cpus=cpus,
        **rest,
    )


COMPLETED = Fabric(state="completed", status="success")


def hgx_a100() -> NodeTopology:
    """Two GPUs and a NIC below each PCIe switch; AMD with four NUMA nodes on each socket."""
    cpus = tuple(
        Cpu(
            numa_node=node,
            affinity=f"{node * 16}-{node * 16 + 15},{128 + node * 16}-{143 + node * 16}",
            vendor="AuthenticAMD",
            family=23,
            model=49,
        )
        for node in range(8)
    )
    gpus = gpus_of(
        "07 0f 47 4e 87 90 b7 bd",
        "01 01 41 41 81 81 b1 b1",
        cpus,
        above="02 02 42 42 82 82 b2 b2",
        numa=(3, 3, 1, 1, 7, 7, 5, 5),
        links=[to_switch(12)] * 8,
        name="NVIDIA A100-SXM4-80GB",
        compute_capability="8.0",
        memory_mib=81920,
        pcie=GEN4,
    )
    near = [
        "PIX PIX SYS SYS SYS SYS SYS SYS X SYS SYS SYS",
        "SYS SYS PIX PIX SYS SYS SYS SYS SYS X SYS SYS",
        "SYS SYS SYS SYS PIX PIX SYS SYS SYS SYS X SYS",
        "SYS SYS SYS SYS SYS SYS PIX PIX SYS SYS SYS X",
    ]
    nics = nics_of("0c 4b 8d ba", gpus[::2], near, 200)
    return machine("hgx-a100", gpus, cpus, "c4 c5 c6 c7 c8 c9", nics=nics)


def eight_on_switches(name: str, capability: str, memory: int, cpus: tuple[Cpu, ...]) -> tuple[Gpu, ...]:
    """Eight GPUs with 18 links to the NVSwitches, each below a PCIe switch and host bridge of its own."""
    return gpus_of(
        "1b 43 52 61 9d c3 d1 df",
        "18 40 4f 5e 9a c0 ce dc",
        cpus,
        above="19 41 50 5f 9b c1 cf dd",
        links=[to_switch(18)] * 8,
        name=name,
        compute_capability=capability,
        memory_mib=memory,
        pcie=GEN5,
    )


def hgx_h100() -> NodeTopology:
    """A NIC beside each GPU, below the same PCIe switch."""
    cpus = intel(143, "0-47,96-143", "48-95,144-191")
    gpus = eight_on_switches("NVIDIA H100 80GB HBM3", "9.0", 81559, cpus)
    near = [
        "PIX NODE NODE NODE SYS SYS SYS SYS X NODE NODE NODE SYS SYS SYS SYS",
        "NODE PIX NODE NODE SYS SYS SYS SYS NODE X NODE NODE SYS SYS SYS SYS",
        "NODE NODE PIX NODE SYS SYS SYS SYS NODE NODE X NODE SYS SYS SYS SYS",
        "NODE NODE NODE PIX SYS SYS SYS SYS NODE NODE NODE X SYS SYS SYS SYS",
        "SYS SYS SYS SYS PIX NODE NODE NODE SYS SYS SYS SYS X NODE NODE NODE",
        "SYS SYS SYS SYS NODE PIX NODE NODE SYS SYS SYS SYS NODE X NODE NODE",
        "SYS SYS SYS SYS NODE NODE PIX NODE SYS SYS SYS SYS NODE NODE X NODE",
        "SYS SYS SYS SYS NODE NODE NODE PIX SYS SYS SYS SYS NODE NODE NODE X",
    ]
    nics = nics_of("1c 44 53 62 9e c4 d2 e0", gpus, near, 400)
    return machine("hgx-h100", gpus, cpus, "07 08 09 0a", fabric=COMPLETED, nics=nics)


def h20() -> NodeTopology:
    """The example node: four NICs beside GPUs, one below a root port of its own."""
    cpus = intel(143, "0-47,96-143", "48-95,144-191")
    gpus = gpus_of(
        "0f 2d 48 5a 87 ae c4 d7",
        "0b 2a 44 57 83 ab c0 d4",
        cpus,
        above="0c 2b 45 58 84 ac c1 d5",
        links=[to_switch(18)] * 8,
        name="NVIDIA H20",
        compute_capability="9.0",
        memory_mib=97871,
        pcie=GEN5,
    )
    gpus = tuple(replace(gpu, uuid=one) for gpu, one in zip(gpus, H20_UUIDS, strict=True))
    near = [
        "PIX NODE NODE NODE SYS SYS SYS SYS X NODE SYS SYS NODE",
        "NODE NODE PIX NODE SYS SYS SYS SYS NODE X SYS SYS NODE",
        "SYS SYS SYS SYS PIX NODE NODE NODE SYS SYS X NODE SYS",
        "SYS SYS SYS SYS NODE NODE PIX NODE SYS SYS NODE X SYS",
        "NODE NODE NODE NODE SYS SYS SYS SYS NODE NODE SYS SYS X",
    ]
    alone = replace(gpus[0], parent="", root="0000:1f")
    names = ("ibp14s0", "ibp71s0", "ibp134s0", "ibp195s0", "rocep32s0f0")
    nics = nics_of("0e 47 86 c3 20", (*gpus[::2], alone), near, 200)
    nics = tuple(replace(nic, name=name, pcie=GEN4) for nic, name in zip(nics, names, strict=True))
    nics = (*nics[:4], replace(nics[4], link_layer="Ethernet"))
    return machine("h20-node-1", gpus, cpus, "07 08 09 0a", fabric=COMPLETED, nics=nics)


def hgx_b200() -> NodeTopology:
    cpus = intel(207, "0-55,112-167", "56-111,168-223")
    gpus = eight_on_switches("NVIDIA B200", "10.0", 183359, cpus)
    return machine("hgx-b200", gpus, cpus, "07 08", fabric=COMPLETED)


CUBE_MESH = {
    0: {1: 1, 2: 1, 3: 2, 4: 2},
    1: {0: 1, 2: 2, 3: 1, 5: 2},
    2: {0: 1, 1: 2, 3: 2, 6: 1},
    3: {0: 2, 1: 1, 2: 2, 7: 1},
    4: {0: 2, 5: 1, 6: 1, 7: 2},
    5: {1: 2, 4: 1, 6: 2, 7: 1},
    6: {2: 1, 4: 1, 5: 2, 7: 2},
    7: {3: 1, 4: 2, 5: 1, 6: 2},
}
"""Links between the GPUs of a DGX-1 with V100, six for each."""


def to_gpus(peers: Mapping[int, int]) -> tuple[NvLink, ...]:
    return tuple(NvLink(target=f"GPU{peer}", count=count, active=count) for peer, count in peers.items())


def dgx1_v100() -> NodeTopology:
    """A hybrid cube mesh; two GPUs and a NIC below each PCIe switch, two switches below each host bridge."""
    cpus = intel(79, "0-19,40-59", "20-39,60-79")
    gpus = gpus_of(
        "06 07 0a 0b 85 86 89 8a",
        "00 00 00 00 80 80 80 80",
        cpus,
        above="02 02 08 08 81 81 87 87",
        mig_mode=MigMode.UNSUPPORTED,
        links=[to_gpus(peers) for peers in CUBE_MESH.values()],
        name="Tesla V100-SXM2-32GB",
        compute_capability="7.0",
        memory_mib=32768,
        pcie=GEN3,
    )
    near = [
        "PIX PIX PHB PHB SYS SYS SYS SYS X PHB SYS SYS",
        "PHB PHB PIX PIX SYS SYS SYS SYS PHB X SYS SYS",
        "SYS SYS SYS SYS PIX PIX PHB PHB SYS SYS X PHB",
        "SYS SYS SYS SYS PHB PHB PIX PIX SYS SYS PHB X",
    ]
    return machine("dgx1-v100", gpus, cpus, nics=nics_of("05 0c 84 8b", gpus[::2], near, 100))


def a100_pcie_bridged() -> NodeTopology:
    """Bridges join 0 to 1 and 2 to 3; each GPU has a root port to itself."""
    cpus = intel(106, "0-27,56-83", "28-55,84-111")
    gpus = gpus_of(
        "17 65 ca e3",
        "16 64 c9 e2",
        cpus,
        links=[to_gpus({peer: 12}) for peer in (1, 0, 3, 2)],
        name="NVIDIA A100 80GB PCIe",
        compute_capability="8.0",
        memory_mib=81920,
        pcie=GEN4,
    )
    return machine("a100-pcie", gpus, cpus)


def l40s() -> NodeTopology:
    """No NVLink; two GPUs below each PCIe switch."""
    cpus = intel(143, "0-31,64-95", "32-63,96-127")
    gpus = gpus_of(
        "21 22 41 42 a1 a2 c1 c2",
        "1e 1e 3e 3e 9e 9e be be",
        cpus,
        above="1f 1f 3f 3f 9f 9f bf bf",
        mig_mode=MigMode.UNSUPPORTED,
        name="NVIDIA L40S",
        compute_capability="8.9",
        memory_mib=46068,
        pcie=GEN4,
    )
    return machine("l40s", gpus, cpus)


def gb200_tray() -> NodeTopology:
    """Arm; each GPU in a PCI domain of its own, joined to its CPU by C2C, its switches in other trays."""
    cpus = tuple(Cpu(numa_node=node, affinity=f"{node * 72}-{node * 72 + 71}", arch="arm64") for node in range(2))
    gpus = gpus_of(
        "01 01 01 01",
        "00 00 00 00",
        cpus,
        links=[to_switch(18)] * 4,
        name="NVIDIA GB200",
        compute_capability="10.0",
        memory_mib=189471,
        c2c=C2c(links=10, bandwidth_mbps=44712),
        pcie=GEN5,
    )
    cluster = "5e3a91c4-70d2-4b6f-8f15-c2a9d4e60b37"
    fabric = replace(COMPLETED, cluster_uuid=cluster, clique_id=7)
    return machine("gb200-tray", in_domains(gpus, "0008 0009 0018 0019"), cpus, fabric=fabric)


def in_domains(gpus: tuple[Gpu, ...], domains: str) -> tuple[Gpu, ...]:
    """The GPUs, each in a PCI domain of its own."""
    return tuple(
        replace(gpu, pci_bus_id=f"{domain}{gpu.pci_bus_id[4:]}", root=f"{domain}{gpu.root[4:]}")
        for gpu, domain in zip(gpus, domains.split(), strict=True)
    )


def hidden_switches() -> NodeTopology:
    """A virtual machine with eight H100: each GPU in a PCI domain of its own, no NUMA node, no name for a switch."""
    cpus = intel(143, "0-47", "48-95")
    seen = in_domains(hgx_h100().gpus, " ".join(f"000{number}" for number in range(1, 9)))
    gpus = tuple(
        replace(gpu, pci_bus_id=f"{gpu.root[:4]}:00:00.0", root=f"{gpu.root[:4]}:00", parent="", numa_node=None)
        for gpu in seen
    )
    return machine("h100-vm", tuple(replace(gpu, cpu_affinity="0-95") for gpu in gpus), cpus, fabric=COMPLETED)


MACHINES = {
    topology.node: topology
    for topology in (
        hgx_a100(),
        hgx_h100(),
        h20(),
        hgx_b200(),
        dgx1_v100(),
        a100_pcie_bridged(),
        l40s(),
        gb200_tray(),
        hidden_switches(),
    )
}


def bent(topology: NodeTopology, index: int, /, **changes: Any) -> NodeTopology:
    """The topology with other properties of one GPU."""
    gpus = tuple(replace(gpu, **changes) if gpu.index == index else gpu for gpu in topology.gpus)
    return replace(topology, gpus=gpus)


def with_switch_links(topology: NodeTopology, index: int, active: int) -> NodeTopology:
    """One GPU reaches the switches by fewer links."""
    return bent(topology, index, nvlinks=(NvLink(target=NVSWITCH, count=18, active=active),))


def without(topology: NodeTopology, index: int) -> NodeTopology:
    """One GPU has fallen off the bus."""
    gone = topology.gpus[index]
    lost = LostGpu(index=index, problem="GPU is lost", uuid=gone.uuid, pci_bus_id=gone.pci_bus_id)
    nics = tuple(
        replace(nic, distance=tuple(path for path in nic.distance if path[0] != gone.label)) for nic in topology.nics
    )
    gpus = tuple(gpu for gpu in topology.gpus if gpu.index != index)
    return replace(topology, gpus=gpus, lost=(lost,), nics=nics)
