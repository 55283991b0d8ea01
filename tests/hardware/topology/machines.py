"""Machines whose links are known, as topologies typed by hand; a test bends one property of one of them.

This is the only place where they are typed: ``tests/nvml/machines.py`` makes of each what a driver and a kernel show.

PCI buses, NUMA nodes and link counts follow public dumps and vendors' diagrams; what lies between (switch ports, host
bridges) is made up and plausible.
"""

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


def hgx_a100() -> NodeTopology:
    """Two GPUs and a NIC below each PCIe switch; AMD with four NUMA nodes on each socket."""
    numa = [3, 3, 1, 1, 7, 7, 5, 5]
    affinity = {node: f"{node * 16}-{node * 16 + 15},{128 + node * 16}-{143 + node * 16}" for node in range(8)}
    buses = ["07", "0f", "47", "4e", "87", "90", "b7", "bd"]
    above = ["02", "02", "42", "42", "82", "82", "b2", "b2"]
    roots = ["01", "01", "41", "41", "81", "81", "b1", "b1"]
    gpus = tuple(
        Gpu(
            index=index,
            uuid=uuid(index),
            minor=index,
            pci_bus_id=f"0000:{buses[index]}:00.0",
            name="NVIDIA A100-SXM4-80GB",
            compute_capability="8.0",
            memory_mib=81920,
            numa_node=numa[index],
            cpu_affinity=affinity[numa[index]],
            mig_mode=MigMode.DISABLED,
            nvlinks=to_switch(12),
            pcie=GEN4,
            parent=f"0000:{above[index]}:00.0",
            root=f"0000:{roots[index]}",
        )
        for index in range(8)
    )
    near = [
        "PIX PIX SYS SYS SYS SYS SYS SYS X SYS SYS SYS",
        "SYS SYS PIX PIX SYS SYS SYS SYS SYS X SYS SYS",
        "SYS SYS SYS SYS PIX PIX SYS SYS SYS SYS X SYS",
        "SYS SYS SYS SYS SYS SYS PIX PIX SYS SYS SYS X",
    ]
    nics = tuple(
        Nic(
            name=f"mlx5_{number}",
            pci_bus_id=f"0000:{bus}:00.0",
            numa_node=numa[number * 2],
            link_layer="InfiniBand",
            speed_gbps=200,
            pcie=GEN4,
            parent=f"0000:{above[number * 2]}:00.0",
            root=f"0000:{roots[number * 2]}",
            distance=distance(near[number], gpus=8),
        )
        for number, bus in enumerate(["0c", "4b", "8d", "ba"])
    )
    return NodeTopology(
        node="hgx-a100",
        source="nvml",
        driver_version=DRIVER,
        cuda_version=CUDA,
        gpus=gpus,
        nvswitches=tuple(f"0000:{bus}:00.0" for bus in ("c4", "c5", "c6", "c7", "c8", "c9")),
        switches=tuple(
            PciSwitch(pci_bus_id=f"0000:{bus}:00.0", root=f"0000:{root}", numa_node=node, pcie=GEN4)
            for bus, root, node in (("02", "01", 3), ("42", "41", 1), ("82", "81", 7), ("b2", "b1", 5))
        ),
        cpus=tuple(
            Cpu(numa_node=node, affinity=affinity[node], vendor="AuthenticAMD", family=23, model=49)
            for node in range(8)
        ),
        nics=nics,
    )


