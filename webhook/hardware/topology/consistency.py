"""The consistency of a topology. One that contradicts itself is refused before anything is decided from it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from webhook.hardware.topology.model import (
    NVSWITCH,
    UNKNOWN,
    Cpu,
    Gpu,
    LostGpu,
    Nic,
    NodeTopology,
    NvLink,
    Pcie,
    PciSwitch,
)
from webhook.hardware.topology.pcie import PciePath
from webhook.words.errors import FormatError
from webhook.words.node_names import NAME_LIMIT

BUS_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_CAPABILITY = re.compile(r"([3-9]|1[0-9])\.[0-9]")
_HOST_BRIDGE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}")
_CPU_LIST = re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*")
_CPU_VENDOR = re.compile(r"[A-Za-z0-9 !]{0,12}")
"""The at most twelve characters of CPUID. They go into the NCCL file, which has no escapes."""
_PATHS = frozenset(PciePath)
_CPU_ARCHITECTURES = ("x86_64", "arm64", "ppc64")

MAX_CPU_NUMBER = 0xFFFF
"""CPUID tells families and models in 12 bits at most. They go into the NCCL file, of which NCCL reads 31 bits."""
MAX_GPUS = 64
"""More GPUs than any machine has. The limit is needed because the work grows with the square of the GPUs, and because a
topology may come from a hostile writer."""
MAX_NICS = 128
MAX_GENERATION, MAX_WIDTH = 8, 32
"""Limits of a PCIe link: no device has a generation above 6 or more than 32 lanes (PCI Express Base Specification)."""
MAX_SWITCHES = 512
MAX_DEPTH = 32
"""PCIe switches above each other. A machine has three or four; the path of each pair of devices needs all of them."""
MAX_NAME = 128
"""Characters of a UUID or of a device's name. Names of NVML have less than 96 (``NVML_DEVICE_NAME_V2_BUFFER_SIZE``,
nvml.h), names of InfiniBand devices less than 64 (``IB_DEVICE_NAME_MAX``, Linux include/rdma/ib_verbs.h)."""
MAX_AILMENTS = 64
MAX_MEASURED_MBPS = 10_000_000
"""Ten times the bandwidth of the NVLinks of any GPU."""
MAX_LINKS = 72
"""Twice the 36 links of a GPU that NVML counts (``NVML_NVLINK_MAX_LINKS``, nvml.h): newer drivers may count more."""


def checked(topology: NodeTopology, *, source: str) -> NodeTopology:
    """Checks a topology, and returns it with its GPUs in the order of their indices.

    Args:
        topology: The topology as read or discovered.
        source: Its name in messages.

    Raises:
        FormatError: the topology contradicts itself: two devices share an index, UUID, bus id or name; or a bus id,
            link, parent or path is impossible.
    """
    _check_sizes(topology, source)
    _check_names(topology, source)
    _check_identities(topology, source)
    for gpu in topology.gpus:
        _check_gpu(gpu, source)
    for cpu in topology.cpus:
        _check_cpu(cpu, f"{source}: NUMA node {cpu.numa_node}")
    _check_links(topology, source)
    _check_parents(topology, source)
    _check_distances(topology, source)
    _check_measured(topology, source)
    return replace(topology, gpus=tuple(sorted(topology.gpus, key=lambda gpu: gpu.index)))


def _check_sizes(topology: NodeTopology, source: str) -> None:
    for what, found, most in (
        ("GPUs", len(topology.gpus) + len(topology.lost), MAX_GPUS),
        ("NICs", len(topology.nics), MAX_NICS),
        ("PCIe switches", len(topology.switches), MAX_SWITCHES),
        ("NUMA nodes", len(topology.cpus), MAX_SWITCHES),
        ("ailments of the fabric", len(topology.fabric.ailments) if topology.fabric else 0, MAX_AILMENTS),
    ):
        if found > most:
            raise FormatError(source, expected=f"at most {most} {what}", found=found)
    for gpu in topology.gpus:
        if len(gpu.nvlinks) > MAX_GPUS + 1:  # all other GPUs, NVSwitches, and unknown
            where, expected = f"{source}: links of {gpu.label}", f"at most {MAX_GPUS + 1} targets"
            raise FormatError(where, expected=expected, found=len(gpu.nvlinks))


def _check_names(topology: NodeTopology, source: str) -> None:
    """Raises if a name or UUID is too long for messages, which list devices by name."""
    gpus: tuple[Gpu | LostGpu, ...] = (*topology.gpus, *topology.lost)
    called = [gpu.name for gpu in topology.gpus] + [nic.name for nic in topology.nics]
    for name in (*called, *(gpu.uuid for gpu in gpus)):
        if len(name) > MAX_NAME:
            raise FormatError(source, expected=f"names and UUIDs of at most {MAX_NAME} characters", found=name)
    if len(topology.node) > NAME_LIMIT:
        raise FormatError(
            source, expected=f"the name of a node, of at most {NAME_LIMIT} characters", found=topology.node
        )


def _check_identities(topology: NodeTopology, source: str) -> None:
    gpus: tuple[Gpu | LostGpu, ...] = (*topology.gpus, *topology.lost)
    bus_ids = [gpu.pci_bus_id for gpu in gpus] + [switch.pci_bus_id for switch in topology.switches]
    _check_unique(source, "index of a GPU", [gpu.index for gpu in gpus])
    _check_unique(source, "UUID", [gpu.uuid for gpu in gpus if gpu.uuid])
    _check_unique(source, "bus id", [bus_id for bus_id in bus_ids if bus_id])
    _check_unique(source, "NIC", [nic.name for nic in topology.nics])
    _check_unique(source, "NUMA node", [cpu.numa_node for cpu in topology.cpus])
    for bus_id in (*bus_ids, *(nic.pci_bus_id for nic in topology.nics), *topology.nvswitches):
        if bus_id and not BUS_ID.fullmatch(bus_id):
            raise FormatError(source, expected="PCI bus ids such as 0000:1b:00.0", found=bus_id)
    for device in _devices(topology):
        if device.root and not _HOST_BRIDGE.fullmatch(device.root):
            raise FormatError(f"{source}: {_name(device)}", expected="a host bridge such as 0000:15", found=device.root)
        if device.pcie:
            _check_pcie(device.pcie, f"{source}: {_name(device)}")


def _check_unique(source: str, what: str, values: Iterable[object]) -> None:
    twice = [value for value, count in Counter(values).items() if count > 1]
    if twice:
        raise FormatError(source, expected=f"each {what} once", found=f"{twice[0]} twice")


def is_pcie_link(generation: int, width: int) -> bool:
    """Returns whether a PCIe link can have these values. Devices without a PCIe link of their own report others."""
    return 1 <= generation <= MAX_GENERATION and 1 <= width <= MAX_WIDTH


def _check_pcie(pcie: Pcie, where: str) -> None:
    if not is_pcie_link(pcie.generation, pcie.width):
        raise FormatError(
            where, expected="a PCIe link such as generation 5, width 16", found=f"{pcie.generation}, {pcie.width}"
        )


def _check_gpu(gpu: Gpu, source: str) -> None:
    if gpu.compute_capability and not _CAPABILITY.fullmatch(gpu.compute_capability):
        raise FormatError(
            f"{source}: {gpu.label}", expected="a compute capability such as 9.0", found=gpu.compute_capability
        )
    _check_cpu_list(gpu.cpu_affinity, f"{source}: {gpu.label}")
    if gpu.c2c and not (1 <= gpu.c2c.links <= MAX_LINKS and 1 <= gpu.c2c.bandwidth_mbps <= MAX_MEASURED_MBPS):
        raise FormatError(f"{source}: {gpu.label}", expected="C2C links with a bandwidth", found=gpu.c2c)


def _check_cpu(cpu: Cpu, where: str) -> None:
    _check_cpu_list(cpu.affinity, where)
    if cpu.arch not in _CPU_ARCHITECTURES:
        raise FormatError(where, expected=" or ".join(_CPU_ARCHITECTURES), found=cpu.arch)
    if not _CPU_VENDOR.fullmatch(cpu.vendor):
        raise FormatError(where, expected="a CPU vendor such as GenuineIntel", found=cpu.vendor)
    for name, number in (("family", cpu.family), ("model", cpu.model)):
        if number > MAX_CPU_NUMBER:
            raise FormatError(where, expected=f"a CPU {name} of {MAX_CPU_NUMBER} at most", found=number)


def _check_cpu_list(cpus: str, where: str) -> None:
    ranges = [part.split("-") for part in cpus.split(",")] if _CPU_LIST.fullmatch(cpus) else None
    if cpus and (ranges is None or any(int(bounds[0]) > int(bounds[-1]) for bounds in ranges)):
        raise FormatError(where, expected="a list of CPUs such as 0-47,96-143", found=cpus)


def _check_links(topology: NodeTopology, source: str) -> None:
    targets = {gpu.label: {link.target for link in gpu.nvlinks} for gpu in topology.gpus}
    for gpu in topology.gpus:
        where = f"{source}: links of {gpu.label}"
        _check_unique(where, "target", [link.target for link in gpu.nvlinks])
        for link in gpu.nvlinks:
            _check_link(gpu, link, targets, where)


def _check_link(gpu: Gpu, link: NvLink, targets: Mapping[str, Set[str]], where: str) -> None:
    """Raises if a link is impossible. ``targets`` are the targets of each GPU's links, by its label."""
    if not (0 <= link.active <= link.count and 1 <= link.count <= MAX_LINKS):
        raise FormatError(
            where, expected="1 or more links, active ones among them", found=f"{link.active}/{link.count}"
        )
    if link.target == UNKNOWN and link.active:
        raise FormatError(where, expected="no active links to an unknown target", found=f"{link.active}")
    if link.target in (NVSWITCH, UNKNOWN):
        return
    if link.target not in targets or link.target == gpu.label:
        raise FormatError(where, expected=f"another GPU, {NVSWITCH} or {UNKNOWN}", found=link.target)
    if gpu.label not in targets[link.target]:
        raise FormatError(where, expected=f"links back from {link.target}", found="none")


