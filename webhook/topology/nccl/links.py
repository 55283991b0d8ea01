"""Links of an NCCL topology file between two GPUs or two switches: NCCL needs both directions.

Sources: NCCL 2.30.7, src/graph/topo.cc (ncclTopoAddNvLinks, ncclTopoAddPciLinks) and src/graph/paths.cc
(ncclTopoSetPaths).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webhook.topology.nccl.places import Place, is_gpu, kind_of
from webhook.topology.nccl.report import Diagnostic, GpuEntry, Severity, fails, quoted
from webhook.topology.nccl.values import HIDDEN_SWITCH, PciKind, bus_number, integer, is_bus_id, pci_kind

_NO_WAY_BACK = fails("Failed to find reverse path")


@dataclass(slots=True)
class _Direction:
    """What leads from one device to another, bonded."""

    place: Place
    """The first element."""
    count: int = 0
    """Links."""
    says_so: bool = False
    """An element has the class of its target; where none has, NCCL looks into ``/sys``."""


_Directions = dict[tuple[int, int], _Direction]


def check_links(places: Sequence[Place]) -> Iterator[Diagnostic]:
    """All that is wrong with links, seen from both of their ends."""
    gpus = _gpus(places)
    directions: _Directions = {}
    for gpu in gpus.values():
        yield from _read_nvlinks(gpu, gpus, directions)
    for ends in directions:
        yield from _one_sided(ends, directions, gpus)
        yield from _unequal(ends, directions)
    yield from _half_listed(gpus)
    yield from _check_pcilinks(places)


def gpu_entries(places: Sequence[Place]) -> tuple[GpuEntry, ...]:
    """The GPUs of the file with their NVLinks."""
    gpus = _gpus(places)
    return tuple(_entry(gpu, gpus) for gpu in gpus.values())


def _entry(gpu: Place, gpus: dict[int, Place]) -> GpuEntry:
    switch, direct = 0, dict[str, int]()
    for link in _nvlinks(gpu):
        count, target, kind = _count(link), link.element.get("target"), _kind(link, gpus)
        if kind is PciKind.NVSWITCH:
            switch += count
        elif kind is PciKind.GPU and target is not None:
            direct[target] = direct.get(target, 0) + count
    return GpuEntry(gpu.bus_id, switch, tuple(direct.items()))


def _gpus(places: Sequence[Place]) -> dict[int, Place]:
    """The GPUs that NCCL finds, by the number of their bus id: it takes the first device of that very text."""
    found: dict[int, Place] = {}
    for place in places:
        if place.element.name == "pci" and is_bus_id(place.element.get("busid") or ""):
            found.setdefault(bus_number(place.bus_id), place)
    return {number: place for number, place in found.items() if is_gpu(place.element)}


def _nvlinks(gpu: Place) -> list[Place]:
    """Those of the first ``gpu`` element, which is the only one that counts."""
    return [
        Place(link, (*gpu.above, gpu.element, first))
        for first in gpu.element.named("gpu")[:1]
        for link in first.named("nvlink")
    ]


def _count(link: Place) -> int:
    return integer(link.element.get("count") or "")


def _kind(link: Place, gpus: dict[int, Place]) -> PciKind:
    """GPU, CPU, or NVSwitch for everything else. Without a class, what ``/sys`` would say of a GPU of this file."""
    target, target_class = link.element.get("target"), link.element.get("tclass")
    if target_class is not None:
        kind = pci_kind(target_class)
        return kind if kind in (PciKind.GPU, PciKind.CPU) else PciKind.NVSWITCH
    known = target is not None and target != HIDDEN_SWITCH and bus_number(target) in gpus
    return PciKind.GPU if known else PciKind.NVSWITCH


def _read_nvlinks(gpu: Place, gpus: dict[int, Place], directions: _Directions) -> Iterator[Diagnostic]:
    """Adds the direct links of one GPU to ``directions``; finds those that lead nowhere."""
    for link in _nvlinks(gpu):
        target = link.element.get("target")
        if target is None or _kind(link, gpus) is not PciKind.GPU:
            continue
        ends = bus_number(gpu.bus_id), bus_number(target)
        if ends[0] == ends[1]:
            found = f"its own, {quoted(target)}"
            consequence = "NCCL makes no link of it, and asks NVML for no others of this GPU"
            yield link.finding(Severity.MISREADS, "the bus id of the other GPU", found, consequence)
        elif ends[1] not in gpus:
            consequence = "NCCL ignores the link, or fails where a rank has that GPU and NVML shows no link back"
            yield link.finding(Severity.MISREADS, "the bus id of a GPU of this file", quoted(target), consequence)
        else:
            direction = directions.setdefault(ends, _Direction(link))
            direction.count += _count(link)
            direction.says_so |= link.element.get("tclass") is not None


def _one_sided(ends: tuple[int, int], directions: _Directions, gpus: dict[int, Place]) -> Iterator[Diagnostic]:
    direction, back, peer = directions[ends], directions.get(ends[::-1]), gpus[ends[1]]
    if back is None:
        silent = not _nvlinks(peer)
        found = f"none from gpu {peer.bus_id}" + (", which lists no links" if silent else "")
        condition = " unless NVML shows it" if silent else ""
    elif direction.says_so and not back.says_so:
        found, condition = f"one without tclass in line {back.place.element.line}", " unless /sys shows the GPUs"
    else:
        return
    consequence = f"{_NO_WAY_BACK} where both are part of the job{condition}"
    yield direction.place.finding(Severity.ABORTS, "an nvlink in the other direction too", found, consequence)


def _unequal(ends: tuple[int, int], directions: _Directions) -> Iterator[Diagnostic]:
    direction, back = directions[ends], directions.get(ends[::-1])
    if back and ends[0] < ends[1] and back.count != direction.count:
        found = f"{direction.count} there and {back.count} back"
        consequence = "NCCL takes each direction as it is written"
        yield direction.place.finding(Severity.ADVICE, "as many links in both directions", found, consequence)


def _half_listed(gpus: dict[int, Place]) -> Iterator[Diagnostic]:
    silent = [gpu for gpu in gpus.values() if not _nvlinks(gpu)]
    if silent and len(silent) < len(gpus):
        others = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        consequence = "NCCL asks NVML for their links, and takes those of the others from the file"
        expected, found = "NVLinks of all GPUs or of none", f"none of this GPU{others}"
        yield silent[0].finding(Severity.ADVICE, expected, found, consequence)


def _check_pcilinks(places: Sequence[Place]) -> Iterator[Diagnostic]:
    switches = {bus_number(place.bus_id) for place in places if place.element.name == "pci" and _is_switch(place)}
    directions: dict[tuple[int, int], Place] = {}
    for place in places:
        target = place.element.get("target")
        if place.element.name != "pcilink" or target is None:
            continue
        if kind_of(place.parent) not in (PciKind.SWITCH, None):
            consequence = fails("Add PCI Link error : could not find PCI SW")
            yield place.finding(Severity.ABORTS, "it in a switch", "another device", consequence)
        elif bus_number(target) not in switches:
            expected = "the bus id of a switch of this file"
            yield place.finding(Severity.MISREADS, expected, quoted(target), "NCCL ignores the link")
        else:
            directions.setdefault((bus_number(place.bus_id), bus_number(target)), place)
    for ends, place in directions.items():
        if ends[::-1] not in directions:
            yield place.finding(Severity.ABORTS, "a pcilink in the other direction too", "none", _NO_WAY_BACK)


def _is_switch(place: Place) -> bool:
    return kind_of(place.element) is PciKind.SWITCH
