"""What is known of NCCL: each fact with the releases in which it was read, and who judged.

The page ``docs/nccl.md`` has the facts themselves, with the lines of the source. The judge ``library`` is NCCL's own
code in the binaries of PyPI, run by ``test_nccl_judge.py``.
"""

from enum import StrEnum
from typing import NamedTuple

from webhook.words.version import Version


class ReadBy(StrEnum):
    """Who says that a fact holds in a release."""

    SOURCE = "source"
    """A person who read NCCL's source of that release."""
    LIBRARY = "library"
    """NCCL's own code, out of the library of that release."""
    STRINGS = "strings"
    """Names and messages in the library of that release: they show that something exists, not what it does."""


class Fact(NamedTuple):
    """One fact."""

    what: str
    judge: ReadBy
    releases: tuple[str, ...]


SOURCES = (
    *("2.18.3", "2.19.3", "2.20.5", "2.21.5", "2.22.3", "2.23.4", "2.24.3", "2.25.1", "2.26.2"),
    *("2.27.3", "2.27.7", "2.28.3", "2.28.7", "2.28.9", "2.29.7", "2.30.3", "2.30.7"),
)


def _from(first: str) -> tuple[str, ...]:
    """Returns the releases whose source was read, from one on."""
    return SOURCES[SOURCES.index(first) :]


RUN = ("2.30.7", "2.31.2", "2.32.3")
FACTS = (
    Fact("NCCL_P2P_LEVEL: its words, and that another word keeps the default", ReadBy.SOURCE, SOURCES),
    Fact("NCCL_P2P_LEVEL: its words, and that another word keeps the default", ReadBy.LIBRARY, RUN),
    Fact("NCCL_P2P_LEVEL: the default", ReadBy.SOURCE, SOURCES),
    Fact("NCCL_TOPO_FILE: grammar, limits and bandwidths", ReadBy.SOURCE, ("2.30.7",)),
    Fact("NCCL_TOPO_FILE: grammar, limits and bandwidths", ReadBy.LIBRARY, RUN),
    Fact("NCCL_NVLS_ENABLE: the default, and the socket that it needs", ReadBy.SOURCE, SOURCES),
    Fact("NCCL_MNNVL_ENABLE: the default", ReadBy.SOURCE, _from("2.21.5")),
    Fact("NCCL_MNNVL_ENABLE: what 1 does", ReadBy.SOURCE, ("2.30.7",)),
    Fact("NCCL_CONF_FILE", ReadBy.SOURCE, _from("2.23.4")),
    Fact("NCCL_HOSTID", ReadBy.SOURCE, SOURCES),
    Fact("the size of /dev/shm", ReadBy.SOURCE, _from("2.24.3")),
    Fact("names of variables and messages", ReadBy.STRINGS, RUN),
)
BETWEEN_SOCKETS = {
    ("hgx-a100", 'familyid="23"'): ("16.0", "16.0"),
    ("hgx-a100", 'familyid="25"'): ("16.0", "24.0"),
    ("hgx-a100", 'familyid="26"'): ("16.0", "32.0"),
    ("hgx-h100", 'modelid="143"'): ("22.0", "22.0"),
    ("hgx-h100", 'modelid="173"'): ("22.0", "40.0"),
    ("hgx-h100", 'modelid="207"'): ("40.0", "40.0"),
}
"""GB/s between the sockets of a machine, if its CPUs are others: up to 2.30.7, and from 2.31.2 on."""
SOCKETS_FROM = "2.31.2"
"""The first release of those that were run with the later figures. From it on the parser refuses a file without the
family of an AMD CPU, unless NCCL adds it from its own CPU before, a step that the tests leave out."""
NO_LEVEL = -2
LEVELS = {
    **{
        text: number
        for number, text in enumerate(["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"])
    },
    **dict.fromkeys(("auto", "nvl", "PATH", " SYS"), NO_LEVEL),
}
"""What all these releases read from a text of NCCL_P2P_LEVEL: the number of the level, or none."""
FILE = "taken and refused alike, and made into one machine with the same bandwidths, but for newer sockets"
"""How the page tells what the libraries made of our files."""


def releases(judge: ReadBy) -> tuple[str, ...]:
    """All releases of which a judge says something, the oldest first."""
    return tuple(sorted({each for fact in FACTS if fact.judge is judge for each in fact.releases}, key=_order))


def _order(release: str) -> Version:
    return Version.parse(release, source="table of facts")


NEWEST = max((each for fact in FACTS for each in fact.releases), key=_order)
"""The newest release of which anything is known."""
