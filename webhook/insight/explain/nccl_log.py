"""The reader of what NCCL prints with ``NCCL_DEBUG=INFO``: which GPUs it joined, and by which transport.

The formats were read in NCCL 2.18.1 to 2.30.7, src/debug.cc, src/init.cc, src/graph/paths.cc and src/transport. A line
of a channel names ranks and no communicator, and ranks of several communicators have the same numbers. So each line is
read by its sender, the prefix ``host:pid:tid [device]``. The GPU of the sender is the bus id of its ``Init`` lines.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec

from webhook.words.printable import fitted

LIMIT = 65536
"""The most communicators' members, connections and processes that are kept of all logs together."""
_MESSAGE_LIMIT = 1024
"""NCCL cuts its lines there."""
_PREFIX_LIMIT = 512
_WARNINGS = 64
_ALIKE = 256
"""The most communicators in which a sender has one rank, and the most GPUs of one rank; with more nothing is known."""
_SENDER = re.compile(r"([A-Za-z0-9_-]{1,64}):(\d{1,10}):\d{1,10} \[(-?\d{1,5})\] ")
_INIT = re.compile(
    r"comm (?P<pointer>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,7}) nranks (?P<ranks>\d{1,7}) cudaDev -?\d{1,5} "
    r"(?:nvmlDev (?P<device>\d{1,5}) )?busId (?P<bus>[0-9a-f]{1,16}) "
    r"(?:parent (?P<parent>0x[0-9a-f]{1,16}) (?P<child>[a-zA-Z0-9 -]{1,80}?) ?key -?\d{1,10} ?)?"
    r"(?:commId (?P<id>0x[0-9a-f]{1,16}) )?- Init (?P<state>START|COMPLETE)"
)
_NODES = re.compile(r"comm (0x[0-9a-f]{1,16}) rank \d{1,7} nRanks \d{1,7} nNodes (\d{1,7}) ")
_CHANNEL = re.compile(
    r"Channel \d{1,4}(?:/\d{1,4})? : (\d{1,7})\[([0-9a-f]{1,16})\] -> (\d{1,7})\[([0-9a-f]{1,16})\] "
    r"(?:\[(send|receive)\] )?via ((?:P2P|SHM|NET)/[A-Za-z0-9_.-]{1,32})"
)
_NVLS = re.compile(r"NVLS comm 0x[0-9a-f]{1,16} headRank \d")
_SETTING = re.compile(r"(NCCL_[A-Z0-9_]{1,40}) set by environment to (\S{1,200})")
_VERSION = re.compile(r"(?:^|[\s>:])NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3})")


class Process(NamedTuple):
    """A process that NCCL names in the prefix of its lines. The number of the log keeps containers of one pod apart."""

    log: int
    host: str
    pid: int


class Sender(NamedTuple):
    """The sender of a line: a process with a CUDA device."""

    process: Process
    device: int


class Member(NamedTuple):
    """A rank of a communicator."""

    sender: Sender
    communicator: str
    """The communicator: the same text for all its ranks, in all logs."""
    rank: int
    ranks: int
    device: int | None
    """The number of the GPU in NVML's view of the process; None in 2.18.1, which prints none."""
    bus: int
    """The bus id of the GPU: its digits as one hexadecimal number."""


class Line(NamedTuple):
    """A line of a channel, once for all channels."""

    sender: Sender
    rank: int
    peer: int
    peer_device: str
    """What stands in brackets: the bus id in 2.18.1, the number of NVML later."""
    transport: str
    """Such as ``P2P/CUMEM``, ``SHM/direct`` or ``NET/IB``."""


class Warned(NamedTuple):
    """A line ``NCCL WARN``."""

    process: Process
    text: str
    at: int
    """The number of the line, over all logs."""


class Path(NamedTuple):
    """The transport by which NCCL joins a GPU to another one."""

    source: int
    target: int | None
    """The bus id of the other GPU; None where the logs do not show it."""
    transport: str
    is_local: bool | None
    """Whether the other GPU is on the same host; None where the logs do not show it."""


_End = tuple[int, int | None, str]
"""The bus id of a rank, its number in NVML's view, and its host."""


