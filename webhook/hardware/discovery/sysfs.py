"""Facts about PCI devices, NUMA nodes, CPUs and NICs, read from sysfs and ``/proc/cpuinfo``.

All files are read below a root directory, which in a container may be a mount of the host's root. A missing file means
an unknown value and never an error: virtual machines, Arm and containers each lack some files.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from webhook.hardware.discovery.facts import CpuFacts, NicFacts, PciFacts, SysfsFacts

_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HOST_BRIDGE = re.compile(r"pci([0-9a-f]{4}:[0-9a-f]{2})")
_NUMA_NODE = re.compile(r"node(\d+)")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""PCIe generation by the GT/s of one lane: PCI Express Base Specification."""
_MOST_TEXT = 4096
"""The most bytes that a file of sysfs has."""


def read_sysfs(root: Path, bus_ids: Iterable[str]) -> SysfsFacts:
    """Reads the facts from the files below ``root``.

    Args:
        root: ``/``, or the directory at which the host's root is mounted.
        bus_ids: PCI devices to read, besides those of the NICs.
    """
    nics = tuple(_read_nics(root))
    wanted = dict.fromkeys([*bus_ids, *(nic.bus_id for nic in nics)])
    return SysfsFacts(
        root=str(root),
        pci=_read_devices(root, wanted),
        numa_nodes=_read_numa_nodes(root),
        cpu=_read_cpu(root),
        nics=nics,
    )


def _read_devices(root: Path, bus_ids: Iterable[str]) -> dict[str, PciFacts]:
    """Reads those of the devices that exist, and the switches above them."""
    found: dict[str, PciFacts] = {}
    for bus_id in bus_ids:
        path = _real_path(root / "sys/bus/pci/devices" / bus_id)
        above: Path | None = path if path.name == bus_id and _names(path) else None
        while above and above.name not in found:
            found[above.name] = device = _read_device(above)
            above = above.parent.parent if device.parent else None
    return found


def _real_path(path: Path) -> Path:
    return Path(os.path.realpath(path))  # unlike Path.resolve, raises nothing where links form a circle


def _read_device(path: Path) -> PciFacts:
    bridges, top = _above(path)
    host_bridge = _HOST_BRIDGE.fullmatch(top)
    numa_node = _read_integer(path / "numa_node", -1)
    return PciFacts(
        bus_id=path.name,
        device_class=_read(path / "class"),
        # The nearest bridge is a root port or a downstream port; above the latter is its switch: NCCL src/graph/xml.cc.
        parent=bridges[1] if len(bridges) > 1 else "",
        root=host_bridge[1] if host_bridge else "",
        numa_node=numa_node if numa_node >= 0 else None,
        cpus=_read(path / "local_cpulist"),
        generation=_least(_read_generation(path), _read_generation(path.parent)),
        width=_least(_read_integer(path / "max_link_width"), _read_integer(path.parent / "max_link_width")),
    )


def _above(path: Path) -> tuple[list[str], str]:
    """Returns the bus ids of the bridges above a device, nearest first, and the name of the directory above them."""
    names = [above.name for above in path.parents]
    bridges = list(takewhile(_BUS_ID.fullmatch, names))
    return bridges, names[len(bridges)]


def _read_generation(path: Path) -> int:
    number = _NUMBER.match(_read(path / "max_link_speed"))
    return _GENERATIONS.get(float(number[0]), 0) if number else 0


def _least(own: int, ports: int) -> int:
    """Returns the lesser value of a link's two ends, which limits the link; 0 is an end with an unknown value."""
    return min(own, ports) if own and ports else own or ports


def _read_numa_nodes(root: Path) -> dict[int, str]:
    directory = root / "sys/devices/system/node"
    numbers = sorted(int(node[1]) for name in _names(directory) if (node := _NUMA_NODE.fullmatch(name)))
    if not numbers:  # a kernel without NUMA has one node
        return {0: _read(root / "sys/devices/system/cpu/online")}
    return {number: _read(directory / f"node{number}" / "cpulist") for number in numbers}


def _read_cpu(root: Path) -> CpuFacts:
    first = _read_first_cpu(root / "proc/cpuinfo")
    if "CPU implementer" in first:
        return CpuFacts(arch="arm64")
    if first.get("cpu", "").startswith("POWER"):
        return CpuFacts(arch="ppc64")
    return CpuFacts(
        vendor=first.get("vendor_id", ""),
        family=_integer(first.get("cpu family", "")),
        model=_integer(first.get("model", "")),
    )


def _read_first_cpu(path: Path) -> dict[str, str]:
    """Reads the first block of cpuinfo only: with many CPUs the kernel takes long to write all blocks."""
    lines: dict[str, str] = {}
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            name, colon, value = line.rstrip("\n").partition(":")
            if not colon:
                break
            lines[name.strip()] = value.removeprefix(" ")  # the vendor "  Shanghai  " has blanks of its own
    return lines


def _read_nics(root: Path) -> Iterator[NicFacts]:
    directory = root / "sys/class/infiniband"
    for name in sorted(_names(directory), key=_natural):
        device = _pci_device(directory / name / "device")
        # Virtual functions come and go with the pods that get them, and share the link of their NIC.
        if device is None or "physfn" in _names(device):
            continue
        port = directory / name / "ports" / "1"
        yield NicFacts(
            name=name,
            bus_id=device.name,
            link_layer=_read(port / "link_layer"),
            speed_gbps=_integer(_read(port / "rate")),
        )


def _pci_device(link: Path) -> Path | None:
    """Returns the PCI device that a device is, or is a part of; None for a software device."""
    path = _real_path(link)
    return next((above for above in (path, *path.parents) if _BUS_ID.fullmatch(above.name)), None)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _names(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_TEXT).decode(errors="replace").strip()
    except OSError:
        return ""


def _read_integer(path: Path, default: int = 0) -> int:
    return _integer(_read(path), default)


def _integer(text: str, default: int = 0) -> int:
    """Returns the number at the start of a text, cut to an integer, or ``default`` if there is none."""
    number = re.match(r"-?\d+", text.strip())
    return int(number[0]) if number else default
