"""Nodes by chance with few GPUs, whose links, places and sizes all differ: for laws that any selection keeps."""

from itertools import combinations

from hypothesis import strategies as st

from webhook.hardware.topology.consistency import checked
from webhook.hardware.topology.model import NVSWITCH, Cpu, Gpu, MigMode, Nic, NodeTopology, NvLink, Pcie, PciSwitch

SWITCHES = ("", "0000:10:00.0", "0000:20:00.0", "0000:30:00.0")


@st.composite
def links(draw: st.DrawFn, count: int) -> list[tuple[NvLink, ...]]:
    """NVLinks of each GPU: to NVSwitches, straight to others with both ends differing now and then, or none."""
    if draw(st.booleans()):
        return [(NvLink(target=NVSWITCH, count=18, active=draw(st.sampled_from([0, 10, 18]))),) for _ in range(count)]
    found: list[list[NvLink]] = [[] for _ in range(count)]
    for one, other in combinations(range(count), 2):
        there, back = draw(st.sampled_from([(0, 0), (0, 0), (1, 1), (2, 2), (2, 1), (4, 4)]))
        if there:
            found[one].append(NvLink(target=f"GPU{other}", count=4, active=there))
            found[other].append(NvLink(target=f"GPU{one}", count=4, active=back))
    return [tuple(mine) for mine in found]


@st.composite
def small_nodes(draw: st.DrawFn, *, name: str = "node", most: int = 7) -> NodeTopology:
    """A node with up to ``most`` GPUs."""
    count = draw(st.integers(1, most))
    numa_nodes = draw(st.sampled_from([(None,), (0,), (0, 1), (0, 1, None)]))
    nvlinks = draw(links(count))
    gpus = []
    for index in range(count):
        place = draw(st.integers(0, 3))
        gpu = Gpu(
            index=index,
            uuid=f"GPU-{name}-{index}",
            compute_capability=draw(st.sampled_from(["8.0", "9.0"])),
            memory_mib=draw(st.sampled_from([0, 40960, 40960, 81920])),
            numa_node=draw(st.sampled_from(numa_nodes)),
            mig_mode=draw(st.sampled_from([MigMode.DISABLED] * 7 + [MigMode.ENABLED])),
            nvlinks=nvlinks[index],
            pcie=draw(st.sampled_from([None, Pcie(generation=4, width=16), Pcie(generation=5, width=16)])),
            parent=SWITCHES[place],
            root=f"0000:{place:02x}",
        )
        gpus.append(gpu)
    amd, speed = Cpu(numa_node=0, vendor="AuthenticAMD"), draw(st.sampled_from([0, 200]))
    nic = Nic(name="mlx5_0", numa_node=0, speed_gbps=speed, parent=SWITCHES[1], root="0000:01")
    topology = NodeTopology(
        node=name,
        source="nvml",
        gpus=tuple(gpus),
        switches=tuple(
            PciSwitch(pci_bus_id=bus_id, root=f"0000:{n:02x}") for n, bus_id in enumerate(SWITCHES) if bus_id
        ),
        cpus=draw(st.sampled_from([(), (amd,), (amd, Cpu(numa_node=1, vendor="AuthenticAMD"))])),
        nics=draw(st.sampled_from([(), (nic,)])),
    )
    return checked(topology, source="node by chance")
