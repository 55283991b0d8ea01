"""The state, rate and capabilities of each NVLink in the output of ``nvidia-smi nvlink -s`` and ``-c``.

Both print a line such as that of ``nvidia-smi -L`` for each GPU, old drivers without its UUID, and below it a line for
each link::

    GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)              GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)
             Link 0: 26.562 GB/s                                       Link 0, P2P is supported: true
             Link 1: <inactive>                                        Link 0, Access to system memory supported: true

``-s`` prints all links of the chip, the first one with the number 0, or a sentence in their place if none is up. Other
options print lines such as ``Link 0: Replay Errors: 0``; these are left alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from webhook.hardware.topology.consistency import MAX_LINKS
from webhook.hardware.topology.readers.smi_listing import ListedGpu, listed_gpu
from webhook.hardware.topology.readers.smi_text import Line
from webhook.words.errors import FormatError

STATUS, CAPABILITIES = "nvidia-smi nvlink -s", "nvidia-smi nvlink -c"
P2P = "P2P"
"""The capability without which a link carries nothing between GPUs: NCCL src/graph/xml.cc, ncclTopoGetXmlFromGpu."""
WHOLE = "Save the whole output of nvidia-smi nvlink, or leave it out"

_LINK = re.compile(r"Link (\d{1,9})([:,]) ?(.*)")
_RATE = re.compile(r"(\d{1,4}(?:\.\d{1,6})?) GB/s")
_INACTIVE = "<inactive>"
_CAPABILITY = re.compile(r"([A-Za-z0-9 ]{1,60}?)(?: is)? supported: (true|false)")
_NO_LINKS = re.compile(r"(?:NVML: )?Unable to retrieve NVLink information as all links are inactive\.?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class PrintedLinks:
    """The NVLinks of one GPU, as one of the commands or both print them."""

    gpu: ListedGpu
    """The line above the links."""
    where: str
    """The place of that line in messages."""
    rates: tuple[float, ...] | None = None
    """GB/s per direction of each link, by its number, 0 for an inactive one. Empty if all links are inactive, however
    many there are; None without an output of ``-s`` for this GPU."""
    p2p: Mapping[int, bool] = field(default_factory=dict)
    """Whether a link supports P2P, by its number, as far as there is an output of ``-c``."""

    @property
    def without_p2p(self) -> tuple[int, ...]:
        """The numbers of the links that do not support P2P, without those that are known to be inactive."""
        return tuple(number for number, can in sorted(self.p2p.items()) if not can and self._may_be_up(number))

    @property
    def up(self) -> int | None:
        """Number of links that can carry data between GPUs; None if neither output limits it."""
        if self.rates is None:
            return sum(self.p2p.values()) if self.without_p2p else None
        return sum(rate > 0 for rate in self.rates) - len(self.without_p2p)

    def _may_be_up(self, number: int) -> bool:
        return self.rates is None or (number < len(self.rates) and self.rates[number] > 0)


def parse_nvlinks(lines: Sequence[Line]) -> list[PrintedLinks]:
    """Finds the links of GPUs in a text; each GPU is in the list once, in the order of the text.

    Capabilities without a GPU above them are read, and left out because nothing says whose they are.

    Raises:
        FormatError: a line is cut off or out of order, a GPU has more links than any GPU, or the same link of the same
            GPU is printed twice with different values.
    """
    found: dict[ListedGpu, PrintedLinks] = {}
    for header, block in _blocks(lines):
        rates, p2p = _status(header, block), _p2p(block)
        if header is None or (rates is None and not p2p):
            continue
        gpu = listed_gpu(header)
        if gpu is None:
            raise TypeError("a header that lists no GPU")
        printed = found.get(gpu, PrintedLinks(gpu=gpu, where=header.where))
        found[gpu] = _together(printed, PrintedLinks(gpu=gpu, where=header.where, rates=rates, p2p=p2p))
    return list(found.values())


def by_index(printed: Iterable[PrintedLinks]) -> dict[int, PrintedLinks]:
    """Returns the links of GPUs by index. A GPU may be there with its UUID and without it.

    Raises:
        FormatError: two outputs say different things about the same link.
    """
    found: dict[int, PrintedLinks] = {}
    for links in printed:
        known = found.get(links.gpu.index)
        found[links.gpu.index] = _together(known, links) if known else links
    return found


def has_nvlinks(lines: Sequence[Line]) -> str:
    """Returns which of the commands printed a part of a text, ``nvidia-smi nvlink -s`` first; empty if none did."""
    kinds = {_kind(link[2], link[3]) for line in lines if (link := _LINK.fullmatch(_plain(line)))}
    return STATUS if STATUS in kinds else CAPABILITIES if CAPABILITIES in kinds else ""


def _kind(sign: str, rest: str) -> str:
    if sign == ",":
        return CAPABILITIES
    return STATUS if rest == _INACTIVE or _RATE.fullmatch(rest) else ""


def _plain(line: Line) -> str:
    return " ".join(line.text.split())


def _blocks(lines: Sequence[Line]) -> Iterator[tuple[Line | None, list[tuple[Line, str]]]]:
    """Yields each GPU's line with the lines of links directly below it, and lines of links without a GPU above."""
    header: Line | None = None
    block: list[tuple[Line, str]] = []
    for line in lines:
        text = _plain(line)
        if _LINK.fullmatch(text) or _NO_LINKS.fullmatch(text):
            block.append((line.checked(), text))
        elif text:
            if block:
                yield header, block
            header, block = (line if listed_gpu(line) else None), []
    if block:
        yield header, block


