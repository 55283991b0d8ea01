"""The rules by which NCCL takes a topology file and reads it as it is written, for the narrow form that we write.

They are less than NCCL knows: what may be left out in a file of others, we write, and what we write in one form, NCCL
takes in several. ``test_nccl_judge.py`` puts the same files to NCCL's own code.

Sources: NCCL 2.30.7, src/graph/xml.cc (the parser, and what it knows below what), src/graph/xml.h and topo.h (limits),
src/graph/topo.cc (ncclTopoAddCpu, ncclTopoAddPci, ncclTopoAddNvLinks, ncclTopoAddC2c, and the dictionaries) and
src/graph/paths.cc (a link without its way back).
"""

import re
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

MAX_ELEMENTS = 255
MAX_TEXT = 253
MAX_ATTRIBUTES = 16
MAX_MASK_WORDS = 32
MAX_DEVICES = 32

TAG = re.compile(r' *<(?:[a-z2]+(?: [a-z_]+="[^"\t]*")*/?|/[a-z2]+)>')
"""A line: NCCL's parser stops at a tab, at a declaration, and at two spaces between attributes."""
BELOW = {
    "system": {"cpu"},
    "cpu": {"pci"},
    "pci": {"pci", "gpu"},
    "gpu": {"nvlink", "c2c"},
    "nvlink": set(),
    "c2c": set(),
}
"""Elements by what they stand in; NCCL skips all others with everything in them."""
SWITCH, GPU, NIC, NVSWITCH = "0x060400", "0x030200", ("0x020000", "0x020700"), "0x068000"
"""PCI classes: kvDictPciClass."""
BUS_ID = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
NUMBER = r"[1-9][0-9]{0,8}"
NATURAL = r"0|[1-9][0-9]{0,8}"
MASK = rf"[0-9a-f]{{8}}(,[0-9a-f]{{8}}){{0,{MAX_MASK_WORDS - 1}}}"
SPEED = r"(2\.5|5\.0|8\.0|16\.0|32\.0|64\.0) GT/s PCIe"
REQUIRED = {
    "system": {"version": "1"},
    "cpu": {"numaid": r"-1|0|[1-9][0-9]*", "affinity": MASK, "arch": "x86_64|arm64|ppc64"},
    "pci": {"busid": BUS_ID, "class": "|".join((SWITCH, GPU, *NIC)), "link_speed": SPEED, "link_width": NUMBER},
    "gpu": {},
    "nvlink": {"target": f"{BUS_ID}|fffffff:ffff:ff", "count": NUMBER, "tclass": f"{GPU}|{NVSWITCH}"},
    "c2c": {"bw": NUMBER, "count": NUMBER},
}
"""Attributes that NCCL needs, or completes in a way that depends on the rank, and the values that it knows."""
OPTIONAL = {
    "cpu": {"vendor": ".+", "familyid": NATURAL, "modelid": NATURAL},
    "gpu": {"dev": NATURAL, "sm": "[3-9][0-9]|1[0-9][0-9]"},
}


def faults(text: str) -> list[str]:
    """Why NCCL would not take ``text``, or would read something else than is written there."""
    found = [f"line {number}: {line[:80]!r}" for number, line in _lines(text) if not TAG.fullmatch(line)]
    if found:
        return found
    try:
        system = ElementTree.fromstring(text)  # noqa: S314 - written by us
    except ElementTree.ParseError as error:
        return [str(error)]
    return [*_of_the_document(system), *_of_elements(system), *_of_devices(system), *_of_links(system)]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    assert text.endswith("\n")
    return enumerate(text.removesuffix("\n").split("\n"), start=1)


def _of_the_document(system: Element) -> Iterator[str]:
    if system.tag != "system":
        yield f"the root is {system.tag}"
    elements = sum(1 for _ in system.iter())
    if elements > MAX_ELEMENTS:
        yield f"{elements} elements"
    if not len(system):
        yield "no cpu"


def _of_elements(system: Element) -> Iterator[str]:
    for element in system.iter():
        yield from (f"{child.tag} in {element.tag}" for child in element if child.tag not in BELOW.get(element.tag, ()))
        required, optional = REQUIRED.get(element.tag, {}), OPTIONAL.get(element.tag, {})
        for name in sorted(required.keys() | element.attrib.keys()):
            value, form = element.get(name), (required | optional).get(name)
            if value is None or form is None or not re.fullmatch(form, value) or len(value.encode()) > MAX_TEXT:
                yield f"{element.tag} {element.attrib}: {name}"
        if len(element.attrib) > MAX_ATTRIBUTES:
            yield f"{element.tag}: {len(element.attrib)} attributes"
        if element.tag == "cpu" and element.get("arch") == "x86_64":
            yield from _of_an_x86(element)


def _of_an_x86(cpu: Element) -> Iterator[str]:
    """A vendor that NCCL does not know, such as HygonGenuine, is none to it, as it is without a file."""
    if not cpu.get("vendor"):
        yield f"cpu {cpu.attrib}: vendor"
    yield from (f"cpu {cpu.attrib}: no {name}" for name in ("familyid", "modelid") if name not in cpu.attrib)


def _of_devices(system: Element) -> Iterator[str]:
    for pci in system.iter("pci"):
        inside, kind, bus_id = [child.tag for child in pci], pci.get("class", ""), pci.get("busid", "")
        if "gpu" in inside and (inside != ["gpu"] or kind != GPU):
            yield f"{bus_id} of class {kind} with {inside}"
        if "pci" in inside and kind != SWITCH:
            yield f"{bus_id} of class {kind} around others"
        if "gpu" in inside and int(bus_id[-1], 16) % 4:
            yield f"{bus_id} is a partition"
    yield from _repeated("numaid", [cpu.get("numaid", "") for cpu in system.iter("cpu")])
    yield from _repeated("busid", [pci.get("busid", "") for pci in system.iter("pci")])
    indices = [gpu.get("dev", "") for gpu in system.iter("gpu")]
    if any(indices):
        yield from _repeated("dev", indices)
        yield from (f"dev {index!r}" for index in indices if not index or int(index) >= MAX_DEVICES)


def _repeated(what: str, values: list[str]) -> Iterator[str]:
    yield from (f"{what} {value} {times} times" for value, times in Counter(values).items() if times > 1)


def _of_links(system: Element) -> Iterator[str]:
    """NCCL fails on a link that has no way back, and takes no link to a GPU that is not in the file."""
    gpus = {pci.get("busid", ""): gpu for pci in system.iter("pci") if (gpu := pci.find("gpu")) is not None}
    ways = {
        (bus_id, link.get("target", ""))
        for bus_id, gpu in gpus.items()
        for link in gpu.iter("nvlink")
        if link.get("tclass") == GPU
    }
    for here, there in sorted(ways):
        if here == there or there not in gpus or (there, here) not in ways:
            yield f"nvlink from {here} to {there}"
