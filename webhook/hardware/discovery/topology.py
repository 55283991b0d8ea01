"""The topology of a node, built from facts. Pure, so that a test can describe any odd machine as a value."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from webhook.hardware.discovery.facts import GpuFacts, NicFacts, NvmlFacts, PairFacts, PciFacts, SysfsFacts
from webhook.hardware.discovery.links import Targets, nvswitches, with_links_back
from webhook.hardware.topology.consistency import BUS_ID, checked, is_pcie_link
from webhook.hardware.topology.model import (
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
from webhook.hardware.topology.pcie import PcieTree
from webhook.words.errors import FormatError

SOURCE = "nvml"
_WORST_FIRST = ("not-started", "in-progress", "unsupported", "completed")
_NAMED_PAIRS = 3
"""The most pairs that a sentence names."""


def build_topology(nvml: NvmlFacts, sysfs: SysfsFacts, *, node: str) -> NodeTopology:
    """Builds the topology that the facts describe.

    Facts that contradict each other give a topology without devices, whose ``problem`` names the contradiction.

    Args:
        nvml: The facts of NVML.
        sysfs: The facts of sysfs about the GPUs that NVML names.
        node: Name of the node.
    """
    tree = _Tree(sysfs.pci)
    targets = Targets(nvml, sysfs)
    topology = NodeTopology(
        node=node,
        source=SOURCE,
        driver_version=_printable(nvml.driver_version),
        cuda_version=nvml.cuda_version,
        problem="; ".join(_problems(nvml, sysfs)),
        gpus=_gpus(nvml, sysfs, tree, targets),
        lost=tuple(
            LostGpu(
                index=gpu.index,
                problem=_printable(gpu.said),
                uuid=_printable(gpu.uuid),
                pci_bus_id=_short(gpu.bus_id),
            )
            for gpu in nvml.lost
        ),
        nvswitches=nvswitches(nvml, targets),
        fabric=_fabric([gpu.fabric for gpu in nvml.gpus if gpu.fabric]),
        switches=tree.switches([*(gpu.bus_id for gpu in nvml.gpus), *(nic.bus_id for nic in sysfs.nics)]),
        cpus=_cpus(sysfs),
        nics=tuple(_nic(nic, tree) for nic in sysfs.nics),
    )
    try:
        return _with_distances(checked(topology, source="NVML and sysfs"), nvml.pairs)
    except FormatError as error:
        return NodeTopology(
            node=node,
            source=SOURCE,
            driver_version=topology.driver_version,
            cuda_version=topology.cuda_version,
            problem=f"the machine contradicts itself: {error}",
        )


def _printable(text: str) -> str:
    """Returns the text without control characters, which readers of a topology refuse."""
    return "".join(character for character in text if character.isprintable())


def _short(bus_id: str) -> str:
    """Returns the bus id if its domain has four digits, else nothing: a topology cannot hold a longer one."""
    return bus_id if BUS_ID.fullmatch(bus_id) else ""


class _Tree:
    """PCI devices by their bus ids, as parts of a topology need them."""

    def __init__(self, devices: Mapping[str, PciFacts]) -> None:
        self._devices = devices

    def device(self, bus_id: str) -> PciFacts:
        """Returns the facts of a device, without a parent if the topology cannot name the switch above it."""
        found = self._devices.get(bus_id, PciFacts(bus_id=bus_id))
        return found if _short(found.parent) and found.parent in self._devices else replace(found, parent="")

    def switches(self, below: Iterable[str]) -> tuple[PciSwitch, ...]:
        """Returns all switches above these devices, in the order of their bus ids."""
        found: dict[str, PciSwitch] = {}
        for bus_id in below:
            above = self.device(bus_id).parent
            while above and above not in found:
                switch = self.device(above)
                found[above] = PciSwitch(
                    pci_bus_id=above,
                    parent=switch.parent,
                    root=switch.root,
                    numa_node=switch.numa_node,
                    pcie=_pcie(switch.generation, switch.width),
                )
                above = switch.parent
        return tuple(found[bus_id] for bus_id in sorted(found))


def _pcie(generation: int, width: int) -> Pcie | None:
    return Pcie(generation=generation, width=width) if is_pcie_link(generation, width) else None


def _gpus(nvml: NvmlFacts, sysfs: SysfsFacts, tree: _Tree, targets: Targets) -> tuple[Gpu, ...]:
    nodes = sysfs.numa_nodes
    return with_links_back([_gpu(gpu, tree.device(gpu.bus_id), targets.of(gpu), nodes) for gpu in nvml.gpus])


def _gpu(gpu: GpuFacts, device: PciFacts, links: tuple[NvLink, ...], nodes: Mapping[int, str]) -> Gpu:
    of_node = "" if device.numa_node is None else nodes.get(device.numa_node, "")
    return Gpu(
        index=gpu.index,
        uuid=_printable(gpu.uuid),
        pci_bus_id=_short(gpu.bus_id),
        name=_printable(gpu.name),
        minor=gpu.minor,
        compute_capability="{}.{}".format(*gpu.capability) if gpu.capability else "",
        memory_mib=gpu.memory_bytes // 2**20,
        numa_node=device.numa_node,
        own_numa_node=gpu.numa_node,
        cpu_affinity=device.cpus or of_node or _cpu_list(gpu.cpu_words),
        mig_mode=_mig_mode(gpu.mig_enabled),
        nvlinks=links,
        links_problem=_links_problem(gpu),
        c2c=C2c(links=len(gpu.c2c_mbps), bandwidth_mbps=min(gpu.c2c_mbps)) if gpu.c2c_mbps else None,
        pcie=_pcie(gpu.pcie_generation, gpu.pcie_width) or _pcie(device.generation, device.width),
        parent=device.parent,
        root=device.root,
    )


def _links_problem(gpu: GpuFacts) -> str:
    """Returns why the links of a GPU cannot be read; empty in MIG mode, which has no links."""
    return "" if gpu.mig_enabled else _printable(gpu.links_problem)


def _mig_mode(enabled: bool | None) -> MigMode:
    if enabled is None:
        return MigMode.UNSUPPORTED
    return MigMode.ENABLED if enabled else MigMode.DISABLED


def _cpu_list(words: Sequence[int]) -> str:
    """Returns a CPU list such as ``0-47,96-143`` for a mask in words of 64 bits, the least significant first."""
    numbers = [64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1]
    ranges = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in ranges)


def _fabric(said: Sequence[Fabric]) -> Fabric | None:
    """Returns the worst state of the fabric that a GPU reports, with the ailments that any GPU reports."""
    worst = min(said, key=_fabric_rank, default=None)
    if worst is None:
        return None
    ailments = sorted({ailment for fabric in said for ailment in fabric.ailments})
    return replace(worst, status=_printable(worst.status), ailments=tuple(map(_printable, ailments)))


def _fabric_rank(fabric: Fabric) -> tuple[int, bool]:
    rank = _WORST_FIRST.index(fabric.state) if fabric.state in _WORST_FIRST else 0
    return rank, fabric.status == "success"


def _cpus(sysfs: SysfsFacts) -> tuple[Cpu, ...]:
    cpu = sysfs.cpu
    return tuple(
        Cpu(
            numa_node=number,
            affinity=cpus,
            arch=cpu.arch,
            vendor=_printable(cpu.vendor),
            family=cpu.family,
            model=cpu.model,
        )
        for number, cpus in sysfs.numa_nodes.items()
        if cpus
    )


def _nic(nic: NicFacts, tree: _Tree) -> Nic:
    device = tree.device(nic.bus_id)
    return Nic(
        name=_printable(nic.name),
        pci_bus_id=_short(nic.bus_id),
        numa_node=device.numa_node,
        link_layer=_printable(nic.link_layer),
        speed_gbps=nic.speed_gbps,
        pcie=_pcie(device.generation, device.width),
        parent=device.parent,
        root=device.root,
    )


def _with_distances(topology: NodeTopology, pairs: Sequence[PairFacts]) -> NodeTopology:
    """Adds the PCIe paths of NICs, from the tree, and of GPUs that the tree does not hold, from NVML."""
    topology = replace(topology, gpus=tuple(_with_paths(gpu, topology.gpus, pairs) for gpu in topology.gpus))
    tree = PcieTree(topology)
    return replace(topology, nics=tuple(replace(nic, distance=_paths(nic, topology, tree)) for nic in topology.nics))


def _with_paths(gpu: Gpu, gpus: Sequence[Gpu], pairs: Sequence[PairFacts]) -> Gpu:
    said = {frozenset((pair.one, pair.other)): pair.pcie for pair in pairs if pair.pcie}
    others = [other for other in gpus if other is not gpu and not (gpu.root and other.root)]
    words = [(other.label, said.get(frozenset((gpu.index, other.index)), "")) for other in others]
    return replace(gpu, distance=tuple((label, word) for label, word in words if word))


def _paths(nic: Nic, topology: NodeTopology, tree: PcieTree) -> tuple[tuple[str, str], ...]:
    devices: tuple[Gpu | Nic, ...] = (*topology.gpus, *topology.nics)
    others = [other for other in devices if other is not nic and _comparable(nic, other)]
    return tuple((tree.label(other), tree.path(nic, other).value) for other in others)


def _comparable(one: Gpu | Nic, other: Gpu | Nic) -> bool:
    """Returns whether anything is known of the way between two devices."""
    return bool(one.root and other.root) or None not in (one.numa_node, other.numa_node)


def _problems(nvml: NvmlFacts, sysfs: SysfsFacts) -> list[str]:
    """Returns the reasons why the topology is empty or incomplete, one sentence for each."""
    wide = [
        f"GPU{gpu.index} has the bus id {gpu.bus_id}, whose domain has more than four digits: "
        "its place among the PCIe devices is unknown"
        for gpu in nvml.gpus
        if gpu.bus_id and not _short(gpu.bus_id)
    ]
    found = (nvml.problem, *wide, _without_device(nvml, sysfs), *_unread_links(nvml), *_refusals(nvml))
    return [problem for problem in found if problem]


def _without_device(nvml: NvmlFacts, sysfs: SysfsFacts) -> str:
    """Returns a sentence about GPUs that sysfs does not know, as in a container without the host's ``/sys``."""
    missing = [f"GPU{gpu.index}" for gpu in nvml.gpus if _short(gpu.bus_id) and gpu.bus_id not in sysfs.pci]
    if not missing:
        return ""
    root = _printable(sysfs.root)
    return f"sysfs below {root} does not have the PCI device of {', '.join(missing)}: is the host's /sys mounted?"


def _unread_links(nvml: NvmlFacts) -> list[str]:
    unread: dict[str, list[str]] = defaultdict(list)
    for gpu in nvml.gpus:
        unread[_links_problem(gpu)].append(f"GPU{gpu.index}")
    return [f"the NVLinks of {', '.join(unread[said])} cannot be read: {said}" for said in unread if said]


def _refusals(nvml: NvmlFacts) -> list[str]:
    """Returns sentences about pairs that may not read each other's memory, without MIG instances, which never may."""
    instances = {gpu.index for gpu in nvml.gpus if gpu.mig_enabled}
    pairs = [pair for pair in nvml.pairs if not instances & {pair.one, pair.other}]
    refused: dict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        refused[pair.refusal].append(f"GPU{pair.one} and GPU{pair.other}")
    return [
        f"P2P between {_enumerated(refused[reason], of=len(pairs))} is off: {reason}" for reason in refused if reason
    ]


def _enumerated(pairs: Sequence[str], *, of: int) -> str:
    if len(pairs) == of > 1:
        return "all GPUs"
    more = len(pairs) - _NAMED_PAIRS
    return ", ".join(pairs[:_NAMED_PAIRS]) + (f" and {more} more pairs" if more > 0 else "")
