"""The file that NCCL reads from ``NCCL_TOPO_FILE``, written from a node's topology.

NCCL's parser is no XML parser: it stops at a declaration, a tab or a 256th element (src/graph/xml.cc), and misreads
what it does not know. Hence the narrow form: blanks, double quotes, one tag on each line, bus ids as in sysfs, and for
each GPU either all of its links or none. All ranks of a node must read the same bytes, so the file does not depend on
its reader; NCCL leaves out the GPUs that are not part of the job.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from webhook.hardware.topology.model import Cpu, Gpu, MigMode, Nic, NodeTopology, Pcie
from webhook.hardware.topology.pcie import UNKNOWN_LINK
from webhook.words.errors import FormatError

ADVISED_ELEMENTS = 200
"""The most elements that are written. NCCL has room for 255 (src/graph/topo.h, NCCL_TOPO_XML_MAX_NODES) and adds the
devices that it detects: NICs, and devices that the file does not have."""

MAX_TEXT = 253
"""Bytes of a name or value, without the character that ends it: MAX_STR_LEN, src/graph/xml.h."""
MAX_DEVICES = 32
"""Number of GPUs in NCCL's table of NVML's P2P states: ncclNvmlDevicePairs in src/include/nvmlwrap.h."""
HIDDEN_SWITCH = "fffffff:ffff:ff"
"""Target of links to a switch that a virtual machine hides: src/graph/xml.cc, ncclTopoGetXmlFromGpu."""

_GPU_CLASS, _SWITCH_CLASS, _NVSWITCH_CLASS = "0x030200", "0x060400", "0x068000"
_NIC_CLASS = {"InfiniBand": "0x020700"}
_ETHERNET_CLASS = "0x020000"
_SPEEDS = ("2.5", "5.0", "8.0", "16.0", "32.0", "64.0")
"""GT/s by PCIe generation. NCCL knows 16.0 and 32.0 only if the word ``PCIe`` follows: src/graph/topo.cc."""
_NUMA_UNKNOWN = -1
_NO_CPUS = "00000000"


@dataclass(frozen=True)
class _Element:
    tag: str
    attributes: tuple[tuple[str, str], ...]
    children: list["_Element"] = field(default_factory=list)

    def count(self) -> int:
        return 1 + sum(child.count() for child in self.children)

    def lines(self, indent: str = "") -> Iterator[str]:
        start = f"{indent}<{self.tag}" + "".join(f' {name}="{value}"' for name, value in self.attributes)
        if not self.children:
            yield f"{start}/>"
            return
        yield f"{start}>"
        for child in self.children:
            yield from child.lines(indent + "  ")
        yield f"{indent}</{self.tag}>"


def format_nccl_topology(topology: NodeTopology, *, host_indices: bool = False) -> str:
    """Writes the file for all ranks of a node.

    GPUs in MIG mode are left out, and so are GPUs at a PCI function that NCCL takes for a partition: neither have
    NVLink.

    Args:
        topology: A node whose GPUs have bus ids.
        host_indices: Write ``dev``, the NVML index on the host. NCCL takes it for an index within the container of the
            rank. It is needed if ranks in different containers would otherwise share an index, and wrong within a
            single container.

    Raises:
        FormatError: no GPU can be written; a bus id, the vendor of the CPUs, the NVLinks of a GPU, or the PCIe tree
            between two GPUs without NVLink are unknown; NCCL does not take an index; or the machine is too large for
            NCCL's parser.
    """
    where = f"NCCL topology of node {topology.node}"
    gpus = _usable(topology, where)
    if host_indices:
        _check_indices(gpus, where)
    _check_cpus(topology, where)
    _check_ways(gpus, topology, where)
    for nics in (topology.nics, ()):  # NCCL finds NICs by itself
        system = _system(replace(topology, gpus=gpus, nics=nics), host_indices=host_indices)
        if system.count() <= ADVISED_ELEMENTS:
            return "\n".join(system.lines()) + "\n"
    raise FormatError(where, expected=f"at most {ADVISED_ELEMENTS} elements", found=system.count())


def _usable(topology: NodeTopology, where: str) -> tuple[Gpu, ...]:
    usable = [gpu for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED]
    nameless = [gpu.label for gpu in usable if not gpu.pci_bus_id]
    if nameless:
        fix = topology.problem or f"A topology from {topology.source} has none; the agent finds them through NVML"
        raise FormatError(where, expected="the PCI bus id of each GPU", found=f"none of {nameless[0]}", fix=fix)
    gpus = tuple(gpu for gpu in usable if _is_whole(gpu.pci_bus_id))
    if not gpus:
        raise FormatError(where, expected="a GPU outside of MIG mode", found=topology.problem or "none")
    return gpus


def _check_indices(gpus: Sequence[Gpu], where: str) -> None:
    """Raises if an index is beyond NCCL's table of P2P states, which NCCL does not check: src/include/nvmlwrap.h."""
    found = next((gpu.index for gpu in gpus if gpu.index >= MAX_DEVICES), None)
    if found is not None:
        raise FormatError(where, expected=f"GPUs with an index below {MAX_DEVICES}", found=found)


