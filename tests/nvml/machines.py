"""Machines as the driver and the kernel show them: what the stub of NVML plays, and the files of sysfs.

The same machines as in ``tests/topology/machines.py``, from the other side. Bus numbers of ports between those of the
devices are made up.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

GEN3, GEN4, GEN5 = "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe"
GPU, NIC, NVSWITCH, BRIDGE = "0x030200", "0x020700", "0x068000", "0x060400"
"""PCI classes."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """One NVLink; the words are those of the stub."""

    state: str = "up"
    type: str = "switch"
    remote: str = "-"
    """A bus id as in NVML, or how NVML fails to tell it."""
    p2p: bool = True


@dataclass(frozen=True, kw_only=True)
class Card:
    """One GPU as NVML shows it."""

    uuid: str
    bus: str
    """As in sysfs."""
    name: str
    capability: tuple[int, int]
    memory_mib: int
    pcie: tuple[int, int]
    minor: int
    links: tuple[Link | None, ...] = ()
    """None is a link that the GPU does not have."""
    mig: bool | None = None
    c2c: tuple[tuple[str, int], ...] = ()
    fabric: str = ""
    affinity: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """More lines of the stub's description: ``lost``, ``error nvmlDeviceGetName 3``."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """One PCI device as sysfs shows it."""

    path: str
    """Below ``/sys/devices``; the ports on the way are like the device."""
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
    """A machine that can be played."""

    name: str
    cards: tuple[Card, ...]
    devices: tuple[Device, ...] = ()
    nics: tuple[Rdma, ...] = ()
    numa_nodes: tuple[str, ...] = ()
    """CPU lists."""
    cpuinfo: str = ""
    driver: str = "570.133.20"
    cuda: int = 12080
    lines: tuple[str, ...] = ()
    """More lines of the stub's description: ``error nvmlInitWithFlags 9``, ``p2p 0 3 1``."""

    def with_card(self, index: int, **changes: Any) -> "Machine":
        """One property of one GPU is another."""
        cards = tuple(replace(card, **changes) if place == index else card for place, card in enumerate(self.cards))
        return replace(self, cards=cards)

    def with_link(self, index: int, number: int, link: Link | None) -> "Machine":
        """One link of one GPU is another."""
        links = self.cards[index].links
        return self.with_card(index, links=(*links[:number], link, *links[number + 1 :]))

    def with_links_down(self, index: int, *numbers: int) -> "Machine":
        """Links of one GPU are down, and NVML does not tell where they lead."""
        machine = self
        for number in numbers:
            machine = machine.with_link(index, number, Link(state="down", type="unknown"))
        return machine

    def with_lines_of_each_card(self, *lines: str) -> "Machine":
        """More of what the stub understands, of each GPU."""
        return replace(self, cards=tuple(replace(card, lines=(*card.lines, *lines)) for card in self.cards))

    def with_slots(self, number: int, *, p2p: bool = False, code: int = 0) -> "Machine":
        """NVML answers for so many links of each GPU, whether they are there or not.

        Those that are not there are down, or have an error for a state.
        """
        return self.with_lines_of_each_card(f"slots {number} {int(p2p)} {code}")

    def without_link_count(self) -> "Machine":
        """A driver that does not know how many links its GPUs have."""
        return self.with_lines_of_each_card("field 91 3")

    def with_error(self, index: int, function: str, code: int) -> "Machine":
        """One function fails for one GPU."""
        return self.with_card(index, lines=(*self.cards[index].lines, f"error {function} {code}"))

    def with_counters(
        self,
        index: int,
        *,
        nvlink_kib: tuple[int, int] | None = None,
        pcie: tuple[int, int] | None = None,
        busy: int = -1,
    ) -> "Machine":
        """One GPU has these counters, each sent and received: of every link in KiB, of PCIe in bytes; and per cent."""
        card, lines = self.cards[index], []
        for link in range(len(card.links)) if nvlink_kib else ():
            lines += [f"value {138 + way} {link} ulonglong {kib}" for way, kib in enumerate(nvlink_kib or ())]
        lines += [f"value {197 + way} 0 ulonglong {sent}" for way, sent in enumerate(pcie or ())]
        lines += [f"utilization {busy} 0"] if busy >= 0 else []
        return self.with_card(index, lines=(*card.lines, *lines))

    def with_lost(self, index: int) -> "Machine":
        """One GPU has fallen off the bus."""
        return self.with_card(index, lines=("lost",))

    def with_mig(self, index: int) -> "Machine":
        """One GPU is cut into instances; its links are gone."""
        return self.with_card(index, mig=True, links=())

    def with_lines(self, *lines: str) -> "Machine":
        """More of what the stub understands."""
        return replace(self, lines=(*self.lines, *lines))

    def with_device(self, bus: str, **changes: Any) -> "Machine":
        """One property of one PCI device is another."""
        changed = {device.bus: replace(device, **changes) for device in self.devices if device.bus == bus}
        return replace(
            self,
            devices=tuple(changed.get(device.bus, device) for device in self.devices),
            nics=tuple(replace(nic, device=changed.get(nic.device.bus, nic.device)) for nic in self.nics),
        )

    def without_gpus(self) -> "Machine":
        """The driver finds none."""
        return replace(self, cards=())


