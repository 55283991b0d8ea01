"""What the command asks of the process that measures, and what it is answered."""

from enum import StrEnum

import msgspec

from webhook.hardware.discovery.facts import CardUsage


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="ask", tag=lambda name: name):
    """One step; the process does one at a time."""


class LookAtMachine(Request, frozen=True, kw_only=True):
    """The topology of the machine, and who uses its cards."""

    node: str
    root: str = "/"
    """Where ``/sys`` and ``/proc`` are."""


class LookAtCuda(Request, frozen=True, kw_only=True):
    """The version of CUDA, and its devices."""


class LookAtNccl(Request, frozen=True, kw_only=True):
    """The version of NCCL."""


class Method(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How long and how often is measured."""

    copy_bytes: int = 256 * 1024 * 1024
    copies: int = 16
    """In each sample."""
    staged_copies: int = 4
    """In each sample without peer access, which is slower by far."""
    samples: int = 5
    warm_ups: int = 2
    """Samples that are thrown away."""
    latency_copies: int = 100
    """Of one word."""

    @property
    def rounds(self) -> int:
        """How often is measured, samples that are thrown away among them."""
        return self.warm_ups + self.samples


class MeasurePair(Request, frozen=True, kw_only=True):
    """Copies from one card to another."""

    source: str
    target: str
    method: Method


class MeasureSet(Request, frozen=True, kw_only=True):
    """An all-reduce of several cards."""

    cards: list[str]
    method: Method


class HandleKind(StrEnum):
    """How one process lets another use memory of a card."""

    IPC = "cuda-ipc"
    """``cuIpcGetMemHandle``: 64 bytes."""
    POSIX_FD = "posix-fd"
    """``cuMemExportToShareableHandle``: a file descriptor, which only a UNIX socket carries."""
    FABRIC = "fabric"
    """The same: 64 bytes."""


class Offer(Request, frozen=True, kw_only=True):
    """Allocate memory that another process may use, and make a handle of it."""

    card: str
    kind: HandleKind
    size: int


class Take(Request, frozen=True, kw_only=True):
    """Use the memory of another process: copy from it to one's own card. A file descriptor comes beside it."""

    card: str
    kind: HandleKind
    handle: str
    size: int
    method: Method


class TellPid(Request, frozen=True, kw_only=True):
    """Which PID the process has, as it sees itself."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag_field="told", tag=lambda name: name):
    """What came of a step."""


class Failed(Answer, frozen=True, kw_only=True):
    """A function refused it."""

    function: str
    code: int


class NoLibrary(Answer, frozen=True, kw_only=True):
    """A library cannot be loaded."""

    library: str
    problem: str = ""
    """What the dynamic linker says of one that is there; empty if there is none."""

    @property
    def sentence(self) -> str:
        """Why, in a sentence."""
        return f"{self.library} cannot be loaded: {self.problem}" if self.problem else f"{self.library} is not here"


class Machine(Answer, frozen=True, kw_only=True):
    """What NVML and sysfs say."""

    topology: str
    """NodeTopology in JSON."""
    usage: tuple[CardUsage, ...]


class CudaDevices(Answer, frozen=True, kw_only=True):
    """What CUDA sees."""

    version: str
    uuids: list[str]


class NcclVersion(Answer, frozen=True, kw_only=True):
    """That can be loaded."""

    version: str


class PairMeasured(Answer, frozen=True, kw_only=True):
    """What was measured from one card to another."""

    peer_access: bool
    rank: int | None
    staged_gbps: list[float]
    """GB/s of each sample without peer access."""
    gbps: list[float]
    """GB/s of each sample with peer access; empty if there is none."""
    latency_us: list[float]
    copied_bytes: int
    """With peer access, or without it if there is none, while the counters were watched."""
    sent_bytes: int | None
    """That the NVLinks of the source say to have sent meanwhile; None if they have no counters."""
    received_bytes: int | None
    intact: bool
    """Whether the target had what the source sent."""


class SetMeasured(Answer, frozen=True, kw_only=True):
    """What was measured of an all-reduce."""

    milliseconds: list[float]
    """Of one all-reduce, for each sample."""
    reduced_bytes: int
    """Of one all-reduce."""
    reductions: int
    """While the counters were watched."""
    sent_bytes: list[int | None]
    """Over NVLink, in the order of the cards."""


class Offered(Answer, frozen=True, kw_only=True):
    """Memory that another process may use, until this one ends."""

    handle: str
    """In hexadecimal digits; empty for a file descriptor, which comes beside it."""


class Taken(Answer, frozen=True, kw_only=True):
    """Memory of another process was used."""

    gbps: list[float]
    intact: bool
    """Whether it held what its owner wrote."""


class PidTold(Answer, frozen=True, kw_only=True):
    """The PID of the process, in its own namespace."""

    pid: int


ASK = LookAtMachine | LookAtCuda | LookAtNccl | MeasurePair | MeasureSet | Offer | Take | TellPid
TOLD = Failed | NoLibrary | Machine | CudaDevices | NcclVersion | PairMeasured | SetMeasured | Offered | Taken | PidTold
MAX_BYTES = 192 * 1024
"""Of one message: Linux lets a socket have 208 KiB under way."""
