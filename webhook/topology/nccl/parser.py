"""Reads an NCCL topology file the way NCCL does: which elements it keeps, which it skips, where it gives up.

It imitates xmlLoadSub and the handlers of the topology in NCCL 2.30.7, src/graph/xml.cc. What the elements mean is not
looked at here, but for the version, which NCCL checks while it reads.
"""

from dataclasses import dataclass, field
from typing import NoReturn

from webhook.printable import printable
from webhook.topology.nccl.reader import MAX_RECURSION, Kind, Reader, Tag, Unreadable
from webhook.topology.nccl.report import Diagnostic, Severity, fails, quoted
from webhook.topology.nccl.values import integer

MAX_ELEMENTS = 255
"""The 256th element aborts: NCCL_TOPO_XML_MAX_NODES, src/graph/topo.h. The limit of 640 children lies behind it."""
VERSION = 1
"""NCCL_TOPO_XML_VERSION, src/graph/xml.h."""
MAX_LISTED = 20
"""Elements that NCCL skips are counted all, but only so many are listed."""

ROOT = "system"
CHILDREN: dict[str | None, tuple[str, ...]] = {
    None: (ROOT,),
    ROOT: ("cpu",),
    "cpu": ("pci", "nic"),
    "pci": ("pci", "gpu", "nic", "pcilink"),
    "gpu": ("nvlink", "c2c"),
    "nic": ("net",),
    "nvlink": (),
    "c2c": (),
    "net": (),
    "pcilink": (),
}
"""What NCCL knows below what. Everything else it skips, with all that is in it."""

_DEPTH = {Kind.OPEN: 1, Kind.CLOSE: -1, Kind.SINGLE: 0}


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """An element that NCCL keeps."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    """As stored: a surplus space makes one without a name."""
    line: int
    dropped: int = 0
    """Attributes behind the last one that is stored."""
    children: tuple["Element", ...] = ()

    def get(self, name: str) -> str | None:
        """The first attribute of that name."""
        return next((value for key, value in self.attributes if key == name), None)

    def named(self, *names: str) -> tuple["Element", ...]:
        """The children of these names."""
        return tuple(child for child in self.children if child.name in names)


@dataclass(frozen=True, slots=True)
class Skipped:
    """An element that NCCL passes over with everything in it."""

    name: str
    parent: str | None
    line: int


@dataclass(frozen=True, slots=True)
class Document:
    """What NCCL keeps of a file."""

    systems: tuple[Element, ...]
    """Root elements; NCCL uses the first."""
    elements: int
    lines: int
    skipped: tuple[Skipped, ...]
    """The first ones."""
    skipped_count: int
    single_quotes: int | None
    """Line of the first value in single quotes."""


def parse(text: bytes) -> Document:
    """What NCCL keeps of a file.

    Raises:
        Unreadable: NCCL's parser gives up.
    """
    return _Loader(Reader(text)).load()


@dataclass(slots=True)
class _Open:
    """An element whose closing tag has not come yet."""

    tag: Tag
    children: list[Element] = field(default_factory=list)

    def closed(self) -> Element:
        tag = self.tag
        return Element(tag.name, tag.attributes, tag.line, tag.dropped, tuple(self.children))


class _Loader:
    """Puts tags together."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._open: list[_Open] = []
        self._systems: list[Element] = []
        self._elements = 0
        self._depth = 0
        """Levels inside an element that is skipped. Names are not compared there."""
        self._skipping = Skipped("", None, 0)
        self._skipped: list[Skipped] = []
        self._skipped_count = 0

    def load(self) -> Document:
        """Read to the end."""
        while tag := self._next():
            if self._depth:
                self._pass_over(tag)
            elif tag.kind is Kind.CLOSE and self._open:
                self._close(tag)
            elif tag.name in CHILDREN[self._parent]:
                self._keep(tag)
            else:
                self._skip(tag)
        return Document(
            systems=tuple(self._systems),
            elements=self._elements,
            lines=self._reader.line,
            skipped=tuple(self._skipped),
            skipped_count=self._skipped_count,
            single_quotes=self._reader.single_quotes,
        )

    @property
    def _parent(self) -> str | None:
        return self._open[-1].tag.name if self._open else None

    def _next(self) -> Tag | None:
        if self._elements > MAX_ELEMENTS:
            expected = f"at most {MAX_ELEMENTS} elements"
            self._reader.give_up("the file", expected, "one more", "Error : XML parser is limited to 256 nodes")
        tag = self._reader.tag()
        if tag is None and self._depth:
            self._unterminated(self._skipping.name, self._skipping.line)
        if tag is None and self._open:
            self._unterminated(self._open[-1].tag.name, self._open[-1].tag.line)
        return tag

    def _unterminated(self, name: str, line: int) -> NoReturn:
        # NCCL takes a declaration with a space at its end, and any DOCTYPE, for elements.
        declared = name.startswith(("?", "!"))
        message = "expected its end, found the end of the file"
        if declared:
            message = f"expected no XML declaration or DOCTYPE, found {quoted('<' + name)}"
        where = "the file" if declared else f"element {quoted(name)}"
        consequence = fails(f"XML Parse : unterminated {printable(name)}")
        raise Unreadable(Diagnostic(Severity.ABORTS, line, where, message, consequence))

    def _close(self, tag: Tag) -> None:
        name = self._open[-1].tag.name
        if tag.name != name:
            words = f"XML Mismatch : {name} / {printable(tag.name)}"
            self._reader.give_up(f"element {name}", quoted(f"</{name}>"), quoted(f"</{tag.name}>"), words)
        self._attach(self._open.pop().closed())

    def _keep(self, tag: Tag) -> None:
        self._elements += 1
        started = _Open(tag)
        if tag.name == ROOT:
            self._check_version(started.closed())
        if tag.kind is Kind.SINGLE:
            self._attach(started.closed())
        else:
            self._open.append(started)

    def _skip(self, tag: Tag) -> None:
        self._skipped_count += 1
        self._skipping = Skipped(tag.name, self._parent, tag.line)
        if self._skipped_count <= MAX_LISTED:
            self._skipped.append(self._skipping)
        # A closing tag outside of everything opens what it names, too: NCCL looks for one only inside an element.
        self._depth = 0 if tag.kind is Kind.SINGLE else 1

    def _pass_over(self, tag: Tag) -> None:
        self._depth += _DEPTH[tag.kind]
        if self._depth > MAX_RECURSION:
            self._reader.crash("elements inside elements that NCCL does not know", f"more than {MAX_RECURSION} levels")

    def _attach(self, element: Element) -> None:
        siblings = self._open[-1].children if self._open else self._systems
        siblings.append(element)

    def _check_version(self, system: Element) -> None:
        found, expected = system.get("version"), f'version="{VERSION}"'
        if found is None:
            words = "Attribute version of node system not found"
            self._reader.give_up("system", expected, "no version", words)
        if integer(found) != VERSION:
            words = f"XML Topology has wrong version {integer(found)}, {VERSION} needed"
            self._reader.give_up("system", expected, quoted(found), words, "ncclInvalidUsage")