def _status(header: Line | None, block: Sequence[tuple[Line, str]]) -> tuple[float, ...] | None:
    """Returns the rates of the links of a GPU; None if the lines are those of other options."""
    links = [(line, link) for line, text in block if (link := _LINK.fullmatch(text)) and link[2] == ":"]
    if not any(_kind(link[2], link[3]) == STATUS for _, link in links):
        return () if header and any(_NO_LINKS.fullmatch(text) for _, text in block) else None
    rates: list[float] = []
    for line, link in links:
        rate = _RATE.fullmatch(link[3])
        if header is None:
            expected = "the GPU above its links, GPU N: NAME (UUID: GPU-...)"
            raise FormatError(line.where, expected=expected, found=link[0], fix=WHOLE)
        if rate is None and link[3] != _INACTIVE:
            raise FormatError(line.where, expected=f"26.562 GB/s or {_INACTIVE}", found=link[3])
        if int(link[1]) != len(rates):
            raise FormatError(line.where, expected=f"Link {len(rates)}", found=f"Link {link[1]}", fix=WHOLE)
        if len(rates) == MAX_LINKS:
            raise FormatError(line.where, expected=f"at most {MAX_LINKS} links of a GPU", found=link[0])
        rates.append(float(rate[1]) if rate else 0.0)
    return tuple(rates)


def _p2p(block: Sequence[tuple[Line, str]]) -> dict[int, bool]:
    """Returns whether each link of a GPU supports P2P. The other capabilities are checked, and do not matter here."""
    found: dict[tuple[int, str], bool] = {}
    for line, text in block:
        link = _LINK.fullmatch(text)
        if not link or link[2] != ",":
            continue
        capability = _CAPABILITY.fullmatch(link[3])
        if not capability:
            expected = f"a capability such as Link {link[1]}, P2P is supported: true"
            raise FormatError(line.where, expected=expected, found=text, fix=WHOLE)
        if int(link[1]) >= MAX_LINKS:
            raise FormatError(line.where, expected=f"at most {MAX_LINKS} links of a GPU", found=f"Link {link[1]}")
        key, value = (int(link[1]), capability[1]), capability[2] == "true"
        if found.setdefault(key, value) is not value:
            raise FormatError(line.where, expected="each capability of a link once", found=f"{text}, and the opposite")
    return {number: value for (number, name), value in found.items() if name == P2P}


def _together(one: PrintedLinks, other: PrintedLinks) -> PrintedLinks:
    """Returns what two outputs say of a GPU.

    Raises:
        FormatError: they say different things about the same link.
    """
    fix = "Leave out outputs of other nodes, of containers and of other times"
    if one.rates is not None and other.rates is not None and one.rates != other.rates:
        expected = f"the same links as at {one.where}"
        raise FormatError(other.where, expected=expected, found="others", fix=fix)
    for number, can in other.p2p.items():
        if one.p2p.get(number, can) is not can:
            expected = f"the same capabilities as at {one.where}"
            raise FormatError(other.where, expected=expected, found=f"others of Link {number}", fix=fix)
    rates = one.rates if other.rates is None else other.rates
    return PrintedLinks(gpu=one.gpu, where=one.where, rates=rates, p2p={**one.p2p, **other.p2p})
