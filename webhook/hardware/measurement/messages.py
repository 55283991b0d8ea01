"""Messages between the command and the process that measures: requests and answers."""

from enum import StrEnum

import msgspec

from webhook.hardware.discovery.facts import CardUsage


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="ask", tag=lambda name: name):
    """A request for one step. The process does one step at a time."""


class LookAtMachine(Request, frozen=True, kw_only=True):
    """A request for the topology of the machine and the use of its cards."""

    node: str
    root: str = "/"
    """The directory that holds ``/sys`` and ``/proc``."""


class LookAtCuda(Request, frozen=True, kw_only=True):
    """A request for the version of CUDA and its devices."""


class LookAtNccl(Request, frozen=True, kw_only=True):
    """A request for the version of NCCL."""


class Method(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The sizes and numbers of copies and samples of a measurement."""

    copy_bytes: int = 256 * 1024 * 1024
    copies: int = 16
    """Copies in each sample."""
    staged_copies: int = 4
    """Copies in each sample without peer access, which is much slower."""
    samples: int = 5
    warm_ups: int = 2
    """First samples, which are discarded."""
    latency_copies: int = 100
    """Copies of one word."""
    reduced_bytes: tuple[int, ...] = (1024**2, 16 * 1024**2, 256 * 1024**2, 1024**3)
    """Sizes of an all-reduce, the least first. The largest that fits into memory is judged: 256 MiB are too few for the
    full rate (https://github.com/NVIDIA/nccl-tests/issues/212)."""
    small_bytes: int = 8
    """Size of the all-reduce whose latency is measured; the least of nccl-tests."""
    reductions: int = 20
    """The most all-reduces in each sample, one after the other without a pause, as in nccl-tests."""

    @property
    def rounds(self) -> int:
        """The number of samples, with the discarded ones."""
        return self.warm_ups + self.samples


class MeasurePair(Request, frozen=True, kw_only=True):
    """A request to measure copies from one card to another."""

    source: str
    target: str
    method: Method


class MeasureSet(Request, frozen=True, kw_only=True):
    """A request to measure an all-reduce of several cards."""

    cards: list[str]
    method: Method


class HandleKind(StrEnum):
    """The kind of handle by which one process shares memory of a card with another."""

    IPC = "cuda-ipc"
    """``cuIpcGetMemHandle``: 64 bytes."""
    FABRIC = "fabric"
    """``cuMemExportToShareableHandle``: 64 bytes."""


class Offer(Request, frozen=True, kw_only=True):
    """A request to allocate memory that another process may use, and to export a handle of it."""

    card: str
    kind: HandleKind
    size: int


class Take(Request, frozen=True, kw_only=True):
    """A request to use the memory of another process: to copy from it to the own card."""

    card: str
    kind: HandleKind
    handle: str
    size: int
    method: Method


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag_field="told", tag=lambda name: name):
    """The answer to a request."""


class Failed(Answer, frozen=True, kw_only=True):
    """The failure of a called function."""

    function: str
    code: int
    said: str = ""
    """What the library says of its last error."""


class NoLibrary(Answer, frozen=True, kw_only=True):
    """A library that cannot be loaded."""

    library: str
    problem: str = ""
    """The error of the dynamic linker about a library that exists; empty if the library is missing."""

    @property
    def sentence(self) -> str:
        """The reason why the library cannot be loaded, in a sentence."""
        return f"{self.library} cannot be loaded: {self.problem}" if self.problem else f"{self.library} is not here"


class Machine(Answer, frozen=True, kw_only=True):
    """The machine, as NVML and sysfs report it."""

    topology: str
    """NodeTopology in JSON."""
    usage: tuple[CardUsage, ...]


class CudaDevices(Answer, frozen=True, kw_only=True):
    """The version of CUDA and the devices that it sees."""

    version: str
    uuids: list[str]


class NcclVersion(Answer, frozen=True, kw_only=True):
    """The version of the NCCL that can be loaded."""

    version: str


class PairMeasured(Answer, frozen=True, kw_only=True):
    """The measurement of copies from one card to another."""

    peer_access: bool
    rank: int | None
    staged_gbps: list[float]
    """GB/s of each sample without peer access."""
    gbps: list[float]
    """GB/s of each sample with peer access; empty without peer access."""
    latency_us: list[float]
    copied_bytes: int
    """Bytes copied between the two readings of the counters; without peer access only if there is none."""
    sent_bytes: int | None
    """Bytes that the NVLinks of the source counted as sent meanwhile; None if they have no counters."""
    received_bytes: int | None
    intact: bool
    """Whether the target received the data of the source unchanged."""


class Reduced(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The measurement of all-reduces of one size."""

    bytes: int
    """Bytes of one all-reduce."""
    milliseconds: list[float]
    """Time of one all-reduce, for each sample."""


class SetMeasured(Answer, frozen=True, kw_only=True):
    """The measurement of an all-reduce, of the largest size that fits into memory."""

    milliseconds: list[float]
    """Time of one all-reduce, for each sample: the mean of those in a row."""
    reduced_bytes: int
    """Bytes of one all-reduce."""
    reductions: int
    """Number of all-reduces between the two readings of the counters."""
    sent_bytes: list[int | None]
    """Bytes that each card sent over NVLink meanwhile, in the order of the cards; None without counters."""
    smaller: list[Reduced] = []
    latency_us: list[float] = []
    """Microseconds of one all-reduce of a few bytes, for each sample."""


class Offered(Answer, frozen=True, kw_only=True):
    """The handle of memory that another process may use until this process ends."""

    handle: str
    """The handle in hexadecimal digits."""


class Taken(Answer, frozen=True, kw_only=True):
    """The result of a copy from the memory of another process."""

    gbps: list[float]
    intact: bool
    """Whether the memory held the data that its owner wrote."""


ASK = LookAtMachine | LookAtCuda | LookAtNccl | MeasurePair | MeasureSet | Offer | Take
TOLD = Failed | NoLibrary | Machine | CudaDevices | NcclVersion | PairMeasured | SetMeasured | Offered | Taken
MAX_BYTES = 192 * 1024
"""Size limit of one message. Linux buffers 208 KiB of a socket."""