def _check_cpus(topology: NodeTopology, where: str) -> None:
    """Raises if no CPU is known, or the vendor of one.

    NCCL adds a missing vendor only to the CPU of its own GPU, and stops at another CPU without one: src/graph/topo.cc.
    """
    if not topology.cpus:
        places = "/sys/devices/system/node and, without NUMA, from /sys/devices/system/cpu/online"
        fix = f"The agent reads them from {places}: is the host's /sys mounted?"
        raise FormatError(where, expected="the CPUs of the machine", found="none", fix=fix)
    if any(cpu.arch == "x86_64" and not cpu.vendor for cpu in topology.cpus):
        fix = "The agent reads it from /proc/cpuinfo: is it mounted?"
        raise FormatError(where, expected="the vendor of the CPUs", found="none", fix=fix)


def _check_ways(gpus: Sequence[Gpu], topology: NodeTopology, where: str) -> None:
    """Raises if NVLinks are unreadable, or the place of a GPU in the PCIe tree is needed but unknown.

    NCCL takes links that are missing from the file for absent, and GPUs below one CPU for near each other.
    """
    unread = [gpu for gpu in gpus if gpu.links_problem]
    if unread:
        found = f"those of {unread[0].label} cannot be read: {unread[0].links_problem}"
        raise FormatError(where, expected="the NVLinks of each GPU", found=found, fix="See dmesg and nvidia-smi")
    for one, other in combinations(gpus, 2):
        placeless = next((gpu for gpu in (one, other) if not (gpu.root or gpu.parent)), None)
        if placeless and not _has_nvlink(one, other):
            expected = "the place of each GPU in the PCIe tree"
            fix = topology.problem or "The agent reads it from sysfs: is the host's /sys mounted?"
            raise FormatError(where, expected=expected, found=f"none of {placeless.label}", fix=fix)


def _has_nvlink(gpu: Gpu, other: Gpu) -> bool:
    to_switches = gpu.switch_links and other.switch_links
    return bool(to_switches or (gpu.links_to(other.label) and other.links_to(gpu.label)))


def _is_whole(bus_id: str) -> bool:
    """Returns whether NCCL takes the bus id for a whole GPU.

    NCCL 2.30 reads the low two bits of the PCI function as a partition: src/graph/topo.cc.
    """
    return int(bus_id[-1]) % 4 == 0


def _system(topology: NodeTopology, *, host_indices: bool) -> _Element:
    system = _Element("system", (("version", "1"),))
    cpus = {cpu.numa_node: cpu for cpu in topology.cpus}
    elements: dict[int | str, _Element] = {}
    switches = {switch.pci_bus_id: switch for switch in topology.switches}

    def cpu_element(numa_node: int | None) -> _Element:
        node = _NUMA_UNKNOWN if numa_node is None else numa_node
        if node not in elements:
            elements[node] = _cpu(node, cpus.get(node) or _like(topology.cpus, node))
        return elements[node]

    def above(parent: str, numa_node: int | None) -> _Element:
        if not parent:
            return cpu_element(numa_node)
        if parent not in elements:
            switch = switches[parent]
            elements[parent] = _pci(parent, _SWITCH_CLASS, switch.pcie)
            grandparent = above(switch.parent, numa_node if switch.numa_node is None else switch.numa_node)
            grandparent.children.append(elements[parent])
        return elements[parent]

    for gpu in topology.gpus:
        element = _pci(gpu.pci_bus_id, _GPU_CLASS, gpu.pcie)
        element.children.append(_gpu(gpu, topology, host_indices=host_indices))
        above(gpu.parent, gpu.numa_node).children.append(element)
    for nic in topology.nics:
        # Several RDMA devices may be one PCI device, such as the subfunctions of a NIC.
        if nic.pci_bus_id and nic.pci_bus_id not in elements:
            elements[nic.pci_bus_id] = _nic(nic)
            above(nic.parent, nic.numa_node).children.append(elements[nic.pci_bus_id])
    system.children.extend(elements[node] for node in sorted(node for node in elements if isinstance(node, int)))
    return system