def write_machine(machine: Machine, directory: Path) -> Path:
    """Writes the files of a machine below ``directory``, which becomes its root; gives the stub's description."""
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
    """What the stub reads."""
    lines = [f"driver {machine.driver}", f"cuda {machine.cuda}", *machine.lines]
    return lines + [f"gpu {index} {line}" for index, card in enumerate(machine.cards) for line in _card_lines(card)]


def in_nvml(bus: str) -> str:
    """A bus id of sysfs as NVML writes it: eight digits of domain, in capitals."""
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
    """A relative link, as the kernel makes them."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))


def _x86(vendor: str, family: int, model: int) -> str:
    block = (
        f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        "model name\t: a CPU\nflags\t\t: fpu vme\npower management:\n\n"
    )
    return f"processor\t: 0\n{block}processor\t: 1\n{block}"


ARM = (
    "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
    "CPU variant\t: 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 0\n\n"
)


def _uuid(index: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{index:012d}"


def to_switches(*counts: int, first: int) -> tuple[Link, ...]:
    """Links to NVSwitches on neighbouring buses, so many to each."""
    return tuple(
        Link(remote=f"00000000:{first + place:02X}:00.0") for place, count in enumerate(counts) for _ in range(count)
    )


_HGX_LINKS = to_switches(5, 4, 4, 5, first=0x07)
_FABRIC = "3 0 0 00000000000000000000000000000000"
"""Completed, success, clique 0."""


def _below_switch(root: str, switch: str, port: str, bus: str) -> str:
    """``root`` has a root port, below it a switch; ``port`` is one of its downstream ports."""
    return f"pci0000:{root}/0000:{root}:01.0/0000:{switch}:00.0/0000:{port}/0000:{bus}:00.0"


def hgx_a100() -> Machine:
    cpus = [
        "0-15,128-143",
        "16-31,144-159",
        "32-47,160-175",
        "48-63,176-191",
        "64-79,192-207",
        "80-95,208-223",
        "96-111,224-239",
        "112-127,240-255",
    ]
    buses = ["07", "0f", "47", "4e", "87", "90", "b7", "bd"]
    places = [("01", "02", "03", 3), ("41", "42", "43", 1), ("81", "82", "83", 7), ("b1", "b2", "b3", 5)]

    def device(bus: str, quarter: int, port: int, device_class: str) -> Device:
        root, switch, ports, node = places[quarter]
        path = _below_switch(root, switch, f"{ports}:{port:02x}.0", bus)
        return Device(path=path, speed=GEN4, numa_node=node, cpus=cpus[node], device_class=device_class)

    return Machine(
        name="hgx-a100",
        cards=tuple(
            Card(
                uuid=_uuid(index),
                bus=f"0000:{bus}:00.0",
                name="NVIDIA A100-SXM4-80GB",
                capability=(8, 0),
                memory_mib=81920,
                pcie=(4, 16),
                minor=index,
                mig=False,
                links=to_switches(2, 2, 2, 2, 2, 2, first=0xC4),
            )
            for index, bus in enumerate(buses)
        ),
        devices=tuple(device(bus, index // 2, index % 2, GPU) for index, bus in enumerate(buses)),
        nics=tuple(
            Rdma(name=f"mlx5_{number}", device=device(bus, number, 2, NIC), rate="200 Gb/sec (4X HDR)")
            for number, bus in enumerate(["0c", "4b", "8d", "ba"])
        ),
        numa_nodes=tuple(cpus),
        cpuinfo=_x86("AuthenticAMD", 23, 49),
    )


_HGX_BUSES = ["1b", "43", "52", "61", "9d", "c3", "d1", "df"]
_HGX_SWITCHES = ["19", "41", "50", "5f", "9b", "c1", "cf", "dd"]
_HGX_PORTS = ["1a", "42", "51", "60", "9c", "c2", "d0", "de"]
_HGX_ROOTS = ["18", "40", "4f", "5e", "9a", "c0", "ce", "dc"]


def _hgx_device(index: int, bus: str, port: int, cpus: tuple[str, ...], device_class: str) -> Device:
    path = _below_switch(_HGX_ROOTS[index], _HGX_SWITCHES[index], f"{_HGX_PORTS[index]}:{port:02x}.0", bus)
    return Device(path=path, numa_node=index // 4, cpus=cpus[index // 4], device_class=device_class)


def _hgx_card(index: int, **rest: Any) -> Card:
    return Card(
        uuid=_uuid(index),
        bus=f"0000:{_HGX_BUSES[index]}:00.0",
        pcie=(5, 16),
        minor=index,
        mig=False,
        fabric=_FABRIC,
        **rest,
    )


def hgx_h100() -> Machine:
    cpus = ("0-47,96-143", "48-95,144-191")
    return Machine(
        name="hgx-h100",
        cards=tuple(
            _hgx_card(index, name="NVIDIA H100 80GB HBM3", capability=(9, 0), memory_mib=81559, links=_HGX_LINKS)
            for index in range(8)
        ),
        devices=tuple(_hgx_device(index, bus, 0, cpus, GPU) for index, bus in enumerate(_HGX_BUSES)),
        nics=tuple(
            Rdma(name=f"mlx5_{index}", device=_hgx_device(index, bus, 1, cpus, NIC))
            for index, bus in enumerate(["1c", "44", "53", "62", "9e", "c4", "d2", "e0"])
        ),
        numa_nodes=cpus,
        cpuinfo=_x86("GenuineIntel", 6, 143),
    )


def hgx_b200() -> Machine:
    cpus = ("0-55,112-167", "56-111,168-223")
    links = to_switches(9, 9, first=0x07)
    return Machine(
        name="hgx-b200",
        cards=tuple(
            _hgx_card(index, name="NVIDIA B200", capability=(10, 0), memory_mib=183359, links=links)
            for index in range(8)
        ),
        devices=tuple(_hgx_device(index, bus, 0, cpus, GPU) for index, bus in enumerate(_HGX_BUSES)),
        numa_nodes=cpus,
        cpuinfo=_x86("GenuineIntel", 6, 207),
    )


_H20_AFFINITIES = (
    ("0000ffffffffffff", "ffffffff00000000", "ffff"),
    ("ffff000000000000", "00000000ffffffff", "ffffffffffff0000"),
)


def h20() -> Machine:
    cpus = ("0-47,96-143", "48-95,144-191")
    uuids = [
        "GPU-b0c5b618-67d0-f464-9905-e1fd41226305",
        "GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6",
        "GPU-4650fca3-dbba-f168-d6bd-338a4ba8f044",
        "GPU-9648f14e-6ab2-46f0-221f-777f7652630b",
        "GPU-f055d080-1808-96f1-1c87-70fad19d9040",
        "GPU-1c7e92d4-3fa8-5b06-8e41-6d20c9b7f35a",
        "GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8",
        "GPU-5af40c3e-917b-d82c-f6a5-b1e8372d0946",
    ]
    paths = [
        "pci0000:0b/0000:0b:01.0/0000:0c:00.0/0000:0d:01.0/0000:0f:00.0",
        "pci0000:2a/0000:2a:01.0/0000:2b:00.0/0000:2c:00.0/0000:2d:00.0",
        "pci0000:44/0000:44:01.0/0000:45:00.0/0000:46:01.0/0000:48:00.0",
        "pci0000:57/0000:57:01.0/0000:58:00.0/0000:59:00.0/0000:5a:00.0",
        "pci0000:83/0000:83:01.0/0000:84:00.0/0000:85:01.0/0000:87:00.0",
        "pci0000:ab/0000:ab:01.0/0000:ac:00.0/0000:ad:00.0/0000:ae:00.0",
        "pci0000:c0/0000:c0:01.0/0000:c1:00.0/0000:c2:01.0/0000:c4:00.0",
        "pci0000:d4/0000:d4:01.0/0000:d5:00.0/0000:d6:00.0/0000:d7:00.0",
    ]
    nics = [
        ("ibp14s0", "pci0000:0b/0000:0b:01.0/0000:0c:00.0/0000:0d:00.0/0000:0e:00.0", 0, "InfiniBand"),
        ("ibp71s0", "pci0000:44/0000:44:01.0/0000:45:00.0/0000:46:00.0/0000:47:00.0", 0, "InfiniBand"),
        ("ibp134s0", "pci0000:83/0000:83:01.0/0000:84:00.0/0000:85:00.0/0000:86:00.0", 1, "InfiniBand"),
        ("ibp195s0", "pci0000:c0/0000:c0:01.0/0000:c1:00.0/0000:c2:00.0/0000:c3:00.0", 1, "InfiniBand"),
        ("rocep32s0f0", "pci0000:1f/0000:1f:01.0/0000:20:00.0", 0, "Ethernet"),
    ]
    devices = tuple(Device(path=path, numa_node=index // 4, cpus=cpus[index // 4]) for index, path in enumerate(paths))
    return Machine(
        name="h20-node-1",
        cards=tuple(
            Card(
                uuid=uuid,
                bus=devices[index].bus,
                name="NVIDIA H20",
                capability=(9, 0),
                memory_mib=97871,
                pcie=(5, 16),
                minor=index,
                mig=False,
                links=_HGX_LINKS,
                fabric=_FABRIC,
                affinity=_H20_AFFINITIES[index // 4],
            )
            for index, uuid in enumerate(uuids)
        ),
        devices=devices,
        nics=tuple(
            Rdma(
                name=name,
                device=Device(path=path, speed=GEN4, numa_node=node, cpus=cpus[node], device_class=NIC),
                link_layer=layer,
                rate="200 Gb/sec (4X HDR)",
            )
            for name, path, node, layer in nics
        ),
        numa_nodes=cpus,
        cpuinfo=_x86("GenuineIntel", 6, 143),
    )


_DGX1_PEERS = [
    [1, 2, 3, 3, 4, 4],
    [0, 2, 2, 3, 5, 5],
    [0, 1, 1, 3, 3, 6],
    [0, 0, 1, 2, 2, 7],
    [0, 0, 5, 6, 7, 7],
    [1, 1, 4, 6, 6, 7],
    [2, 4, 5, 5, 7, 7],
    [3, 4, 4, 5, 6, 6],
]
"""Where each of the six links of a GPU leads."""


def dgx1_v100() -> Machine:
    cpus = ("0-19,40-59", "20-39,60-79")
    paths = [
        "pci0000:00/0000:00:02.0/0000:02:00.0/0000:03:01.0/0000:06:00.0",
        "pci0000:00/0000:00:02.0/0000:02:00.0/0000:03:02.0/0000:07:00.0",
        "pci0000:00/0000:00:03.0/0000:08:00.0/0000:09:00.0/0000:0a:00.0",
        "pci0000:00/0000:00:03.0/0000:08:00.0/0000:09:01.0/0000:0b:00.0",
        "pci0000:80/0000:80:02.0/0000:81:00.0/0000:82:01.0/0000:85:00.0",
        "pci0000:80/0000:80:02.0/0000:81:00.0/0000:82:02.0/0000:86:00.0",
        "pci0000:80/0000:80:03.0/0000:87:00.0/0000:88:00.0/0000:89:00.0",
        "pci0000:80/0000:80:03.0/0000:87:00.0/0000:88:01.0/0000:8a:00.0",
    ]
    nics = [
        "pci0000:00/0000:00:02.0/0000:02:00.0/0000:03:00.0/0000:05:00.0",
        "pci0000:00/0000:00:03.0/0000:08:00.0/0000:09:02.0/0000:0c:00.0",
        "pci0000:80/0000:80:02.0/0000:81:00.0/0000:82:00.0/0000:84:00.0",
        "pci0000:80/0000:80:03.0/0000:87:00.0/0000:88:02.0/0000:8b:00.0",
    ]
    devices = tuple(
        Device(path=path, speed=GEN3, numa_node=index // 4, cpus=cpus[index // 4]) for index, path in enumerate(paths)
    )
    return Machine(
        name="dgx1-v100",
        cards=tuple(
            Card(
                uuid=_uuid(index),
                bus=device.bus,
                name="Tesla V100-SXM2-32GB",
                capability=(7, 0),
                memory_mib=32768,
                pcie=(3, 16),
                minor=index,
                links=tuple(Link(type="gpu", remote=in_nvml(devices[peer].bus)) for peer in _DGX1_PEERS[index]),
            )
            for index, device in enumerate(devices)
        ),
        devices=devices,
        nics=tuple(
            Rdma(
                name=f"mlx5_{number}",
                device=Device(path=path, speed=GEN3, numa_node=number // 2, cpus=cpus[number // 2], device_class=NIC),
                rate="100 Gb/sec (4X EDR)",
            )
            for number, path in enumerate(nics)
        ),
        numa_nodes=cpus,
        cpuinfo=_x86("GenuineIntel", 6, 79),
    )


def a100_pcie_bridged() -> Machine:
    cpus = ("0-27,56-83", "28-55,84-111")
    paths = [
        "pci0000:16/0000:16:02.0/0000:17:00.0",
        "pci0000:64/0000:64:02.0/0000:65:00.0",
        "pci0000:c9/0000:c9:02.0/0000:ca:00.0",
        "pci0000:e2/0000:e2:02.0/0000:e3:00.0",
    ]
    devices = tuple(
        Device(path=path, speed=GEN4, numa_node=index // 2, cpus=cpus[index // 2]) for index, path in enumerate(paths)
    )
    return Machine(
        name="a100-pcie",
        cards=tuple(
            Card(
                uuid=_uuid(index),
                bus=device.bus,
                name="NVIDIA A100 80GB PCIe",
                capability=(8, 0),
                memory_mib=81920,
                pcie=(4, 16),
                minor=index,
                mig=False,
                links=(Link(type="gpu", remote=in_nvml(devices[[1, 0, 3, 2][index]].bus)),) * 12,
            )
            for index, device in enumerate(devices)
        ),
        devices=devices,
        numa_nodes=cpus,
        cpuinfo=_x86("GenuineIntel", 6, 106),
    )


def l40s() -> Machine:
    cpus = ("0-31,64-95", "32-63,96-127")
    paths = [
        "pci0000:1e/0000:1e:01.0/0000:1f:00.0/0000:20:00.0/0000:21:00.0",
        "pci0000:1e/0000:1e:01.0/0000:1f:00.0/0000:20:01.0/0000:22:00.0",
        "pci0000:3e/0000:3e:01.0/0000:3f:00.0/0000:40:00.0/0000:41:00.0",
        "pci0000:3e/0000:3e:01.0/0000:3f:00.0/0000:40:01.0/0000:42:00.0",
        "pci0000:9e/0000:9e:01.0/0000:9f:00.0/0000:a0:00.0/0000:a1:00.0",
        "pci0000:9e/0000:9e:01.0/0000:9f:00.0/0000:a0:01.0/0000:a2:00.0",
        "pci0000:be/0000:be:01.0/0000:bf:00.0/0000:c0:00.0/0000:c1:00.0",
        "pci0000:be/0000:be:01.0/0000:bf:00.0/0000:c0:01.0/0000:c2:00.0",
    ]
    devices = tuple(
        Device(path=path, speed=GEN4, numa_node=index // 4, cpus=cpus[index // 4]) for index, path in enumerate(paths)
    )
    return Machine(
        name="l40s",
        cards=tuple(
            Card(
                uuid=_uuid(index),
                bus=device.bus,
                name="NVIDIA L40S",
                capability=(8, 9),
                memory_mib=46068,
                pcie=(4, 16),
                minor=index,
            )
            for index, device in enumerate(devices)
        ),
        devices=devices,
        numa_nodes=cpus,
        cpuinfo=_x86("GenuineIntel", 6, 143),
    )


def gb200_tray() -> Machine:
    cpus = ("0-71", "72-143")
    domains = ["0008", "0009", "0018", "0019"]
    devices = tuple(
        Device(
            path=f"pci{domain}:00/{domain}:00:00.0/{domain}:01:00.0",
            numa_node=index // 2,
            cpus=cpus[index // 2],
        )
        for index, domain in enumerate(domains)
    )
    return Machine(
        name="gb200-tray",
        cards=tuple(
            Card(
                uuid=_uuid(index),
                bus=device.bus,
                name="NVIDIA GB200",
                capability=(10, 0),
                memory_mib=189471,
                pcie=(5, 16),
                minor=index,
                mig=False,
                links=(Link(type="switch", remote="empty"),) * 18,
                c2c=(("up", 44712),) * 10,
                fabric="3 0 7 5e3a91c470d24b6f8f15c2a9d4e60b37",
            )
            for index, device in enumerate(devices)
        ),
        devices=devices,
        numa_nodes=cpus,
        cpuinfo=ARM,
    )


def hidden_switches() -> Machine:
    """Below a hypervisor's bus there is no port, and all CPUs are as near as any."""
    bus = "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00"
    devices = tuple(
        Device(
            path=f"{bus}/0000000{number}-000{number}-0000-3130-444531444335/pci000{number}:00/000{number}:00:00.0",
            cpus="0-95",
        )
        for number in range(1, 9)
    )
    return Machine(
        name="h100-vm",
        cards=tuple(
            Card(
                uuid=_uuid(index),
                bus=device.bus,
                name="NVIDIA H100 80GB HBM3",
                capability=(9, 0),
                memory_mib=81559,
                pcie=(5, 16),
                minor=index,
                mig=False,
                links=(Link(type="unknown", remote="garbage"),) * 18,
                fabric=_FABRIC,
            )
            for index, device in enumerate(devices)
        ),
        devices=devices,
        numa_nodes=("0-47", "48-95"),
        cpuinfo=_x86("GenuineIntel", 6, 143),
    )
