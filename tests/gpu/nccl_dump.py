"""NCCL's own topology, which it writes to ``NCCL_TOPO_DUMP_FILE``, beside the file that we write for it.

Both have the form of src/graph/xml.h. Compared is what decides between ways and is no matter of the moment: the links
of each card, and its NUMA node. A card at rest trains its PCIe link down, so speeds are not compared.
"""

from collections import Counter
from collections.abc import Mapping
from xml.etree import ElementTree

import msgspec

_SWITCHES = "NVSwitches"
_OF_SWITCH = "0x068000"


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A card as one file has it."""

    links: Mapping[str, int]
    """NVLinks by what they lead to: the bus id of a card, or all NVSwitches together."""
    c2c: int
    numa_node: str


def read_cards(text: str) -> dict[str, Card]:
    """The cards of a file by their bus ids; none if it is no such file."""
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - written by NCCL or by us in this run, and bounded by it
    except ElementTree.ParseError:
        return {}
    return {
        pci.get("busid", "").lower(): _card(gpu, cpu.get("numaid", ""))
        for cpu in root.iter("cpu")
        for pci in cpu.iter("pci")
        if (gpu := pci.find("gpu")) is not None
    }


def _card(gpu: ElementTree.Element, numa_node: str) -> Card:
    links = Counter[str]()
    for link in gpu.iter("nvlink"):
        to_switch = link.get("tclass") == _OF_SWITCH
        links[_SWITCHES if to_switch else link.get("target", "").lower()] += _number(link)
    return Card(links=dict(links), c2c=sum(map(_number, gpu.iter("c2c"))), numa_node=numa_node)


def _number(element: ElementTree.Element) -> int:
    count = element.get("count", "")
    return int(count) if count.isdecimal() else 0


def difference(ours: Mapping[str, Card], theirs: Mapping[str, Card]) -> str:
    """The first difference, in a clause; empty if there is none.

    Args:
        ours: The cards of our file.
        theirs: Those of NCCL's ranks. NCCL leaves all others out, and the links to them.
    """
    for bus_id, card in theirs.items():
        own = ours.get(bus_id)
        if own is None:
            return f"our file has no card {bus_id}"
        for target in sorted({*own.links, *card.links} & {*theirs, _SWITCHES}):
            here, there = own.links.get(target, 0), card.links.get(target, 0)
            if here != there:
                return f"{bus_id} has {here} NVLinks to {target} here, and {there} as NCCL finds"
        if own.c2c != card.c2c:
            return f"{bus_id} has {own.c2c} C2C links here, and {card.c2c} as NCCL finds"
        if own.numa_node != card.numa_node:
            return f"{bus_id} is at NUMA node {own.numa_node} here, and at {card.numa_node} as NCCL finds"
    return ""
