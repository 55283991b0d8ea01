"""Machines as the driver and the kernel show them: the description that the stub of NVML plays, and files of sysfs.

The machines are those of ``tests/hardware/topology/machines.py``, where each is typed once, as a topology. This module
turns a topology into the answers of NVML and the files of sysfs. The tested code, discovery, goes the other way and
shares no code with this module, so a value that is lost or invented on either way makes the two topologies differ.
Paths between NICs and GPUs, which discovery finds in the tree of PCI devices, are not used here.

Bus numbers of ports between those of the devices are invented.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.hardware.topology import machines as topologies
from webhook.hardware.topology.model import NVSWITCH as TO_SWITCHES
from webhook.hardware.topology.model import Cpu, Fabric, Gpu, MigMode, Nic, NodeTopology

GEN3, GEN4, GEN5 = "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe"
GPU, NIC, NVSWITCH, BRIDGE = "0x030200", "0x020700", "0x068000", "0x060400"
"""PCI classes."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """One NVLink, in the words of the stub."""

    state: str = "up"
    type: str = "switch"
    remote: str = "-"
    """A bus id as in NVML, or a word for the way in which NVML fails to report it."""
    p2p: bool = True


@dataclass(frozen=True, kw_only=True)
class Card:
    """One GPU as NVML shows it."""

    uuid: str
    bus: str
    """Bus id as in sysfs."""
    name: str
    capability: tuple[int, int]
    memory_mib: int
    pcie: tuple[int, int]
    minor: int
    links: tuple[Link | None, ...] = ()
    """The links by number; None for a link that the GPU does not have."""
    mig: bool | None = None
    c2c: tuple[tuple[str, int], ...] = ()
    fabric: str = ""
    affinity: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """Further lines of the stub's description: ``lost``, ``error nvmlDeviceGetName 3``."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """One PCI device as sysfs shows it."""

    path: str
    """Path below ``/sys/devices``. The ports on the way have the values of the device."""
    speed: str = GEN5
    width: str = "16"
    numa_node: int = -1
    cpus: str = ""
    device_class: str = GPU

    @property
    def bus(self) -> str:
        return self.path.rsplit("/", 1)[1]


@dataclass(frozen=True, kw_only=True)
class Rdma:
    """One RDMA device."""

    name: str
    device: Device
    link_layer: str = "InfiniBand"
    rate: str = "400 Gb/sec (4X NDR)"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine that the stub can play."""

    name: str
    cards: tuple[Card, ...]
    devices: tuple[Device, ...] = ()
    nics: tuple[Rdma, ...] = ()
    numa_nodes: tuple[str, ...] = ()
    """The CPU list of each NUMA node."""
    cpuinfo: str = ""
    driver: str = "570.133.20"
    cuda: int = 12080
    lines: tuple[str, ...] = ()
    """Further lines of the stub's description: ``error nvmlInitWithFlags 9``, ``p2p 0 3 1``."""

    def with_card(self, index: int, **changes: Any) -> "Machine":
        """Returns the machine with other properties of one GPU."""
        cards = tuple(replace(card, **changes) if place == index else card for place, card in enumerate(self.cards))
        return replace(self, cards=cards)

    def with_link(self, index: int, number: int, link: Link | None) -> "Machine":
        """Returns the machine with another link of one GPU."""
        links = self.cards[index].links
        return self.with_card(index, links=(*links[:number], link, *links[number + 1 :]))

    def with_links_down(self, index: int, *numbers: int) -> "Machine":
        """Returns the machine with links of one GPU down, whose targets NVML does not report."""
        machine = self
        for number in numbers:
            machine = machine.with_link(index, number, Link(state="down", type="unknown"))
        return machine

    def with_lines_of_each_card(self, *lines: str) -> "Machine":
        """Returns the machine with further lines of the stub's description for each GPU."""
        return replace(self, cards=tuple(replace(card, lines=(*card.lines, *lines)) for card in self.cards))

    def with_slots(self, number: int, *, p2p: bool = False, code: int = 0) -> "Machine":
        """Returns the machine with an NVML that answers for ``number`` links of each GPU, even if the GPU has fewer.

        The links that the GPU does not have are down, or have an error for a state.
        """
        return self.with_lines_of_each_card(f"slots {number} {int(p2p)} {code}")

    def without_link_count(self) -> "Machine":
        """Returns the machine with a driver that does not know the number of links of its GPUs."""
        return self.with_lines_of_each_card("field 91 3")

    def with_error(self, index: int, function: str, code: int) -> "Machine":
        """Returns the machine with one function that fails for one GPU."""
        return self.with_card(index, lines=(*self.cards[index].lines, f"error {function} {code}"))

    def with_counters(
        self,
        index: int,
        *,
        nvlink_kib: tuple[int, int] | None = None,
        pcie: tuple[int, int] | None = None,
        busy: int = -1,
    ) -> "Machine":
        """Returns the machine with these counters of one GPU, each for sent and received.

        Args:
            index: The GPU.
            nvlink_kib: KiB of every NVLink.
            pcie: Bytes of PCIe.
            busy: Utilisation in per cent.
        """
        card, lines = self.cards[index], []
        for link in range(len(card.links)) if nvlink_kib else ():
            lines += [f"value {138 + way} {link} ulonglong {kib}" for way, kib in enumerate(nvlink_kib or ())]
        lines += [f"value {197 + way} 0 ulonglong {sent}" for way, sent in enumerate(pcie or ())]
        lines += [f"utilization {busy} 0"] if busy >= 0 else []
        return self.with_card(index, lines=(*card.lines, *lines))

    def with_lost(self, index: int) -> "Machine":
        """Returns the machine with one GPU that has fallen off the bus."""
        return self.with_card(index, lines=("lost",))

    def with_mig(self, index: int) -> "Machine":
        """Returns the machine with one GPU in MIG mode, without links."""
        return self.with_card(index, mig=True, links=())

    def with_lines(self, *lines: str) -> "Machine":
        """Returns the machine with further lines of the stub's description."""
        return replace(self, lines=(*self.lines, *lines))

    def with_device(self, bus: str, **changes: Any) -> "Machine":
        """Returns the machine with other properties of one PCI device."""
        changed = {device.bus: replace(device, **changes) for device in self.devices if device.bus == bus}
        return replace(
            self,
            devices=tuple(changed.get(device.bus, device) for device in self.devices),
            nics=tuple(replace(nic, device=changed.get(nic.device.bus, nic.device)) for nic in self.nics),
        )

    def without_gpus(self) -> "Machine":
        """Returns the machine with a driver that finds no GPU."""
        return replace(self, cards=())


