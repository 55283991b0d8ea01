"""The trial whether two pods of one node can use each other's memory, and how fast.

One pod offers memory by each kind of handle, and the other pod uses it. Their commands exchange lines of JSON. The
processes of ``verify.process`` use the cards, one for each kind of handle.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

import msgspec

from webhook.hardware.measurement.peers import (
    PROTOCOL,
    HandleKind,
    Hello,
    MemoryOffer,
    Message,
    Offers,
    Outcome,
    PeerReport,
    PeerVerdict,
    Results,
    conclusion,
    judged,
)
from webhook.hardware.measurement.plan import is_free
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.verify.library import explained
from webhook.programs.verify.process import ASK, TOLD, Failed, Method, Offer, Offered, StepLost, Supervisor, Take, Taken
from webhook.programs.verify.run import Wanted, cuda_here, machine_here
from webhook.words.errors import FormatError, GpuTopologyError
from webhook.words.listing import listed
from webhook.words.nesting import decode
from webhook.words.shape import shape_problem

SIZE = 64 * 1024 * 1024
"""The bytes of offered memory, a multiple of CUDA's granularity."""
_ATTEMPTS = 3
"""The most processes that are started until one has another PID than the one that offers. CUDA seems to take equal PID
values for one process, even in different PID namespaces."""
MAX_LINE = 64 * 1024
_DECODER = msgspec.json.Decoder(Hello | Offers | Results)
_PEER = "the other pod"
_PAUSE_SECONDS = 0.25
_M = TypeVar("_M", bound=Message)


class PeerLost(GpuTopologyError):
    """The error of a trial without the other side, or without a usable card here; the text says why."""


