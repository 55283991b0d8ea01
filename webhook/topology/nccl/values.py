"""What NCCL makes of the values in a topology file. Nothing here fails: NCCL takes any text and falls back silently.

Sources: NCCL 2.30.7, src/graph/xml.h (xmlGetAttrInt, kvConvertToInt), src/graph/topo.cc (the dictionaries),
src/misc/utils.cc (busIdToInt64), src/include/cpuset.h.
"""

import re
from enum import Enum, auto

_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))")
_PLAIN_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)")
_BUS_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_MASK_WORD = re.compile(r"[0-9a-fA-F]{1,8}")

MAX_TEXT = 253
"""Bytes of a name or value, without the character that ends it: MAX_STR_LEN, src/graph/xml.h."""
HIDDEN_SWITCH = "fffffff:ffff:ff"
"""Target of links to a switch that a virtual machine hides: src/graph/xml.cc, ncclTopoGetXmlFromGpu."""
MAX_MASK_WORDS = 32
"""Words of an affinity mask: CPU_SETSIZE in src/include/cpuset.h."""
MAX_DEVICES = 32
"""GPUs in NCCL's table of NVML's P2P states: ncclNvmlDevicePairs in src/include/nvmlwrap.h."""
_BUS_ID_DIGITS = 16
_LONG = 2**63
_INT = 2**31


class PciKind(Enum):
    """What a PCI class means to NCCL."""

    SWITCH = auto()
    NVSWITCH = auto()
    CPU = auto()
    GPU = auto()
    NIC = auto()


_CLASSES = (
    ("0x060400", PciKind.SWITCH),
    ("0x080100", PciKind.SWITCH),
    ("0x068000", PciKind.NVSWITCH),
    ("0x068001", PciKind.CPU),
    ("0x03", PciKind.GPU),
    ("0x02", PciKind.NIC),
)
"""Beginnings, in NCCL's order: kvDictPciClass."""

LINK_SPEEDS = (
    "2.5 GT/s",
    "5 GT/s",
    "8 GT/s",
    "16 GT/s",
    "32 GT/s",
    "2.5 GT/s PCIe",
    "5.0 GT/s PCIe",
    "8.0 GT/s PCIe",
    "16.0 GT/s PCIe",
    "32.0 GT/s PCIe",
    "64.0 GT/s PCIe",
)
"""Beginnings: kvDictPciGen. What has none of them counts as 8 GT/s."""
ARCHITECTURES = ("x86_64", "arm64", "ppc64")
"""Beginnings: kvDictCpuArch."""
INTEL = "GenuineIntel"
ZHAOXIN = ("CentaurHauls", "  Shanghai  ")
VENDORS = (INTEL, "AuthenticAMD", *ZHAOXIN)
"""Beginnings: kvDictCpuVendor."""


def integer(text: str) -> int:
    """What ``strtol`` with base 0 and a C ``int`` make of ``text``: 0 for what is no number, octal behind a zero."""
    match = _INTEGER.match(text)
    if not match:
        return 0
    sign, hexadecimal, octal, decimal = match.groups()
    value = int(hexadecimal or octal or decimal, 16 if hexadecimal else 8 if octal else 10)
    value = max(-_LONG, -value) if sign == "-" else min(_LONG - 1, value)
    return (value + _INT) % (2 * _INT) - _INT


def is_integer(text: str) -> bool:
    """Whether NCCL reads the number that stands there."""
    plain = text.strip(" ")
    return bool(_PLAIN_INTEGER.fullmatch(plain)) and integer(plain) == int(plain, 0)


def pci_kind(text: str) -> PciKind:
    """What a PCI class means; a switch if it is none that NCCL knows."""
    return next((kind for beginning, kind in _CLASSES if text.startswith(beginning)), PciKind.SWITCH)


def is_known_class(text: str) -> bool:
    """Whether NCCL finds a PCI class among those that it knows."""
    return any(text.startswith(beginning) for beginning, _ in _CLASSES)


def is_known_speed(text: str) -> bool:
    """Whether NCCL finds a link speed among those that it knows."""
    return text.startswith(LINK_SPEEDS)


def is_bus_id(text: str) -> bool:
    """Whether this is how NCCL itself writes a bus id, so that the two can meet."""
    return bool(_BUS_ID.fullmatch(text))


def bus_number(text: str) -> int:
    """The number that NCCL takes from a bus id: its hexadecimal digits up to anything that is none."""
    digits = ""
    for character in text:
        if character in ".:":
            continue
        if character not in "0123456789abcdefABCDEF" or len(digits) == _BUS_ID_DIGITS:
            break
        digits += character
    return min(int(digits or "0", 16), _LONG - 1)


def mask_words(text: str) -> tuple[str, ...]:
    """The words of an affinity mask, the one with the highest CPUs first; ``strtok`` passes over empty ones."""
    return tuple(word for word in text.split(",") if word)


def is_mask(text: str) -> bool:
    """Whether NCCL gets the CPUs that an affinity mask means."""
    words = mask_words(text)
    return 0 < len(words) <= MAX_MASK_WORDS and all(_MASK_WORD.fullmatch(word) for word in words)