class NcclLog(msgspec.Struct, kw_only=True, dict=True):
    """What the logs show. Nothing changes it after it was read."""

    hosts: dict[str, None] = {}
    """The hosts that have lines of NCCL, in their order."""
    members: dict[Member, None] = {}
    lines: dict[Line, None] = {}
    nodes: dict[str, int] = {}
    """The number of nodes of communicators, from 2.20 on."""
    multicast: dict[Sender, None] = {}
    """The senders that set up NVLink SHARP."""
    started: dict[tuple[Sender, str], int] = {}
    """The communicators of senders that began and did not end their initialization, with the number of the line."""
    completed: dict[Sender, int] = {}
    """The number of the last line ``Init COMPLETE`` of a sender."""
    settings: dict[tuple[str, str], str] = {}
    """The values of variables that NCCL read, by host and name."""
    warned: list[Warned] = []
    version: str = ""
    is_cut: bool = False
    """Whether something was left out, because there is more than is kept."""

    @cached_property
    def buses(self) -> Mapping[Sender, frozenset[int]]:
        """The bus ids of each sender: several where two containers look alike in one log."""
        found: dict[Sender, set[int]] = {}
        for member in self.members:
            found.setdefault(member.sender, set()).add(member.bus)
        return {sender: frozenset(buses) for sender, buses in found.items()}

    def paths(self, host: str) -> Iterator[Path]:
        """Yield how NCCL joins GPUs of one host to others; lines whose sender is not known are left out."""
        own: dict[tuple[Sender, int], list[Member]] = {}
        ends: dict[tuple[str, int], set[_End]] = {}
        for member in self.members:
            own.setdefault((member.sender, member.rank), []).append(member)
            end = (member.bus, member.device, member.sender.process.host)
            ends.setdefault((member.communicator, member.rank), set()).add(end)
        for line in self.lines:
            buses = self.buses.get(line.sender, frozenset())
            if line.sender.process.host != host or len(buses) != 1:
                continue
            every = own.get((line.sender, line.rank), [])
            meant = [member for member in every if line.peer < member.ranks] if len(every) <= _ALIKE else []
            told = [found for member in meant if (found := self._other_end(member, line, ends))]
            targets, places = {target for target, _ in told}, {is_local for _, is_local in told}
            is_local = places.pop() if len(places) == 1 else None
            yield Path(
                min(buses),
                targets.pop() if len(targets) == 1 else None,
                line.transport,
                True if line.transport.startswith("SHM") else is_local,
            )

    def _other_end(
        self, member: Member, line: Line, ends: Mapping[tuple[str, int], set[_End]]
    ) -> tuple[int | None, bool | None] | None:
        """Return the GPU at the other end, and whether it is on this host; None if the line is of another one."""
        host, nodes = member.sender.process.host, self.nodes.get(member.communicator)
        known = ends.get((member.communicator, line.peer), set())
        known = known if len(known) <= _ALIKE else set()
        named = int(line.peer_device, 16) if member.device is None else None
        fitting = {end for end in known if (end[0] == named if named is not None else str(end[1]) == line.peer_device)}
        if known and not fitting:
            return None
        if len(fitting) == 1:
            ((bus, _, place),) = fitting
            return bus, place == host or nodes == 1
        return named, None if nodes is None else nodes == 1


class _Reader:
    """The state of a reading."""

    def __init__(self) -> None:
        self.found = NcclLog()
        self._by_pointer: dict[tuple[Process, str], str] = {}
        self._splits: dict[tuple[str, str, str], str] = {}
        self._number = 0

    def read(self, text: str, log: int) -> None:
        """Read one line."""
        self._number += 1
        if "NCCL " not in text:
            return
        if not self.found.version and (version := _VERSION.search(text[: _PREFIX_LIMIT + _MESSAGE_LIMIT])):
            self.found.version = version[1]
        is_warning = " NCCL WARN " in text
        head, _, message = text.partition(" NCCL WARN " if is_warning else " NCCL INFO ")
        senders = list(_SENDER.finditer(head[-_PREFIX_LIMIT:] + " "))
        if not message or not senders or self._is_full():
            return
        found = senders[-1]  # a time stamp before it may look like one
        process = Process(log, found[1], int(found[2]))
        sender, message = Sender(process, int(found[3])), message[:_MESSAGE_LIMIT]
        self.found.hosts.setdefault(process.host)
        if not is_warning:
            self._read_information(sender, message)
        elif len(self.found.warned) < _WARNINGS:
            self.found.warned.append(Warned(process, fitted(message.strip(), 300), self._number))

    def _is_full(self) -> bool:
        log = self.found
        sizes = (len(log.members), len(log.lines), len(log.settings), len(log.hosts), len(self._by_pointer))
        log.is_cut = log.is_cut or max(sizes) >= LIMIT
        return self.found.is_cut

    def _read_information(self, sender: Sender, message: str) -> None:
        if found := _CHANNEL.match(message):
            self._read_channel(sender, found)
        elif found := _INIT.search(message):
            self._read_init(sender, found)
        elif found := _NODES.match(message):
            communicator = self._by_pointer.get((sender.process, found[1]))
            if communicator is not None:
                self.found.nodes[communicator] = int(found[2])
        elif _NVLS.match(message):
            self.found.multicast.setdefault(sender)
        elif found := _SETTING.match(message):
            self.found.settings[sender.process.host, found[1]] = fitted(found[2].rstrip("."))

    def _read_channel(self, sender: Sender, found: re.Match[str]) -> None:
        rank, peer, device = int(found[1]), int(found[3]), found[4]
        if found[5] == "receive":  # the receiver prints it, and it names the sender first
            rank, peer, device = peer, rank, found[2]
        self.found.lines.setdefault(Line(sender, rank, peer, device, found[6]))

    def _read_init(self, sender: Sender, found: re.Match[str]) -> None:
        communicator = self._communicator(sender.process, found)
        self._by_pointer[sender.process, found["pointer"]] = communicator
        device = int(found["device"]) if found["device"] else None
        numbers = int(found["rank"]), int(found["ranks"]), device, int(found["bus"], 16)
        self.found.members.setdefault(Member(sender, communicator, *numbers))
        if found["state"] == "START":
            self.found.started[sender, communicator] = self._number
        else:
            self.found.started.pop((sender, communicator), None)
            self.found.completed[sender] = self._number

    def _communicator(self, process: Process, found: re.Match[str]) -> str:
        """Return a name for the communicator that all its ranks share.

        From 2.23 on a communicator that was split off another one has no ``commId``: the one that it was split off,
        the number of the split and its color name it. In 2.23 there is no number of the split.
        """
        number = found["id"]
        if number and int(number, 16):
            return f"{number}/{found['ranks']}"
        if not found["parent"]:
            return f"{process} {found['pointer']}/{found['ranks']}"
        parent = self._by_pointer.get((process, found["parent"]), f"{process} {found['parent']}")
        split = (parent, found["child"], found["ranks"])
        return self._splits.setdefault(split, f"split {len(self._splits)}")


def read_nccl_logs(logs: Iterable[Iterable[str]]) -> NcclLog:
    """Return what logs of one or several pods show; lines of other programs are skipped."""
    reader = _Reader()
    for log, lines in enumerate(logs):
        for text in lines:
            reader.read(text, log)
    return reader.found
