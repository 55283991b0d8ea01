"""PCIe paths between two devices of a node, and their bandwidths."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from webhook.hardware.topology.model import Cpu, Gpu, Nic, NodeTopology, Pcie, PciSwitch


class PciePath(StrEnum):
    """The words of ``nvidia-smi topo -m`` for PCIe paths, nearest first."""

    PIX = "PIX"
    """Through one switch."""
    PXB = "PXB"
    """Through several switches."""
    PHB = "PHB"
    """Through the host bridge."""
    NODE = "NODE"
    """Between host bridges of one NUMA node. NCCL has no word for it and says PHB."""
    SYS = "SYS"
    """Between NUMA nodes."""

    @property
    def rank(self) -> int:
        """The rank of the path; 0 for the nearest."""
        return list(PciePath).index(self)


# 100 Mbit/s of each lane and direction, after encoding and protocol: NCCL src/graph/topo.cc, kvDictPciGen.
# A later generation counts as the last one that NCCL knows.
_LANE_SPEED = {1: 15, 2: 30, 3: 60, 4: 120, 5: 240, 6: 480}
UNKNOWN_LINK = Pcie(generation=3, width=16)
"""The link that NCCL assumes if it cannot read one: src/graph/topo.cc, ncclTopoAddPci."""

AMD, INTEL = "AuthenticAMD", "GenuineIntel"
"""Vendors of CPUs, as CPUID and NCCL's file name them."""

UP, DOWN = "up", "down"
DirectedLink = tuple[str, str]
"""A link in one direction: the label or bus id of the device below it and ``UP`` or ``DOWN``, or two NUMA nodes."""

_AMD, _ARM, _POWER, _ZHAOXIN = 16.0, 6.0, 32.0, 6.0
_INTEL = ((0xCF, 40.0), (0x8F, 22.0), (0x55, 10.0), (0, 6.0))
"""GB/s of Intel CPUs, each from this model on."""
_UNKNOWN_CPU = 6.0
"""GB/s of an unknown CPU: the least of all vendors, so that nothing is promised."""


def link_bandwidth(pcie: Pcie | None) -> float:
    """Returns the GB/s per direction of a PCIe link; an unknown link has generation 3 and 16 lanes, as in NCCL.

    NCCL src/graph/topo.cc: width x speed / 80.
    """
    link = pcie or UNKNOWN_LINK
    speed = _LANE_SPEED.get(link.generation, max(_LANE_SPEED.values()))
    return link.width * speed / 80


def socket_bandwidth(topology: NodeTopology) -> float:
    """Returns the GB/s per direction between NUMA nodes, by the type of the first CPU.

    The figures are those of NCCL: src/graph/topo.h and topo.cc.
    """
    return _socket_bandwidth(topology.cpus[0]) if topology.cpus else _UNKNOWN_CPU


def _socket_bandwidth(cpu: Cpu) -> float:
    if cpu.arch == "arm64":
        return _ARM
    if cpu.arch == "ppc64":
        return _POWER
    if cpu.vendor == INTEL:
        return next(bandwidth for model, bandwidth in _INTEL if cpu.model >= model)
    return {AMD: _AMD, "CentaurHauls": _ZHAOXIN, "  Shanghai  ": _ZHAOXIN}.get(cpu.vendor, _UNKNOWN_CPU)


class PcieTree:
    """The PCIe devices of a node, with the paths between its GPUs and NICs."""

    def __init__(self, topology: NodeTopology) -> None:
        self._switches = {switch.pci_bus_id: switch for switch in topology.switches}
        self._labels = dict(zip((nic.name for nic in topology.nics), topology.nic_labels, strict=True))
        devices: tuple[Gpu | Nic, ...] = (*topology.gpus, *topology.nics)
        self._said = {self.label(device): dict(device.distance) for device in devices}
        self._chains: dict[str, dict[str, PciSwitch]] = {}
        """The switches above a device, by the switch that the device is attached to."""
        self.between_sockets = socket_bandwidth(topology)
        """GB/s per direction between NUMA nodes."""
        self.cpu_vendor = topology.cpus[0].vendor if topology.cpus else ""
        """Vendor of the first CPU, which NCCL takes for that of all CPUs; empty if unknown."""

    def path(self, device: Gpu | Nic, other: Gpu | Nic) -> PciePath:
        """Returns the path between two devices: from the tree, else from the source, else from their NUMA nodes."""
        if device.root and other.root:
            return self._path_in_tree(device, other)
        label, other_label = self.label(device), self.label(other)
        said = self._said[label].get(other_label) or self._said[other_label].get(label)
        if said:
            return PciePath(said)
        return PciePath.NODE if device.numa_node == other.numa_node is not None else PciePath.SYS

    def bandwidth(self, device: Gpu | Nic, other: Gpu | Nic) -> float:
        """Returns the GB/s per direction between two devices: the least of all links on the way, sockets included."""
        return min(bandwidth for _, bandwidth in self.links(device, other))

    def links(self, one: Gpu | Nic, other: Gpu | Nic) -> Iterator[tuple[DirectedLink, float]]:
        """Yields the links on the way from ``one`` to ``other``, each with its GB/s."""
        above, below = self._above(one), self._above(other)
        yield (self.label(one), UP), link_bandwidth(one.pcie)
        for name, switch in above.items():
            if name not in below:
                yield (name, UP), link_bandwidth(switch.pcie)
        if self.path(one, other) is PciePath.SYS:
            yield self.between_numa_nodes(one, other)
        for name, switch in below.items():
            if name not in above:
                yield (name, DOWN), link_bandwidth(switch.pcie)
        yield (self.label(other), DOWN), link_bandwidth(other.pcie)

    def between_numa_nodes(self, one: Gpu | Nic, other: Gpu | Nic) -> tuple[DirectedLink, float]:
        """Returns the link between the NUMA nodes of two devices, and its GB/s."""
        return (f"NUMA {one.numa_node}", f"NUMA {other.numa_node}"), self.between_sockets

    def label(self, device: Gpu | Nic) -> str:
        """Returns the name of a device in the matrix."""
        return device.label if isinstance(device, Gpu) else self._labels[device.name]

    def _path_in_tree(self, device: Gpu | Nic, other: Gpu | Nic) -> PciePath:
        if (device.parent and device.parent == other.parent) or _is_one_card(device, other):
            return PciePath.PIX
        if not self._above(device).keys().isdisjoint(self._above(other)):
            return PciePath.PXB
        if device.root == other.root:
            return PciePath.PHB
        return PciePath.NODE if device.numa_node == other.numa_node else PciePath.SYS

    def _above(self, device: Gpu | Nic) -> Mapping[str, PciSwitch]:
        """Returns the switches above a device by their bus ids, the nearest first."""
        chain = self._chains.get(device.parent)
        if chain is None:
            chain = {switch.pci_bus_id: switch for switch in self._climb(device.parent)}
            self._chains[device.parent] = chain
        return chain

    def _climb(self, above: str) -> Iterator[PciSwitch]:
        while above:
            switch = self._switches[above]
            yield switch
            above = switch.parent


def _is_one_card(device: Gpu | Nic, other: Gpu | Nic) -> bool:
    """Returns whether two NICs are functions of one PCI device, as two ports of a card are.

    No host bridge is between them.
    """
    both_nics = isinstance(device, Nic) and isinstance(other, Nic)
    return both_nics and bool(device.pci_bus_id) and device.pci_bus_id[:-1] == other.pci_bus_id[:-1]