def _like(cpus: Sequence[Cpu], numa_node: int) -> Cpu:
    """Returns the assumed CPUs of a NUMA node unknown to sysfs: those of all other nodes, of the first one's kind."""
    affinity = ",".join(cpu.affinity for cpu in cpus if cpu.affinity)
    kind = cpus[0] if cpus else Cpu(numa_node=0)
    return replace(kind, numa_node=max(numa_node, 0), affinity=affinity)


def _cpu(node: int, cpu: Cpu) -> _Element:
    mask = cpu_mask(cpu.affinity)
    # NCCL adds a missing mask only to the CPU of its own GPU, and then sees two CPUs of one node. With a mask of zeros
    # it pins nothing and leaves the mask as it is.
    affinity = mask if mask and len(mask) <= MAX_TEXT else _NO_CPUS
    attributes = [("numaid", str(node)), ("affinity", affinity), ("arch", cpu.arch)]
    if cpu.vendor:
        attributes += [("vendor", cpu.vendor), ("familyid", str(cpu.family)), ("modelid", str(cpu.model))]
    return _Element("cpu", tuple(attributes))


def cpu_mask(cpus: str) -> str:
    """Returns a CPU list as a mask in the form of ``/sys/devices/system/node/node*/cpumap``.

    The mask has 32-bit words in hexadecimal, highest first, without leading words that have no CPU: ``0-3,32`` gives
    ``00000001,0000000f``.
    """
    mask = 0
    for part in filter(None, cpus.split(",")):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        mask |= ((1 << (high - low + 1)) - 1) << low
    words = []
    while mask:
        words.append(f"{mask & 0xFFFFFFFF:08x}")
        mask >>= 32
    return ",".join(reversed(words))


def _pci(bus_id: str, pci_class: str, pcie: Pcie | None) -> _Element:
    # An unknown link is written with NCCL's default: without a width NCCL stops where sysfs is not mounted.
    link = pcie or UNKNOWN_LINK
    speed = _SPEEDS[min(link.generation, len(_SPEEDS)) - 1]
    return _Element(
        "pci",
        (
            ("busid", bus_id),
            ("class", pci_class),
            ("link_speed", f"{speed} GT/s PCIe"),
            ("link_width", str(link.width)),
        ),
    )


def _gpu(gpu: Gpu, topology: NodeTopology, *, host_indices: bool) -> _Element:
    attributes = [("dev", str(gpu.index))] if host_indices else []
    if gpu.sm:
        attributes.append(("sm", str(gpu.sm)))
    element = _Element("gpu", tuple(attributes))
    element.children.extend(_nvlinks(gpu, topology))
    if gpu.c2c:
        bandwidth = ("bw", str(gpu.c2c.bandwidth_mbps))
        element.children.append(_Element("c2c", (bandwidth, ("count", str(gpu.c2c.links)))))
    return element


def _nvlinks(gpu: Gpu, topology: NodeTopology) -> Iterator[_Element]:
    if gpu.switch_links:
        target = next(iter(topology.nvswitches), HIDDEN_SWITCH)
        yield _nvlink(target, gpu.switch_links, _NVSWITCH_CLASS)
    for peer in topology.gpus:
        # A link that one side reports as down is left out on both sides: NCCL fails on a link without its way back.
        if gpu.links_to(peer.label) and peer.links_to(gpu.label):
            yield _nvlink(peer.pci_bus_id, gpu.links_to(peer.label), _GPU_CLASS)


def _nvlink(target: str, count: int, target_class: str) -> _Element:
    return _Element("nvlink", (("target", target), ("count", str(count)), ("tclass", target_class)))


def _nic(nic: Nic) -> _Element:
    return _pci(nic.pci_bus_id, _NIC_CLASS.get(nic.link_layer, _ETHERNET_CLASS), nic.pcie)