def write_machine(machine: Machine, directory: Path) -> Path:
    """Writes the files of a machine below ``directory``, its root. Returns the path of the stub's description."""
    directory.mkdir(parents=True, exist_ok=True)
    for device in (*machine.devices, *(nic.device for nic in machine.nics)):
        _write_device(device, directory / "sys")
    for nic in machine.nics:
        _write_rdma(nic, directory / "sys")
    _write_cpus(machine, directory)
    description = directory / "nvml.txt"
    text = "".join(f"{line}\n" for line in description_of(machine))
    description.write_text(text, encoding="utf-8", errors="surrogateescape")  # bytes that are no text are "\udcff"
    return description


def description_of(machine: Machine) -> list[str]:
    """Returns the lines of the description that the stub reads."""
    lines = [f"driver {machine.driver}", f"cuda {machine.cuda}", *machine.lines]
    return lines + [f"gpu {index} {line}" for index, card in enumerate(machine.cards) for line in _card_lines(card)]


def in_nvml(bus: str) -> str:
    """Returns a bus id of sysfs as NVML writes it: eight digits of domain, in capitals."""
    return bus.upper().rjust(len("00000000:1B:00.0"), "0")


def _card_lines(card: Card) -> list[str]:
    lines = [
        f"uuid {card.uuid}",
        f"bus {in_nvml(card.bus)}",
        f"name {card.name}",
        f"minor {card.minor}",
        f"capability {card.capability[0]} {card.capability[1]}",
        f"memory {card.memory_mib * 1024 * 1024}",
        f"pcie {card.pcie[0]} {card.pcie[1]}",
        *(f"c2c {number} {state} {mbps}" for number, (state, mbps) in enumerate(card.c2c)),
        *(_link_line(number, link) for number, link in enumerate(card.links) if link),
    ]
    if card.mig is not None:
        lines.append("mig 1 1" if card.mig else "mig 0 0")
    if card.fabric:
        lines.append(f"fabric {card.fabric}")
    if card.affinity:
        lines.append(f"affinity {' '.join(card.affinity)}")
    return lines + list(card.lines)


def _link_line(number: int, link: Link) -> str:
    return f"link {number} {link.state} {link.type} {link.remote}" + ("" if link.p2p else " no-p2p")


