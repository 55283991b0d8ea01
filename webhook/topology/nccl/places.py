"""Elements of an NCCL topology file with what is above them."""

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.printable import printable
from webhook.topology.nccl.parser import Element
from webhook.topology.nccl.report import Diagnostic, Severity
from webhook.topology.nccl.values import PciKind, pci_kind

IDENTITY = {"cpu": "numaid", "pci": "busid", "net": "name"}
"""The attribute by which NCCL finds an element again."""
_LABEL_LIMIT = 40


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One element."""

    element: Element
    above: tuple[Element, ...] = ()
    """From the root on."""

    @property
    def parent(self) -> Element:
        """What the element is in; of the root, itself."""
        return self.above[-1] if self.above else self.element

    @property
    def bus_id(self) -> str:
        """That of the nearest ``pci``, the element itself included; empty if there is none."""
        chain = (*self.above, self.element)
        return next((element.get("busid") or "" for element in reversed(chain) if element.name == "pci"), "")

    @property
    def label(self) -> str:
        """How messages call it, for example ``nvlink of gpu 0000:1b:00.0``."""
        name = self.element.name
        if name in IDENTITY:
            return _named(name, self.element.get(IDENTITY[name]))
        if name == "gpu":
            return _named(name, self.bus_id)
        return f"{name} of {Place(self.parent, self.above[:-1]).label}" if self.above else name

    def finding(self, severity: Severity, expected: str, found: str, consequence: str) -> Diagnostic:
        """A finding about this element."""
        message = f"expected {expected}, found {found}"
        return Diagnostic(severity, self.element.line, self.label, message, consequence)


def places(root: Element) -> list[Place]:
    """``root`` and everything in it, in the order of the file."""
    found: list[Place] = []
    waiting = [Place(root)]
    while waiting:
        place = waiting.pop()
        found.append(place)
        above = (*place.above, place.element)
        waiting.extend(Place(child, above) for child in reversed(place.element.children))
    return found


def below(element: Element) -> Iterator[Element]:
    """Everything in an element, but not the element itself."""
    waiting = list(element.children)
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(found.children)


def kind_of(pci: Element) -> PciKind | None:
    """What NCCL takes a ``pci`` for; nothing where it depends on what the machine has there (ncclTopoAddPci)."""
    text = pci.get("class")
    if any(nic.named("net") for nic in pci.named("nic")):
        return PciKind.NIC
    if text is not None:
        return pci_kind(text)
    if pci.named("gpu"):
        return PciKind.GPU
    return PciKind.SWITCH if pci.named("pci") else None


def is_gpu(pci: Element) -> bool:
    """Whether a ``pci`` is a GPU: it says so itself or has a ``gpu``."""
    return pci.name == "pci" and (kind_of(pci) is PciKind.GPU or bool(pci.named("gpu")))


def _named(name: str, identity: str | None) -> str:
    return f"{name} {printable(identity)[:_LABEL_LIMIT]}" if identity else name
