"""What is wrong with how the elements of an NCCL topology file stand in each other and beside each other.

Sources: NCCL 2.30.7, src/graph/topo.cc (ncclTopoAddPci, ncclTopoGetSystem, ncclTopoPopulateNics) and src/graph/xml.cc
(ncclTopoFillNet, ncclTopoTrimXmlRec, ncclTopoFuseXml).
"""

from collections.abc import Iterator, Sequence

from webhook.topology.nccl.parser import Element
from webhook.topology.nccl.places import IDENTITY, Place, below, is_gpu, kind_of
from webhook.topology.nccl.report import Diagnostic, Severity, fails, quoted
from webhook.topology.nccl.values import (
    ARCHITECTURES,
    INTEL,
    ZHAOXIN,
    PciKind,
    bus_number,
    integer,
    is_bus_id,
    is_known_class,
)

# The low bits of a bus id number the partitions of a GPU: NCCL_TOPO_MLOPART_MASK, src/graph/topo.h.
_PARTITION_BITS = 0x3
_NO_RANK = fails("ncclTopoRankToIndex could not find rank")
_FOUND = "NCCL completes nothing above a port that it finds in the file, unless its own GPU is there too"
_VIRTUAL = (
    "NCCL puts NICs that are no PCI devices, such as eth0 of a pod, there, and completes only the CPU of its own GPU"
)
_LEFTOVERS = ("host_hash", "rank", "mlopart", "keep")
"""What NCCL writes into the files that it dumps, or notes for itself."""
_DUPLICATE = {
    "cpu": "NCCL makes two CPUs of one NUMA node and searches other rings",
    "pci": "NCCL finds only the first device, and merges equal switches",
    "net": "NCCL finds only the first port",
}


def check_structure(places: Sequence[Place]) -> Iterator[Diagnostic]:
    """All that is wrong with how elements stand, but for links between GPUs or switches."""
    for place in places:
        if place.element.name == "pci":
            yield from _class(place)
            yield from _lost_children(place)
            yield from _surplus_children(place)
            yield from _function(place)
            yield from _incomplete_pci(place)
        yield from _keep(place)
    cpus = [place for place in places if place.element.name == "cpu"]
    for cpu in cpus:
        yield from _incomplete_cpu(cpu, first=cpu is cpus[0] and len(cpus) > 1)
    several_nodes = list(_nodes(places))
    yield from several_nodes
    for name, key in IDENTITY.items():
        if not (several_nodes and name == "cpu"):
            yield from _duplicates(places, name, key)
    yield from _devices(places)
    yield from _leftovers(places)


def _class(place: Place) -> Iterator[Diagnostic]:
    pci, text = place.element, place.element.get("class")
    kind = kind_of(pci)
    if text is None:
        if kind is PciKind.SWITCH:
            words = fails("Attribute class of node pci not found")
            yield place.finding(Severity.ABORTS, "class", "none", f"{words} where /sys does not show this switch")
    elif pci.named("gpu") and kind is PciKind.SWITCH:
        words = fails("Attribute class of node gpu not found")
        consequence = f"NCCL takes the pci for a switch and the gpu for a device in it. {words}"
        yield place.finding(Severity.ABORTS, 'a class of "0x03..." for a GPU', quoted(text), consequence)
    elif pci.named("gpu") and kind is not PciKind.GPU:
        consequence = "NCCL adds the GPU all the same, but reads less of it"
        yield place.finding(Severity.ADVICE, 'a class of "0x03..." for a GPU', quoted(text), consequence)
    elif not is_known_class(text) and kind is not PciKind.NIC:
        expected = 'a class of "0x060400" for a switch, "0x03..." for a GPU or "0x02..." for a NIC'
        if pci.named("pci"):
            yield place.finding(Severity.ADVICE, expected, quoted(text), "NCCL takes it for a switch")
        else:
            consequence = "NCCL takes it for a switch, and fails if a GPU is there that /sys does not show"
            yield place.finding(Severity.MISREADS, expected, quoted(text), consequence)


def _lost_children(place: Place) -> Iterator[Diagnostic]:
    pci, kind = place.element, kind_of(place.element)
    if not pci.named("pci") or kind is PciKind.SWITCH:
        return
    what = "a nic" if kind is PciKind.NIC else f"the class {quoted(pci.get('class') or '0x03')}"
    expected = 'a switch, class "0x060400", around other pci elements'
    if any(is_gpu(element) for element in below(pci)):
        consequence = f"NCCL leaves out everything in it. {_NO_RANK} for each GPU there"
        yield place.finding(Severity.ABORTS, expected, what, consequence)
    else:
        yield place.finding(Severity.MISREADS, expected, what, "NCCL leaves out everything in it")


def _surplus_children(place: Place) -> Iterator[Diagnostic]:
    for name in ("gpu", "nic"):
        number = len(place.element.named(name))
        if number > 1:
            expected, found = f"one {name}", f"{number} of them"
            yield place.finding(Severity.MISREADS, expected, found, "NCCL uses the first and ignores the others")


def _function(place: Place) -> Iterator[Diagnostic]:
    number = bus_number(place.bus_id)
    if place.element.named("gpu") and is_bus_id(place.bus_id) and number & _PARTITION_BITS:
        words = fails(f"BusId {number:#x} has non-zero bits in MLOPart mask")
        yield place.finding(Severity.ABORTS, "a GPU at PCI function 0 or 4", quoted(place.bus_id), words)