def _write_device(device: Device, sysfs: Path) -> None:
    names = device.path.split("/")
    first = next(place for place, name in enumerate(names) if name.startswith("pci")) + 1
    for place in range(first, len(names)):
        path = "/".join(names[: place + 1])
        directory = sysfs / "devices" / path
        if directory.exists():
            continue
        directory.mkdir(parents=True)
        own = place == len(names) - 1
        for name, text in {
            "class": device.device_class if own else BRIDGE,
            "numa_node": str(device.numa_node),
            "local_cpulist": device.cpus,
            "max_link_speed": device.speed,
            "max_link_width": device.width if own else "16",
        }.items():
            (directory / name).write_text(text + "\n")
        link_to(sysfs / "bus/pci/devices" / names[place], directory)


def _write_rdma(nic: Rdma, sysfs: Path) -> None:
    parent = sysfs / "devices" / nic.device.path
    directory = parent / "infiniband" / nic.name
    (directory / "ports/1").mkdir(parents=True)
    (directory / "ports/1/link_layer").write_text(nic.link_layer + "\n")
    (directory / "ports/1/rate").write_text(nic.rate + "\n")
    link_to(directory / "device", parent)
    link_to(sysfs / "class/infiniband" / nic.name, directory)


def _write_cpus(machine: Machine, root: Path) -> None:
    nodes = root / "sys/devices/system/node"
    for number, cpus in enumerate(machine.numa_nodes):
        (nodes / f"node{number}").mkdir(parents=True)
        (nodes / f"node{number}/cpulist").write_text(cpus + "\n")
        (nodes / "has_cpu").write_text("0\n")
    if machine.cpuinfo:
        (root / "proc").mkdir()
        (root / "proc/cpuinfo").write_text(machine.cpuinfo)


