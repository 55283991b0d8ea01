"""What NCCL says about its transports, from its debug log.

The wordings are those of NCCL 2.30 with ``NCCL_DEBUG=INFO`` and the subsystems ``INIT,ENV,GRAPH,P2P,SHM,NET``:
``src/transport/{p2p,shm,net}.cc``, ``src/graph/{topo,xml}.cc``, ``src/debug.cc``.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

_CHANNEL = re.compile(
    r"NCCL INFO Channel \d{1,4}(?:/\d{1,4})? : \d{1,6}\[([0-9a-f]{1,16})\] -> \d{1,6}\[([0-9a-f]{1,16})\]"
    r"(?: \[(?:send|receive)\])? via (P2P|SHM|NET)\b"
)
_VERSION = re.compile(r"NCCL version (\d{1,4}\.\d{1,4}\.\d{1,4})")
_BANDWIDTH = re.compile(r"=== System : maxBw (\d{1,6}\.\d{1,3}) ")
_FILE = re.compile(r"NCCL_TOPO_FILE set by environment to (\S{1,4096})")
_NOT_OPENED = "Could not open XML topology file"
_NVLS = re.compile(r"NCCL INFO \d{1,4} coll channels, (?:\d{1,4} collnet channels, )?(\d{1,4}) nvls channels\b")
_WARNING = re.compile(r"NCCL WARN (.{1,512})")
_MOST_WARNINGS = 16
_MOST_CHANNELS = 16384
"""Different ones. 64 cards have 4,032 pairs, and each transport may connect one."""


class Channel(NamedTuple):
    """What joins one card to another."""

    source: str
    """The index of NVML since NCCL 2.19, before that the bus id in hexadecimal digits: ``2b000``."""
    target: str
    transport: str
    """``P2P``, ``SHM`` or ``NET``."""


class NcclLog(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of NCCL said, all ranks together."""

    version: str = ""
    """Such as ``2.27.3``; empty if it is not told."""
    topology_file: str = ""
    """Path of the file that NCCL was given; empty if it was given none."""
    is_file_opened: bool = True
    """Whether NCCL could open that file; it goes on without it."""
    max_bandwidth: float | None = None
    """GB/s between two GPUs at most, by the topology that NCCL has."""
    channels: frozenset[Channel] = frozenset()
    """Those that were connected, each once."""
    nvls_channels: int = 0
    """Channels that reduce in the NVSwitches. They stand without a line for each pair."""
    warnings: tuple[str, ...] = ()
    """At most 16."""

    @property
    def transports(self) -> frozenset[str]:
        """``P2P``, ``SHM``, ``NET``: those by which channels were connected."""
        return frozenset(channel.transport for channel in self.channels)

    @property
    def is_told(self) -> bool:
        """Whether any channel was connected, as far as the log tells."""
        return bool(self.channels)

    @property
    def is_built(self) -> bool:
        """Whether NCCL built its topology, as far as the log tells: with NVLS alone it names no channel."""
        return self.is_told or self.max_bandwidth is not None


def read_nccl_log(lines: Iterable[str]) -> NcclLog:
    """Read a log.

    Args:
        lines: Those of all ranks, in any order, with other output between them.
    """
    found: dict[str, str] = {}
    channels: set[Channel] = set()
    warnings: list[str] = []
    nvls = 0
    is_opened = True
    for line in lines:
        channel = _CHANNEL.search(line)
        if channel and len(channels) < _MOST_CHANNELS:
            channels.add(Channel(*channel.groups()))
        for name, value in _facts(line):
            if name == "warning":
                warnings += [value] if len(warnings) < _MOST_WARNINGS else []
            elif name == "nvls":
                nvls = max(nvls, int(value))
            elif name == "not opened":
                is_opened = False
            else:
                found.setdefault(name, value)
    bandwidth = found.get("bandwidth")
    return NcclLog(
        version=found.get("version", ""),
        topology_file=found.get("file", ""),
        is_file_opened=is_opened,
        max_bandwidth=float(bandwidth) if bandwidth else None,
        channels=frozenset(channels),
        nvls_channels=nvls,
        warnings=tuple(warnings),
    )


_FACTS = {"nvls": _NVLS, "version": _VERSION, "bandwidth": _BANDWIDTH, "file": _FILE, "warning": _WARNING}


def _facts(line: str) -> Iterator[tuple[str, str]]:
    for name, pattern in _FACTS.items():
        found = pattern.search(line)
        if found:
            yield name, found[1]
    if _NOT_OPENED in line:
        yield "not opened", ""