def _check_parents(topology: NodeTopology, source: str) -> None:
    parents = {switch.pci_bus_id: switch.parent for switch in topology.switches}
    depths = {"": 0}
    for device in _devices(topology):
        above, path = device.parent, dict[str, None]()
        while above not in depths:
            if above not in parents or above in path:
                expected = "PCIe switches of the list, and a CPU at the top"
                raise FormatError(f"{source}: above {_name(device)}", expected=expected, found=above)
            path[above] = None
            above = parents[above]
        depths |= {switch: depth for depth, switch in enumerate(reversed(path), start=depths[above] + 1)}
        if depths[device.parent] > MAX_DEPTH:
            expected, found = f"at most {MAX_DEPTH} PCIe switches", depths[device.parent]
            raise FormatError(f"{source}: above {_name(device)}", expected=expected, found=found)


def _check_distances(topology: NodeTopology, source: str) -> None:
    devices: Sequence[tuple[str, Gpu | Nic]] = [
        *((gpu.label, gpu) for gpu in topology.gpus),
        *zip(topology.nic_labels, topology.nics, strict=True),
    ]
    paths = {(label, other): word for label, device in devices for other, word in device.distance}
    labels = {label for label, _ in devices}
    for (label, other), word in paths.items():
        where = f"{source}: path from {label}"
        if other not in labels or other == label:
            raise FormatError(where, expected="the label of another GPU or NIC", found=other)
        if word not in _PATHS:
            raise FormatError(f"{where} to {other}", expected=" or ".join(PciePath), found=word)
    for (label, other), word in paths.items():
        where = f"{source}: path from {label}"
        if paths.get((other, label), word) != word:
            raise FormatError(f"{where} to {other}", expected=f"{paths[other, label]}, as on the way back", found=word)


def _check_measured(topology: NodeTopology, source: str) -> None:
    labels = {gpu.label for gpu in topology.gpus}
    for gpu in topology.gpus:
        where = f"{source}: measured from {gpu.label}"
        told = [*gpu.measured, *gpu.slower]
        _check_unique(where, "GPU", [other for other, _ in told])
        for other, mbps in told:
            if other not in labels or other == gpu.label:
                raise FormatError(where, expected="the label of another GPU", found=other)
            if not 1 <= mbps <= MAX_MEASURED_MBPS:
                raise FormatError(f"{where} to {other}", expected=f"1 to {MAX_MEASURED_MBPS} MB/s", found=mbps)


def _devices(topology: NodeTopology) -> tuple[Gpu | PciSwitch | Nic, ...]:
    return (*topology.gpus, *topology.switches, *topology.nics)


def _name(device: Gpu | PciSwitch | Nic) -> str:
    if isinstance(device, Gpu):
        return device.label
    return device.name if isinstance(device, Nic) else device.pci_bus_id
