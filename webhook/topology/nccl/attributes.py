"""What is wrong with the attributes of one element, whatever else is in the file.

Sources: NCCL 2.30.7, src/graph/topo.cc (ncclTopoAddCpu, ncclTopoAddPci, ncclTopoAddNvLinks and their neighbours) and
src/graph/xml.cc (what NCCL fills in by itself).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from webhook.topology.nccl.places import Place
from webhook.topology.nccl.reader import MAX_ATTRIBUTES
from webhook.topology.nccl.report import Diagnostic, Severity, fails, quoted
from webhook.topology.nccl.values import (
    ARCHITECTURES,
    HIDDEN_SWITCH,
    INTEL,
    MAX_DEVICES,
    MAX_MASK_WORDS,
    VENDORS,
    ZHAOXIN,
    PciKind,
    integer,
    is_bus_id,
    is_integer,
    is_known_speed,
    is_mask,
    mask_words,
    pci_kind,
)

KNOWN: dict[str, tuple[str, ...]] = {
    "system": ("version", "name"),
    "cpu": ("numaid", "affinity", "arch", "vendor", "familyid", "modelid", "host_hash"),
    "pci": (
        *("busid", "class", "link_speed", "link_width"),
        *("vendor", "device", "subsystem_vendor", "subsystem_device"),
    ),
    "gpu": ("dev", "sm", "gdr", "rank", "mlopart"),
    "nvlink": ("target", "count", "tclass"),
    "c2c": ("bw", "count"),
    "nic": (),
    "net": (
        *("name", "dev", "speed", "port", "latency", "guid", "maxconn", "gdr"),
        *("coll", "net", "gin", "rma", "rail", "plane"),
    ),
    "pcilink": ("target",),
}
"""What NCCL reads; besides, ``keep`` of any element."""

_FILLED: dict[str, tuple[str, ...]] = {
    "cpu": ("host_hash", "affinity", "arch", "vendor", "familyid", "modelid"),
    "pci": ("class", "link_speed", "link_width", "vendor", "device", "subsystem_vendor", "subsystem_device"),
    "gpu": ("dev", "sm", "keep", "rank", "gdr", "mlopart"),
    "net": ("keep", "dev", "latency", "speed", "port", "guid", "maxconn", "gdr", "net"),
}
"""What NCCL adds where it is missing."""
_ROOM = MAX_ATTRIBUTES + 1
"""Attributes that fit into an element (``attrs`` in src/graph/xml.h); NCCL does not look whether what it adds does."""

_REQUIRED: dict[str, tuple[str, ...]] = {
    "cpu": ("numaid",),
    "nvlink": ("count",),
    "c2c": ("bw", "count"),
    "pcilink": ("target",),
}
_INTEGERS: dict[str, tuple[str, ...]] = {
    "cpu": ("familyid", "modelid"),
    "pci": ("link_width",),
    "gpu": ("dev", "sm", "gdr"),
    "nvlink": ("count",),
    "c2c": ("bw", "count"),
    "net": ("speed", "port", "maxconn", "gdr", "coll", "net", "gin", "rma", "rail", "plane"),
}
_POSITIVE: dict[str, tuple[str, ...]] = {"nvlink": ("count",), "c2c": ("bw", "count")}
_HEXADECIMAL = ("vendor", "device", "subsystem_vendor", "subsystem_device")

_NUMA_ID = re.compile(r"-1|0|[1-9][0-9]*")
_PCI_ID = re.compile(r"0x[0-9a-fA-F]{1,4}")
_BUS_ID_FORM = "a lower-case bus id such as 0000:1b:00.0"
_SM = range(30, 200)
"""Compute capabilities that CUDA GPUs have or will have for some time, as major * 10 + minor."""


def check_attributes(place: Place) -> Iterator[Diagnostic]:
    """All that is wrong with the attributes of one element."""
    for rule in (_unknown, _repeated, _too_many, _missing, _not_integers, _not_positive):
        yield from rule(place)
    for own in _OWN.get(place.element.name, ()):
        yield from own(place)


def _unknown(place: Place) -> Iterator[Diagnostic]:
    known = KNOWN[place.element.name]
    for key in dict.fromkeys(key for key, _ in place.element.attributes):
        if key and key != "keep" and key not in known:
            expected = f"only {', '.join(known)}" if known else "no attributes"
            yield place.finding(Severity.MISREADS, expected, quoted(key), "NCCL ignores it")


def _repeated(place: Place) -> Iterator[Diagnostic]:
    counts = Counter(key for key, _ in place.element.attributes if key)
    for key, count in counts.items():
        if count > 1:
            consequence = "NCCL takes the first and ignores the others"
            yield place.finding(Severity.MISREADS, f"{quoted(key)} once", f"it {count} times", consequence)


def _too_many(place: Place) -> Iterator[Diagnostic]:
    element = place.element
    if element.dropped:
        expected, found = f"at most {MAX_ATTRIBUTES} attributes", f"{element.dropped} more"
        yield place.finding(Severity.MISREADS, expected, found, "NCCL drops those behind the last one that fits")
    stored = len(element.attributes)
    added = sum(element.get(key) is None for key in _FILLED.get(element.name, ()))
    if added and stored + added > _ROOM:
        yield place.finding(
            Severity.ABORTS,
            f"at most {_ROOM - added} attributes, surplus spaces counted",
            str(stored),
            f"NCCL adds up to {added} of its own, writes behind the end of the element and crashes or reads nonsense",
        )


def _missing(place: Place) -> Iterator[Diagnostic]:
    name = place.element.name
    for key in _REQUIRED.get(name, ()):
        if place.element.get(key) is None:
            yield place.finding(Severity.ABORTS, key, "none", fails(f"Attribute {key} of node {name} not found"))


def _not_integers(place: Place) -> Iterator[Diagnostic]:
    for key in _INTEGERS.get(place.element.name, ()):
        text = place.element.get(key)
        # An empty width is what NCCL writes itself, and has a rule of its own.
        if text is not None and not is_integer(text) and not (key == "link_width" and not text):
            expected, consequence = f"a whole number as {key}", f"NCCL reads {integer(text)}"
            yield place.finding(Severity.MISREADS, expected, quoted(text), consequence)


def _not_positive(place: Place) -> Iterator[Diagnostic]:
    for key in _POSITIVE.get(place.element.name, ()):
        text = place.element.get(key)
        if text is not None and is_integer(text) and integer(text) <= 0:
            consequence = "NCCL makes a link that carries nothing"
            yield place.finding(Severity.MISREADS, f"a {key} above 0", quoted(text), consequence)


def _cpu_numa_id(place: Place) -> Iterator[Diagnostic]:
    text = place.element.get("numaid")
    if text is not None and not _NUMA_ID.fullmatch(text):
        consequence = f"NCCL reads {integer(text)} and never finds this CPU for a device that /sys puts on a NUMA node"
        yield place.finding(Severity.MISREADS, "a decimal numaid", quoted(text), consequence)


def _cpu_affinity(place: Place) -> Iterator[Diagnostic]:
    text = place.element.get("affinity")
    if text is None or is_mask(text):
        return
    words = mask_words(text)
    if not words:
        consequence = "NCCL does not bind its threads for GPUs of this NUMA node"
        yield place.finding(Severity.ADVICE, "an affinity mask, or no affinity", quoted(text), consequence)
    elif len(words) > MAX_MASK_WORDS:
        consequence = "NCCL drops the last ones and takes the rest for other CPUs"
        found = f"{len(words)} words"
        yield place.finding(Severity.MISREADS, f"at most {MAX_MASK_WORDS} words of affinity", found, consequence)
    else:
        expected = 'an affinity mask of 32-bit words such as "0000ffff,ffffffff"'
        yield place.finding(Severity.MISREADS, expected, quoted(text), "NCCL binds its threads to other CPUs")


def _cpu_type(place: Place) -> Iterator[Diagnostic]:
    unlimited = "NCCL takes 5000 GB/s for the way to other NUMA nodes"
    arch, vendor = place.element.get("arch"), place.element.get("vendor")
    if arch is not None and not arch.startswith(ARCHITECTURES):
        yield place.finding(Severity.MISREADS, f"an arch of {_listed(ARCHITECTURES)}", quoted(arch), unlimited)
        return
    if arch is not None and not arch.startswith(ARCHITECTURES[0]):
        return
    if vendor is not None and not vendor.startswith(VENDORS):
        yield place.finding(Severity.MISREADS, f"a vendor of {_listed(VENDORS)}", quoted(vendor), unlimited)
    yield from _cpu_model(place)


def _cpu_model(place: Place) -> Iterator[Diagnostic]:
    family, model, vendor = (place.element.get(key) for key in ("familyid", "modelid", "vendor"))
    if family is not None and model is None and (vendor is None or vendor.startswith((INTEL, *ZHAOXIN))):
        words = fails("Attribute modelid of node cpu not found")
        consequence = f"{words}, because it fills in both or none"
        yield place.finding(Severity.ABORTS, "modelid beside familyid", "none", consequence)
    if family is None and model is not None:
        consequence = "NCCL writes the model of the CPU that it runs on over it"
        yield place.finding(Severity.MISREADS, "familyid beside modelid", "none", consequence)


def _pci_bus_id(place: Place) -> Iterator[Diagnostic]:
    text = place.element.get("busid")
    if text is None and place.element.named("pci", "nic"):
        yield place.finding(Severity.ABORTS, "busid", "none", "NCCL uses it unchecked and crashes")
    elif text is None:
        consequence = "NCCL never finds this device and detects it anew elsewhere"
        yield place.finding(Severity.MISREADS, "busid", "none", consequence)
    elif not is_bus_id(text):
        consequence = "NCCL never finds this device by its own name for it and detects it anew elsewhere"
        yield place.finding(Severity.MISREADS, _BUS_ID_FORM, quoted(text), consequence)


def _pci_link(place: Place) -> Iterator[Diagnostic]:
    speed, width = place.element.get("link_speed"), place.element.get("link_width")
    if speed is not None and not is_known_speed(speed):
        better = f"{speed} PCIe" if is_known_speed(f"{speed} PCIe") else "16.0 GT/s PCIe"
        severity = Severity.ADVICE if speed == "8.0 GT/s" else Severity.MISREADS
        yield place.finding(severity, f'a link_speed such as "{better}"', quoted(speed), "NCCL takes it for 8 GT/s")
    if width is not None and (not width or is_integer(width)) and integer(width) <= 0:
        lanes = "16 lanes" if integer(width) == 0 else "less than nothing"
        yield place.finding(Severity.MISREADS, "link_width in lanes", quoted(width), f"NCCL takes it for {lanes}")


def _pci_ids(place: Place) -> Iterator[Diagnostic]:
    for key in _HEXADECIMAL:
        text = place.element.get(key)
        if text is not None and not _PCI_ID.fullmatch(text):
            expected = f'a hexadecimal {key} such as "0x10de"'
            consequence = f"NCCL reads {integer(text):#x} and may not know a Broadcom switch by it"
            yield place.finding(Severity.MISREADS, expected, quoted(text), consequence)


def _gpu_numbers(place: Place) -> Iterator[Diagnostic]:
    device, sm = place.element.get("dev"), place.element.get("sm")
    if device is not None and integer(device) == -1:
        consequence = fails("ncclTopoRankToIndex could not find rank")
        yield place.finding(Severity.ABORTS, "an NVML index as dev", quoted(device), f"{consequence} for this GPU")
    elif device is not None and integer(device) not in range(MAX_DEVICES):
        consequence = "NCCL reads P2P states outside of its table: it crashes, or turns P2P off by chance"
        expected = f"a dev from 0 to {MAX_DEVICES - 1}"
        yield place.finding(Severity.ABORTS, expected, quoted(device), consequence)
    if sm is not None and is_integer(sm) and integer(sm) not in _SM:
        consequence = "NCCL chooses the speed of NVLinks and what the GPU can do by it"
        yield place.finding(Severity.MISREADS, 'an sm such as "90" for 9.0', quoted(sm), consequence)


def _nvlink_target(place: Place) -> Iterator[Diagnostic]:
    target, target_class = place.element.get("target"), place.element.get("tclass")
    if target_class is None and target is None:
        consequence = "NCCL looks for the class of a target that is not there and crashes"
        yield place.finding(Severity.ABORTS, "tclass", "neither tclass nor target", consequence)
    elif target_class is None:
        if target != HIDDEN_SWITCH:
            consequence = "NCCL looks into /sys, and takes the target for an NVSwitch where it finds nothing"
            yield place.finding(Severity.MISREADS, "tclass", "none", consequence)
    elif pci_kind(target_class) is PciKind.GPU:
        yield from _peer(place, target)
    elif pci_kind(target_class) not in (PciKind.NVSWITCH, PciKind.CPU):
        expected = 'a tclass of "0x03..." for a GPU, "0x068000" for an NVSwitch or "0x068001" for a CPU'
        yield place.finding(Severity.MISREADS, expected, quoted(target_class), "NCCL takes it for an NVSwitch")


def _peer(place: Place, target: str | None) -> Iterator[Diagnostic]:
    if target is None:
        words = fails("Attribute target of node nvlink not found")
        yield place.finding(Severity.ABORTS, "the bus id of a GPU as target", "none", words)
    elif not is_bus_id(target):
        consequence = "NCCL compares only the number in it"
        yield place.finding(Severity.ADVICE, f"{_BUS_ID_FORM} as target", quoted(target), consequence)


def _net(place: Place) -> Iterator[Diagnostic]:
    speed = place.element.get("speed")
    if place.element.get("name") is None:
        consequence = "NCCL never finds this port and adds it anew elsewhere"
        yield place.finding(Severity.MISREADS, "the plugin's name of the port as name", "none", consequence)
    if speed is not None and is_integer(speed) and integer(speed) <= 0:
        expected = "a speed in Mbit/s"
        yield place.finding(Severity.MISREADS, expected, quoted(speed), "NCCL takes it for 10000 Mbit/s")


def _listed(texts: tuple[str, ...]) -> str:
    return " or ".join(quoted(text) for text in texts)


_OWN: dict[str, tuple[Callable[[Place], Iterator[Diagnostic]], ...]] = {
    "cpu": (_cpu_numa_id, _cpu_affinity, _cpu_type),
    "pci": (_pci_bus_id, _pci_link, _pci_ids),
    "gpu": (_gpu_numbers,),
    "nvlink": (_nvlink_target,),
    "net": (_net,),
}