def _has_port(element: Element) -> bool:
    """Whether NCCL may find one of its network ports in it, and so keep it."""
    return any(child.name == "net" and child.get("name") is not None for child in below(element))


def _incomplete_pci(place: Place) -> Iterator[Diagnostic]:
    pci = place.element
    if not _has_port(pci):
        return
    # A switch without a class is refused in any case.
    switch = kind_of(pci) is PciKind.SWITCH
    for key in ("link_speed", "link_width") if switch else ("class", "link_speed", "link_width"):
        if pci.get(key) is None:
            words = fails(f"Attribute {key} of node pci not found")
            yield place.finding(Severity.ABORTS, f"{key} above a net", "none", f"{_FOUND}. {words}")


def _incomplete_cpu(place: Place, *, first: bool) -> Iterator[Diagnostic]:
    cpu = place.element
    if not first and not _has_port(cpu):
        return
    why = _FOUND if _has_port(cpu) else _VIRTUAL
    where = "above a net" if _has_port(cpu) else "of the first of several CPUs"
    for key in _cpu_needs(cpu):
        if cpu.get(key) is None:
            words = fails(f"Attribute {key} of node cpu not found")
            yield place.finding(Severity.ABORTS, f"{key} {where}", "none", f"{why}. {words}")
    if cpu.get("affinity") is None:
        consequence = f"{why}. It makes two CPUs of this one when ranks have completed it differently"
        yield place.finding(Severity.MISREADS, f"affinity {where}", "none", consequence)


def _cpu_needs(cpu: Element) -> tuple[str, ...]:
    arch, vendor = cpu.get("arch"), cpu.get("vendor")
    if arch is None or not arch.startswith(ARCHITECTURES[0]):
        return ("arch",)
    # A familyid without a modelid is refused in any case.
    model = vendor is not None and vendor.startswith((INTEL, *ZHAOXIN)) and cpu.get("familyid") is None
    return ("vendor", *(("familyid", "modelid") if model else ()))


def _keep(place: Place) -> Iterator[Diagnostic]:
    """NCCL removes GPUs that are not part of the job, unless something makes it keep them."""
    element = place.element
    if not any(child.name in ("nvlink", "c2c") for child in (element, *below(element))):
        return
    words = fails("Add NVLink error : could not find DEV for GPU")
    if element.get("keep") == "1":
        consequence = f"NCCL keeps GPUs that are not part of the job. {words}, or counts links twice"
        yield place.finding(Severity.ABORTS, "no keep", quoted("1"), consequence)
    if element.name == "pci" and element.named("gpu") and _has_port(element):
        consequence = f"NCCL keeps the GPU when it is not part of the job, for the sake of the port. {words}"
        yield place.finding(
            Severity.ABORTS, "a GPU and a port in pci elements of their own", "one for both", consequence
        )


def _nodes(places: Sequence[Place]) -> Iterator[Diagnostic]:
    hashes = dict.fromkeys(place.element.get("host_hash") for place in places if place.element.name == "cpu")
    if len(hashes) > 1:
        last = [place for place in places if place.element.name == "cpu"][-1]
        found = f"host_hash values of {len(hashes)} nodes"
        yield last.finding(
            Severity.MISREADS, "the CPUs of one node", found, "NCCL takes all of them for its own node's"
        )


def _duplicates(places: Sequence[Place], name: str, key: str) -> Iterator[Diagnostic]:
    first: dict[str, Place] = {}
    for place in places:
        identity = place.element.get(key) if place.element.name == name else None
        if identity is None:
            continue
        other = first.setdefault(identity, place)
        if other is not place:
            expected, found = f"each {key} once", f"{quoted(identity)} of line {other.element.line} again"
            yield place.finding(Severity.MISREADS, expected, found, _DUPLICATE[name])


def _devices(places: Sequence[Place]) -> Iterator[Diagnostic]:
    gpus = [place for place in places if place.element.name == "gpu"]
    numbered = [(place, text) for place in gpus if (text := place.element.get("dev")) is not None]
    if not numbered:
        return
    first: dict[int, Place] = {}
    for place, text in numbered:
        other = first.setdefault(integer(text), place)
        if other is not place:
            consequence = "NCCL takes the first where it looks for a GPU by its index"
            expected, found = "each dev once", f"{quoted(text)} of line {other.element.line} again"
            yield place.finding(Severity.MISREADS, expected, found, consequence)
    place, text = numbered[0]
    yield place.finding(
        Severity.ADVICE,
        "no dev where the ranks share a container, and one for every gpu where they do not",
        f"{quoted(text)}" + ("" if len(numbered) == len(gpus) else f", and none for {len(gpus) - len(numbered)}"),
        "NCCL takes it for the NVML index in the container that reads the file",
    )


def _leftovers(places: Sequence[Place]) -> Iterator[Diagnostic]:
    for key in _LEFTOVERS:
        holders = [place for place in places if place.element.get(key) is not None]
        if holders:
            found = f"{key} here" + (f" and in {len(holders) - 1} more" if len(holders) > 1 else "")
            expected = "nothing that NCCL keeps for itself"
            yield holders[0].finding(Severity.ADVICE, expected, found, "NCCL writes its own")
