"""The process that measures: its requests and answers, and the supervisor that sends it one step at a time.

The supervisor ends a process that takes too long. The process itself is ``webhook.programs.verify.worker``.
"""

import socket
import subprocess
import sys
from types import TracebackType
from typing import NoReturn, Self

import msgspec

from webhook.hardware.discovery.facts import CardUsage
from webhook.hardware.measurement.peers import HandleKind
from webhook.hardware.measurement.report import CardSet, Pair, Skipped

MAX_BYTES = 192 * 1024
"""Size limit of one message. Linux buffers 208 KiB of a socket."""
_ENDS_WITHIN_SECONDS = 5.0
_MOST_ENDED = 3
"""The number of ended processes after which the supervisor gives up, because each may leave a card that hangs."""


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
    """The measurement of copies from one card to another, without a verdict."""

    pair: Pair


class SetMeasured(Answer, frozen=True, kw_only=True):
    """The measurement of an all-reduce, without a verdict."""

    together: CardSet


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
_ANSWERS: msgspec.json.Decoder[TOLD] = msgspec.json.Decoder(TOLD)


class StepLost(Exception):
    """The error of a step without an answer.

    Args:
        reason: The reason in a report, which is also the text of the error.
    """

    def __init__(self, reason: Skipped) -> None:
        self.reason = reason
        super().__init__(str(reason))


class Supervisor:
    """The process that measures. It is started with the first step, and again after a lost step."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._lost = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def ask(self, request: ASK, seconds: float) -> TOLD:
        """Runs a step and returns its answer.

        Args:
            request: The step.
            seconds: The time limit of the step.

        Raises:
            StepLost: the step took longer, the process died, or too many steps were lost before.
        """
        if self._lost >= _MOST_ENDED:
            raise StepLost(Skipped.GIVEN_UP)
        channel = self._channel or self._start()
        channel.settimeout(seconds)
        try:
            channel.sendall(msgspec.json.encode(request))
            said = channel.recv(MAX_BYTES)
        except TimeoutError:
            self._lose(Skipped.TIMED_OUT)
        except OSError:
            self._lose(Skipped.ENDED)
        if not said:
            self._lose(Skipped.ENDED)
        return _ANSWERS.decode(said)

    @property
    def pid(self) -> int:
        """The PID of the process, which is started for it."""
        if self._process is None:
            self._start()
        return self._process.pid if self._process else 0

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptor = theirs.fileno()
        command = [sys.executable, "-m", "webhook.programs.verify.worker", str(descriptor)]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=(descriptor,)
            )
        self._channel = ours
        return ours

    def _lose(self, reason: Skipped) -> NoReturn:
        self._lost += 1
        if not self._end():
            self._lost = _MOST_ENDED
        raise StepLost(reason)

    def _end(self) -> bool:
        """Kills the process; returns whether it ended. A process that waits in the kernel for a driver does not end."""
        if self._channel:
            self._channel.close()
        process, self._channel, self._process = self._process, None, None
        if not process:
            return True
        process.kill()
        try:
            process.wait(_ENDS_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True