def _one_switch_each(
    *, name: str, capability: str, memory: int, cpus: tuple[Cpu, ...]
) -> tuple[tuple[Gpu, ...], tuple[PciSwitch, ...]]:
    """Eight GPUs with 18 links to the NVSwitches, each below a PCIe switch and host bridge of its own."""
    buses = ["1b", "43", "52", "61", "9d", "c3", "d1", "df"]
    above = ["19", "41", "50", "5f", "9b", "c1", "cf", "dd"]
    roots = ["18", "40", "4f", "5e", "9a", "c0", "ce", "dc"]
    gpus = tuple(
        Gpu(
            index=index,
            uuid=uuid(index),
            minor=index,
            pci_bus_id=f"0000:{buses[index]}:00.0",
            name=name,
            compute_capability=capability,
            memory_mib=memory,
            numa_node=index // 4,
            cpu_affinity=cpus[index // 4].affinity,
            mig_mode=MigMode.DISABLED,
            nvlinks=to_switch(18),
            pcie=GEN5,
            parent=f"0000:{above[index]}:00.0",
            root=f"0000:{roots[index]}",
        )
        for index in range(8)
    )
    switches = tuple(
        PciSwitch(pci_bus_id=f"0000:{above[index]}:00.0", root=f"0000:{roots[index]}", numa_node=index // 4, pcie=GEN5)
        for index in range(8)
    )
    return gpus, switches


def hgx_h100() -> NodeTopology:
    """A NIC beside each GPU, below the same PCIe switch."""
    cpus = intel(143, "0-47,96-143", "48-95,144-191")
    gpus, switches = _one_switch_each(name="NVIDIA H100 80GB HBM3", capability="9.0", memory=81559, cpus=cpus)
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
    nics = tuple(
        Nic(
            name=f"mlx5_{number}",
            pci_bus_id=f"0000:{bus}:00.0",
            numa_node=number // 4,
            link_layer="InfiniBand",
            speed_gbps=400,
            pcie=GEN5,
            parent=gpus[number].parent,
            root=gpus[number].root,
            distance=distance(near[number], gpus=8),
        )
        for number, bus in enumerate(["1c", "44", "53", "62", "9e", "c4", "d2", "e0"])
    )
    return NodeTopology(
        node="hgx-h100",
        source="nvml",
        driver_version=DRIVER,
        cuda_version=CUDA,
        gpus=gpus,
        nvswitches=tuple(f"0000:{bus}:00.0" for bus in ("07", "08", "09", "0a")),
        fabric=Fabric(state="completed", status="success"),
        switches=switches,
        cpus=cpus,
        nics=nics,
    )


def h20() -> NodeTopology:
    """The example node: four NICs beside GPUs, one below a root port of its own."""
    cpus = intel(143, "0-47,96-143", "48-95,144-191")
    buses = ["0f", "2d", "48", "5a", "87", "ae", "c4", "d7"]
    above = ["0c", "2b", "45", "58", "84", "ac", "c1", "d5"]
    roots = ["0b", "2a", "44", "57", "83", "ab", "c0", "d4"]
    gpus = tuple(
        Gpu(
            index=index,
            uuid=H20_UUIDS[index],
            minor=index,
            pci_bus_id=f"0000:{buses[index]}:00.0",
            name="NVIDIA H20",
            compute_capability="9.0",
            memory_mib=97871,
            numa_node=index // 4,
            cpu_affinity=cpus[index // 4].affinity,
            mig_mode=MigMode.DISABLED,
            nvlinks=to_switch(18),
            pcie=GEN5,
            parent=f"0000:{above[index]}:00.0",
            root=f"0000:{roots[index]}",
        )
        for index in range(8)
    )

    def nic(name: str, bus: str, layer: str, node: int, beside: int | None, words: str) -> Nic:
        return Nic(
            name=name,
            pci_bus_id=f"0000:{bus}:00.0",
            numa_node=node,
            link_layer=layer,
            speed_gbps=200,
            pcie=GEN4,
            parent="" if beside is None else gpus[beside].parent,
            root="0000:1f" if beside is None else gpus[beside].root,
            distance=distance(words, gpus=8),
        )

    return NodeTopology(
        node="h20-node-1",
        source="nvml",
        driver_version=DRIVER,
        cuda_version=CUDA,
        gpus=gpus,
        nvswitches=tuple(f"0000:{bus}:00.0" for bus in ("07", "08", "09", "0a")),
        fabric=Fabric(state="completed", status="success"),
        switches=tuple(
            PciSwitch(
                pci_bus_id=f"0000:{above[index]}:00.0", root=f"0000:{roots[index]}", numa_node=index // 4, pcie=GEN5
            )
            for index in range(8)
        ),
        cpus=cpus,
        nics=(
            nic("ibp14s0", "0e", "InfiniBand", 0, 0, "PIX NODE NODE NODE SYS SYS SYS SYS X NODE SYS SYS NODE"),
            nic("ibp71s0", "47", "InfiniBand", 0, 2, "NODE NODE PIX NODE SYS SYS SYS SYS NODE X SYS SYS NODE"),
            nic("ibp134s0", "86", "InfiniBand", 1, 4, "SYS SYS SYS SYS PIX NODE NODE NODE SYS SYS X NODE SYS"),
            nic("ibp195s0", "c3", "InfiniBand", 1, 6, "SYS SYS SYS SYS NODE NODE PIX NODE SYS SYS NODE X SYS"),
            nic("rocep32s0f0", "20", "Ethernet", 0, None, "NODE NODE NODE NODE SYS SYS SYS SYS NODE NODE SYS SYS X"),
        ),
    )


def hgx_b200() -> NodeTopology:
    cpus = intel(207, "0-55,112-167", "56-111,168-223")
    gpus, switches = _one_switch_each(name="NVIDIA B200", capability="10.0", memory=183359, cpus=cpus)
    return NodeTopology(
        node="hgx-b200",
        source="nvml",
        driver_version=DRIVER,
        cuda_version=CUDA,
        gpus=gpus,
        nvswitches=("0000:07:00.0", "0000:08:00.0"),
        fabric=Fabric(state="completed", status="success"),
        switches=switches,
        cpus=cpus,
    )


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


def dgx1_v100() -> NodeTopology:
    """A hybrid cube mesh; two GPUs and a NIC below each PCIe switch, two switches below each host bridge."""
    cpus = intel(79, "0-19,40-59", "20-39,60-79")
    buses = ["06", "07", "0a", "0b", "85", "86", "89", "8a"]
    above = ["02", "02", "08", "08", "81", "81", "87", "87"]
    roots = ["00", "00", "00", "00", "80", "80", "80", "80"]
    gpus = tuple(
        Gpu(
            index=index,
            uuid=uuid(index),
            minor=index,
            pci_bus_id=f"0000:{buses[index]}:00.0",
            name="Tesla V100-SXM2-32GB",
            compute_capability="7.0",
            memory_mib=32768,
            numa_node=index // 4,
            cpu_affinity=cpus[index // 4].affinity,
            nvlinks=tuple(
                NvLink(target=f"GPU{peer}", count=count, active=count) for peer, count in CUBE_MESH[index].items()
            ),
            pcie=GEN3,
            parent=f"0000:{above[index]}:00.0",
            root=f"0000:{roots[index]}",
        )
        for index in range(8)
    )
    near = [
        "PIX PIX PHB PHB SYS SYS SYS SYS X PHB SYS SYS",
        "PHB PHB PIX PIX SYS SYS SYS SYS PHB X SYS SYS",
        "SYS SYS SYS SYS PIX PIX PHB PHB SYS SYS X PHB",
        "SYS SYS SYS SYS PHB PHB PIX PIX SYS SYS PHB X",
    ]
    nics = tuple(
        Nic(
            name=f"mlx5_{number}",
            pci_bus_id=f"0000:{bus}:00.0",
            numa_node=number // 2,
            link_layer="InfiniBand",
            speed_gbps=100,
            pcie=GEN3,
            parent=gpus[number * 2].parent,
            root=gpus[number * 2].root,
            distance=distance(near[number], gpus=8),
        )
        for number, bus in enumerate(["05", "0c", "84", "8b"])
    )
    return NodeTopology(
        node="dgx1-v100",
        source="nvml",
        driver_version=DRIVER,
        cuda_version=CUDA,
        gpus=gpus,
        switches=tuple(
            PciSwitch(pci_bus_id=f"0000:{bus}:00.0", root=f"0000:{root}", numa_node=node, pcie=GEN3)
            for bus, root, node in (("02", "00", 0), ("08", "00", 0), ("81", "80", 1), ("87", "80", 1))
        ),
        cpus=cpus,
        nics=nics,
    )


def a100_pcie_bridged() -> NodeTopology:
    """Bridges join 0 to 1 and 2 to 3; each GPU has a root port to itself."""
    cpus = intel(106, "0-27,56-83", "28-55,84-111")
    peers = [1, 0, 3, 2]
    buses, roots = ["17", "65", "ca", "e3"], ["16", "64", "c9", "e2"]
    gpus = tuple(
        Gpu(
            index=index,
            uuid=uuid(index),
            minor=index,
            pci_bus_id=f"0000:{buses[index]}:00.0",
            name="NVIDIA A100 80GB PCIe",
            compute_capability="8.0",
            memory_mib=81920,
            numa_node=index // 2,
            cpu_affinity=cpus[index // 2].affinity,
            mig_mode=MigMode.DISABLED,
            nvlinks=(NvLink(target=f"GPU{peers[index]}", count=12, active=12),),
            pcie=GEN4,
            root=f"0000:{roots[index]}",
        )
        for index in range(4)
    )
    return NodeTopology(node="a100-pcie", source="nvml", driver_version=DRIVER, cuda_version=CUDA, gpus=gpus, cpus=cpus)


def l40s() -> NodeTopology:
    """No NVLink; two GPUs below each PCIe switch."""
    cpus = intel(143, "0-31,64-95", "32-63,96-127")
    buses = ["21", "22", "41", "42", "a1", "a2", "c1", "c2"]
    above = ["1f", "1f", "3f", "3f", "9f", "9f", "bf", "bf"]
    roots = ["1e", "1e", "3e", "3e", "9e", "9e", "be", "be"]
    gpus = tuple(
        Gpu(
            index=index,
            uuid=uuid(index),
            minor=index,
            pci_bus_id=f"0000:{buses[index]}:00.0",
            name="NVIDIA L40S",
            compute_capability="8.9",
            memory_mib=46068,
            numa_node=index // 4,
            cpu_affinity=cpus[index // 4].affinity,
            pcie=GEN4,
            parent=f"0000:{above[index]}:00.0",
            root=f"0000:{roots[index]}",
        )
        for index in range(8)
    )
    return NodeTopology(
        node="l40s",
        source="nvml",
        driver_version=DRIVER,
        cuda_version=CUDA,
        gpus=gpus,
        switches=tuple(
            PciSwitch(pci_bus_id=f"0000:{bus}:00.0", root=f"0000:{root}", numa_node=node, pcie=GEN4)
            for bus, root, node in (("1f", "1e", 0), ("3f", "3e", 0), ("9f", "9e", 1), ("bf", "be", 1))
        ),
        cpus=cpus,
    )


def gb200_tray() -> NodeTopology:
    """Arm; each GPU in a PCI domain of its own, joined to its CPU by C2C, its switches in other trays."""
    cpus = tuple(Cpu(numa_node=node, affinity=f"{node * 72}-{node * 72 + 71}", arch="arm64") for node in range(2))
    domains = ["0008", "0009", "0018", "0019"]
    gpus = tuple(
        Gpu(
            index=index,
            uuid=uuid(index),
            minor=index,
            pci_bus_id=f"{domains[index]}:01:00.0",
            name="NVIDIA GB200",
            compute_capability="10.0",
            memory_mib=189471,
            numa_node=index // 2,
            cpu_affinity=cpus[index // 2].affinity,
            mig_mode=MigMode.DISABLED,
            nvlinks=to_switch(18),
            c2c=C2c(links=10, bandwidth_mbps=44712),
            pcie=GEN5,
            root=f"{domains[index]}:00",
        )
        for index in range(4)
    )
    return NodeTopology(
        node="gb200-tray",
        source="nvml",
        driver_version=DRIVER,
        cuda_version=CUDA,
        gpus=gpus,
        fabric=Fabric(
            state="completed",
            status="success",
            cluster_uuid="5e3a91c4-70d2-4b6f-8f15-c2a9d4e60b37",
            clique_id=7,
        ),
        cpus=cpus,
    )


def hidden_switches() -> NodeTopology:
    """A virtual machine with eight H100: each GPU in a PCI domain of its own, no NUMA node, no name for a switch."""
    cpus = intel(143, "0-47", "48-95")
    gpus = tuple(
        Gpu(
            index=index,
            uuid=uuid(index),
            minor=index,
            pci_bus_id=f"000{index + 1}:00:00.0",
            name="NVIDIA H100 80GB HBM3",
            compute_capability="9.0",
            memory_mib=81559,
            cpu_affinity="0-95",
            mig_mode=MigMode.DISABLED,
            nvlinks=to_switch(18),
            pcie=GEN5,
            root=f"000{index + 1}:00",
        )
        for index in range(8)
    )
    return NodeTopology(
        node="h100-vm",
        source="nvml",
        driver_version=DRIVER,
        cuda_version=CUDA,
        gpus=gpus,
        fabric=Fabric(state="completed", status="success"),
        cpus=cpus,
    )


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