class Channel:
    """One connection to the other side.

    Args:
        connection: A TCP or UNIX socket.
        seconds: The time limit of the whole conversation, which begins now. A limit of each read would not end: the
            other side can send one byte at a time.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._socket = connection
        self._seconds, self._until = seconds, monotonic() + seconds
        self._read = b""

    def tell(self, message: Message) -> None:
        """Sends a message.

        Raises:
            PeerLost: the message cannot be sent, or the time of the conversation is over.
        """
        with self._in_time("cannot be told anything"):
            self._socket.sendall(msgspec.json.encode(message) + b"\n")

    def hear(self, kind: type[_M]) -> _M:
        """Receives the next message, which must be of this kind.

        Raises:
            PeerLost: no message came, or not within the time of the conversation.
            FormatError: the message is another one, or too long.
        """
        while b"\n" not in self._read:
            if len(self._read) > MAX_LINE:
                raise FormatError(_PEER, expected=f"lines of at most {MAX_LINE} bytes", found="more")
            with self._in_time("says nothing"):
                more = self._socket.recv(MAX_LINE)
            if not more:
                raise PeerLost(f"{_PEER} has ended the connection")
            self._read += more
        line, self._read = self._read.split(b"\n", 1)
        try:
            message = decode(_DECODER, line)
        except msgspec.DecodeError as error:
            raise FormatError(_PEER, expected="a word of the protocol", found=shape_problem(error)) from None
        if not isinstance(message, kind):
            raise FormatError(_PEER, expected=kind.__name__, found=type(message).__name__)
        return message

    @contextmanager
    def _in_time(self, problem: str) -> Iterator[None]:
        """Limits a read or a write to what is left of the conversation; raises PeerLost if it fails."""
        left = self._until - monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            yield
        except TimeoutError:
            raise PeerLost(f"{_PEER} has not finished within {self._seconds:g} s") from None
        except OSError as error:
            raise PeerLost(f"{_PEER} {problem}: {error}") from None


@contextmanager
def listening(address: str, seconds: float) -> Iterator[Channel]:
    """Waits for the connection of the other pod.

    Args:
        address: ``HOST:PORT``, or the path of a UNIX socket in a directory that both pods have.
        seconds: The time limit until the other pod connects, and then again of the whole conversation.

    Raises:
        PeerLost: no connection came, or the address cannot be used.
    """
    try:
        with _listener(address) as listener:
            listener.settimeout(seconds)
            connection, _ = listener.accept()
    except (OSError, ValueError) as error:
        raise PeerLost(f"{address}: {_PEER} does not come: {error}") from None
    with closing(connection):
        yield Channel(connection, seconds)


@contextmanager
def connected(address: str, seconds: float) -> Iterator[Channel]:
    """Connects to the pod that listens; waits for it, because either pod may start first (see ``listening``)."""
    until = monotonic() + seconds
    while True:
        try:
            connection = _connection(address, seconds)
            break
        except (OSError, ValueError) as error:
            # DNS has a pod's name once it runs
            may_come = isinstance(error, ConnectionRefusedError | FileNotFoundError | socket.gaierror)
            if not may_come or monotonic() + _PAUSE_SECONDS > until:
                raise PeerLost(f"{address}: {_PEER} is not there: {error}") from None
        sleep(_PAUSE_SECONDS)
    with closing(connection):
        yield Channel(connection, seconds)


def _connection(address: str, seconds: float) -> socket.socket:
    if "/" not in address:
        return socket.create_connection(_host_and_port(address), timeout=seconds)
    with ExitStack() as stack:
        connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        connection.settimeout(seconds)
        connection.connect(address)
        stack.pop_all()
    return connection


@contextmanager
def _listener(address: str) -> Iterator[socket.socket]:
    if "/" not in address:
        with socket.create_server(_host_and_port(address)) as listener:
            yield listener
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        try:
            listener.listen(1)
            yield listener
        finally:
            Path(address).unlink(missing_ok=True)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if int(port) not in range(65536):
        raise ValueError(f"expected a port up to 65535, found {port}")
    return host, int(port)


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """The pod of one side."""

    node: str
    cards: Sequence[str]
    """The UUIDs of the cards that the pod offers or uses; at least one."""
    visible: Sequence[str]
    """The UUIDs of all cards that CUDA sees here."""
    topology: NodeTopology
    """The machine as NVML reports it here; without GPUs if NVML is not here."""
    seconds: float
    """The time limit of each step."""


def side_here(wanted: Wanted) -> Side:
    """Returns this side. With ``force`` it uses cards too that other processes use, or that NVML does not report.

    Raises:
        NothingToMeasure: CUDA or NVML gives no answer.
        PeerLost: there is no such card, or none is free.
    """
    seconds = wanted.step_seconds
    with Supervisor() as process:
        visible = cuda_here(process, seconds).uuids
        topology, usage = machine_here(process, wanted.node, wanted.root, seconds)
    if not visible:
        raise PeerLost("there is no card here that CUDA sees")
    known = {gpu.index: gpu.uuid for gpu in topology.gpus if gpu.uuid in visible}
    missing = [f"GPU{index}" for index in sorted(wanted.gpus) if index not in known]
    if missing:
        there = listed(f"GPU{index}" for index in sorted(known)) or "none"
        raise PeerLost(f"--gpus: expected GPUs that CUDA sees here, which are {there}; found {listed(missing)}")
    chosen = [known[index] for index in sorted(wanted.gpus)] or visible
    used = chosen if wanted.force else [card for card in chosen if is_free(usage.get(card))]
    if not used:
        raise PeerLost("other processes use the GPUs that CUDA sees here. --force uses them all the same")
    return Side(node=wanted.node, cards=used, visible=visible, topology=topology, seconds=seconds)


def offer_all(side: Side, channel: Channel) -> PeerReport:
    """Offers memory by each kind of handle, and receives the results.

    Raises:
        PeerLost: the other side is gone.
        FormatError: the other side does not keep to the protocol.
    """
    hello = channel.hear(Hello)
    if hello.protocol != PROTOCOL:
        raise FormatError("the other pod", expected=f"protocol {PROTOCOL}", found=str(hello.protocol))
    card = next((card for card in side.cards if card in hello.sees), side.cards[0])
    with ExitStack() as stack:  # memory stays until the processes end
        offers = [_offer(side, stack.enter_context(Supervisor()), card, kind) for kind in HandleKind]
        channel.tell(Offers(card=card, offers=offers))
        results = channel.hear(Results).results
    if [result.kind for result in results] != list(HandleKind):
        raise FormatError("the other pod", expected="a result for each offer", found="others")
    return _report(side, card, results, sees=card in hello.sees)


def take_all(side: Side, channel: Channel) -> PeerReport:
    """Uses the memory that the other side offers, and sends the results. Raises the errors of ``offer_all``."""
    channel.tell(Hello(protocol=PROTOCOL, sees=list(side.visible)))
    offers = channel.hear(Offers)
    results = [_take(side, offers.card, offer) for offer in offers.offers]
    channel.tell(Results(results=results))
    return _report(side, offers.card, results, sees=offers.card in side.visible)


def _offer(side: Side, process: Supervisor, card: str, kind: HandleKind) -> MemoryOffer:
    pid = process.pid
    found, reason, code = _ask(process, Offer(card=card, kind=kind, size=SIZE), side.seconds)
    handle = found.handle if isinstance(found, Offered) else ""
    return MemoryOffer(kind=kind, pid=pid, handle=handle, reason=reason, code=code)


def _take(side: Side, offered: str, offer: MemoryOffer) -> Outcome:
    card = next((card for card in side.cards if card != offered), side.cards[0])
    reason, code = offer.reason, offer.code
    if offer.handle:
        request = Take(card=card, kind=offer.kind, handle=offer.handle, size=SIZE, method=Method())
        reason, code = "every process here has the PID of the one that offers", None
        for _ in range(_ATTEMPTS):
            with Supervisor() as process:
                if process.pid == offer.pid:
                    continue
                found, reason, code = _ask(process, request, side.seconds)
            if isinstance(found, Taken):
                verdict = PeerVerdict.WORKS if found.intact else PeerVerdict.WRONG_DATA
                return Outcome(kind=offer.kind, verdict=verdict, taker_card=card, samples_gbps=found.gbps)
            break
    verdict = PeerVerdict.NOT_TRIED if code is None else PeerVerdict.REFUSED
    return Outcome(kind=offer.kind, verdict=verdict, reason=reason, code=code)


def _ask(process: Supervisor, request: ASK, seconds: float) -> tuple[TOLD | None, str, int | None]:
    """Returns the answer to a request; if it failed, also why, and the error of the driver."""
    try:
        found = process.ask(request, seconds)
    except StepLost as lost:
        return None, str(lost), None
    if isinstance(found, Failed):
        return found, explained(found.function, found.code), found.code
    return found, "", None


def _report(side: Side, card: str, results: Sequence[Outcome], *, sees: bool) -> PeerReport:
    outcomes = judged(results, card, side.topology)
    return PeerReport(
        node=side.node,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        card=card,
        offered_card_visible=sees,
        outcomes=outcomes,
        verdict=conclusion(outcomes),
    )
