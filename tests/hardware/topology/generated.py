"""Topologies by chance, none of which contradicts itself."""

from collections.abc import Sequence

from hypothesis import strategies as st

from webhook.hardware.topology.model import (
    NVSWITCH,
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

words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), max_size=12)
numbers = st.integers(0, 2**31)
pcie = st.none() | st.builds(Pcie, generation=st.integers(1, 8), width=st.integers(1, 32))
cpu_lists = st.sampled_from(["", "0-47,96-143", "7"])
bus_ids = st.integers(0, 255)


@st.composite
def figures(draw: st.DrawFn, others: Sequence[int]) -> tuple[tuple[tuple[str, int], ...], ...]:
    """What was measured to other GPUs: as fast as expected, and slower."""
    split = draw(st.integers(0, len(others)))
    told = tuple((f"GPU{other}", draw(st.integers(1, 10**7))) for other in others[: draw(st.integers(0, len(others)))])
    return told[:split], told[split:]


@st.composite
def topologies(draw: st.DrawFn) -> NodeTopology:
    """Any topology that does not contradict itself."""
    indices = draw(st.lists(st.integers(0, 40), unique=True, max_size=6).map(sorted))
    buses = draw(st.lists(st.integers(0, 127), unique=True, min_size=len(indices) + 4, max_size=len(indices) + 4))
    ids = [f"0000:{bus:02x}:00.0" for bus in buses]
    above, switch, gone, card = ids[:4]
    gpus = tuple(
        Gpu(
            index=index,
            uuid=f"GPU-{index}",
            pci_bus_id=bus_id,
            name=draw(words),
            minor=draw(st.none() | numbers),
            compute_capability=draw(st.sampled_from(["", "9.0", "10.3"])),
            memory_mib=draw(numbers),
            numa_node=draw(st.none() | numbers),
            cpu_affinity=draw(cpu_lists),
            mig_mode=draw(st.sampled_from(MigMode)),
            nvlinks=draw(st.sampled_from([(), (NvLink(target=NVSWITCH, count=18, active=3),)])),
            links_problem=draw(st.sampled_from(["", "", "", "Timeout"])),
            pcie=draw(pcie),
            parent=draw(st.sampled_from(["", switch])),
            root=draw(st.sampled_from(["", "0000:15"])),
            measured=(told := draw(figures([other for other in indices if other != index])))[0],
            slower=told[1],
        )
        for index, bus_id in zip(indices, ids[4:], strict=True)
    )
    return NodeTopology(
        node=draw(words.filter(bool)),
        source="nvml",
        driver_version=draw(words),
        problem=draw(words),
        gpus=gpus,
        lost=draw(st.sampled_from([(), (LostGpu(index=41, problem="lost", pci_bus_id=gone),)])),
        nvswitches=draw(st.sampled_from([(), ("0000:07:00.0",)])),
        fabric=draw(
            st.none()
            | st.builds(
                Fabric,
                state=words.filter(bool),
                status=words,
                clique_id=numbers,
                ailments=st.sampled_from([(), ("degraded bandwidth",)]),
            )
        ),
        switches=(PciSwitch(pci_bus_id=above), PciSwitch(pci_bus_id=switch, parent=above, pcie=draw(pcie))),
        cpus=draw(st.sampled_from([(), (Cpu(numa_node=0, affinity="0-7", vendor="AuthenticAMD"),)])),
        nics=(Nic(name="mlx5_0", pci_bus_id=card, distance=tuple((f"GPU{index}", "SYS") for index in indices)),),
        measured_at=draw(st.sampled_from(["", "2026-11-23T04:00:00Z"])),
    )
