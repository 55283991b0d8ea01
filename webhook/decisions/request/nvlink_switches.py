"""The values of variables with which a container switches NVLink off for itself, for admission and for ``explain``.

NCCL reads an integer with ``strtoll``, so that a word is 0; it ignores an unknown level. Sources: NCCL
src/misc/param.cc, src/graph/paths.cc (ncclTopoCheckP2p, levels), src/misc/utils.cc (getHostHash), src/graph/xml.cc
(ncclTopoGetXmlGraphFromFile); UCX docs/source/faq.md.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from webhook.decisions.request.settings import GRAPH_FILE, P2P_DISABLE, SHM_DISABLE, UCX_TLS
from webhook.words import names
from webhook.words.catalogue import variables
from webhook.words.catalogue.entry import Entry

_NUMBER = re.compile(r"\s*([+-]?)0*([0-9]{0,19})")
"""An integer, as long as strtoll reads; Python refuses to read more than 4,300 digits."""
_CUDA_IPC = frozenset({"cuda_ipc", "cuda", "all"})


class Matters(StrEnum):
    """The pods to which a switch matters."""

    ALL = "all"
    UNLINKED = "unlinked"
    """Pods with two GPUs that have no NVLink between them."""
    PEERS = "peers"
    """Pods of a profile whose containers share GPUs."""


class Switch(msgspec.Struct, frozen=True):
    """A variable, and the values with which it switches NVLink off."""

    name: str
    takes: Callable[[str], bool]
    """Returns whether a value switches NVLink off."""
    warning: Entry
    """The warning of admission; it never repeats the value."""
    finding: Entry
    """The finding of ``explain``."""
    stops: bool = False
    """Whether NCCL then uses no NVLink at all."""
    matters: Matters = Matters.ALL


def read_integer(text: str) -> int:
    """Returns the number that NCCL reads; 0 where it reads none."""
    match = _NUMBER.match(text)
    return int(match[1] + match[2]) if match and match[2] else 0


def shuts_p2p(level: str) -> bool:
    """Returns whether this value of ``NCCL_P2P_LEVEL`` leaves no P2P."""
    return level == "LOC" or re.match(r"0+(?!\d)", level) is not None


def lacks_cuda_ipc(transports: str) -> bool:
    """Returns whether this value of ``UCX_TLS`` leaves CUDA IPC out."""
    refused = transports.startswith("^")
    named = {part.strip() for part in transports.removeprefix("^").split(",")}
    return bool(transports) and refused == bool(named & _CUDA_IPC)


def _is_one(text: str) -> bool:
    return read_integer(text) == 1


def _is_empty(text: str) -> bool:
    return not text


SWITCHES: Mapping[str, Switch] = MappingProxyType(
    {
        switch.name: switch
        for switch in (
            Switch(P2P_DISABLE, _is_one, variables.P2P_DISABLED_HERE, variables.P2P_DISABLED, stops=True),
            Switch(
                names.ENV_NCCL_P2P_LEVEL,
                shuts_p2p,
                variables.P2P_LEVEL_TOO_LOW_HERE,
                variables.P2P_LEVEL_TOO_LOW,
                stops=True,
            ),
            Switch(
                SHM_DISABLE,
                _is_one,
                variables.SHM_DISABLED_HERE,
                variables.SHM_DISABLED,
                matters=Matters.UNLINKED,
            ),
            Switch(names.ENV_NCCL_HOSTID, _is_empty, variables.HOST_ID_EMPTY_HERE, variables.HOST_ID_EMPTY),
            Switch(GRAPH_FILE, _is_empty, variables.GRAPH_FILE_EMPTY_HERE, variables.GRAPH_FILE_EMPTY, stops=True),
            Switch(
                UCX_TLS,
                lacks_cuda_ipc,
                variables.UCX_WITHOUT_CUDA_IPC_HERE,
                variables.UCX_WITHOUT_CUDA_IPC,
                matters=Matters.PEERS,
            ),
        )
    }
)
"""The switches by the name of the variable."""