def link_to(link: Path, target: Path) -> None:
    """Makes a relative link, as the kernel does."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))


ARM = (
    "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
    "CPU variant\t: 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 0\n\n"
)
_SPEEDS = {3: GEN3, 4: GEN4, 5: GEN5}
_RATES = {100: "100 Gb/sec (4X EDR)", 200: "200 Gb/sec (4X HDR)", 400: "400 Gb/sec (4X NDR)"}
_MIG = {MigMode.UNSUPPORTED: None, MigMode.DISABLED: False, MigMode.ENABLED: True}


def machine_of(topology: NodeTopology, *, to_each_switch: tuple[int, ...] = (), hidden: Link | None = None) -> Machine:
    """Returns the machine that has this topology.

    Args:
        topology: A complete topology without lost GPUs, typed by hand.
        to_each_switch: Number of links from each GPU to each NVSwitch.
        hidden: Each link of a GPU to a switch, if the switches are hidden.
    """
    cuda, minor = map(int, topology.cuda_version.split("."))
    switches = () if hidden else tuple(zip(topology.nvswitches, to_each_switch, strict=True))

    def links(gpu: Gpu) -> tuple[Link, ...]:
        found: list[Link] = []
        for joined in gpu.nvlinks:
            if joined.target != TO_SWITCHES:
                peer = topology.gpus[int(joined.target.removeprefix("GPU"))]
                found += [Link(type="gpu", remote=in_nvml(peer.pci_bus_id))] * joined.count
            elif hidden:
                found += [hidden] * joined.count
            else:
                found += [Link(remote=in_nvml(switch)) for switch, count in switches for _ in range(count)]
        return tuple(found)

    return Machine(
        name=topology.node,
        cards=tuple(_card(gpu, links(gpu), topology.fabric) for gpu in topology.gpus),
        devices=tuple(_device(topology, gpu, GPU) for gpu in topology.gpus),
        nics=tuple(
            Rdma(
                name=nic.name,
                device=_device(topology, nic, NIC),
                link_layer=nic.link_layer,
                rate=_RATES[nic.speed_gbps],
            )
            for nic in topology.nics
        ),
        numa_nodes=tuple(cpu.affinity for cpu in topology.cpus),
        cpuinfo=_cpuinfo(topology.cpus[0]),
        driver=topology.driver_version,
        cuda=1000 * cuda + 10 * minor,
    )


def _card(gpu: Gpu, links: tuple[Link, ...], fabric: Fabric | None) -> Card:
    major, minor = gpu.compute_capability.split(".")
    return Card(
        uuid=gpu.uuid,
        bus=gpu.pci_bus_id,
        name=gpu.name,
        capability=(int(major), int(minor)),
        memory_mib=gpu.memory_mib,
        pcie=(gpu.pcie.generation, gpu.pcie.width) if gpu.pcie else (0, 0),
        minor=gpu.index,
        mig=_MIG[gpu.mig_mode],
        links=links,
        c2c=(("up", gpu.c2c.bandwidth_mbps),) * gpu.c2c.links if gpu.c2c else (),
        fabric=f"3 0 {fabric.clique_id or 0} {fabric.cluster_uuid.replace('-', '') or '0' * 32}" if fabric else "",
    )


def _device(topology: NodeTopology, of: Gpu | Nic, device_class: str) -> Device:
    """Returns a device below a root port or, with a parent, below a switch whose ports are on the next bus."""
    way = [f"pci{of.root}"]
    if of.parent:
        every: tuple[Gpu | Nic, ...] = (*topology.gpus, *topology.nics)
        above = sorted({each.parent for each in every if each.root == of.root})
        below = sorted(each.pci_bus_id for each in every if each.parent == of.parent)
        domain, bus, _ = of.parent.split(":")
        port = f"{domain}:{int(bus, 16) + 1:02x}:{below.index(of.pci_bus_id):02x}.0"
        way += [f"{of.root}:{above.index(of.parent) + 1:02x}.0", of.parent, port]
    else:
        way.append(f"{of.root}:01.0")
    cpus = "" if of.numa_node is None else topology.cpus[of.numa_node].affinity
    return Device(
        path="/".join((*way, of.pci_bus_id)),
        speed=_SPEEDS[of.pcie.generation] if of.pcie else "",
        numa_node=-1 if of.numa_node is None else of.numa_node,
        cpus=cpus,
        device_class=device_class,
    )


def _cpuinfo(cpu: Cpu) -> str:
    if cpu.arch == "arm64":
        return ARM
    block = (
        f"vendor_id\t: {cpu.vendor}\ncpu family\t: {cpu.family}\nmodel\t\t: {cpu.model}\n"
        "model name\t: a CPU\nflags\t\t: fpu vme\npower management:\n\n"
    )
    return f"processor\t: 0\n{block}processor\t: 1\n{block}"


def hgx_a100() -> Machine:
    return machine_of(topologies.hgx_a100(), to_each_switch=(2, 2, 2, 2, 2, 2))


def hgx_h100() -> Machine:
    return machine_of(topologies.hgx_h100(), to_each_switch=(5, 4, 4, 5))


def hgx_b200() -> Machine:
    return machine_of(topologies.hgx_b200(), to_each_switch=(9, 9))


def h20() -> Machine:
    """Eight H20. NVML reports the CPUs of the cards as masks."""
    machine = machine_of(topologies.h20(), to_each_switch=(5, 4, 4, 5))
    masks = (
        ("0000ffffffffffff", "ffffffff00000000", "ffff"),
        ("ffff000000000000", "00000000ffffffff", "ffffffffffff0000"),
    )
    return replace(
        machine, cards=tuple(replace(card, affinity=masks[index // 4]) for index, card in enumerate(machine.cards))
    )


def dgx1_v100() -> Machine:
    return machine_of(topologies.dgx1_v100())


def a100_pcie_bridged() -> Machine:
    return machine_of(topologies.a100_pcie_bridged())


def l40s() -> Machine:
    return machine_of(topologies.l40s())


def gb200_tray() -> Machine:
    return machine_of(topologies.gb200_tray(), hidden=Link(remote="empty"))


def hidden_switches() -> Machine:
    """A virtual machine that does not see the NVSwitches.

    The bus of the hypervisor has no ports, and all CPUs are equally near.
    """
    machine = machine_of(topologies.hidden_switches(), hidden=Link(type="unknown", remote="garbage"))
    bus = "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00"
    devices = tuple(
        replace(
            device,
            path=f"{bus}/0000000{number}-000{number}-0000-3130-444531444335/pci000{number}:00/{device.bus}",
            cpus="0-95",
        )
        for number, device in enumerate(machine.devices, start=1)
    )
    return replace(machine, devices=devices)


MACHINES: dict[str, Callable[[], Machine]] = {
    each.__name__: each
    for each in (
        hgx_a100,
        hgx_h100,
        h20,
        hgx_b200,
        dgx1_v100,
        a100_pcie_bridged,
        l40s,
        gb200_tray,
        hidden_switches,
    )
}
"""The machines by name, which is also the name of the topology."""
