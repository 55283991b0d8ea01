"""The connection between the commands of two pods, with lines of JSON."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

import msgspec

from webhook.programs.verify.peer.report import Hello, Message, Offers, Results
from webhook.words.errors import FormatError, GpuTopologyError
from webhook.words.nesting import decode
from webhook.words.shape import shape_problem

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
        self._limit()
        try:
            self._socket.sendall(msgspec.json.encode(message) + b"\n")
        except TimeoutError:
            raise PeerLost(self._too_long) from None
        except OSError as error:
            raise PeerLost(f"{_PEER} cannot be told anything: {error}") from None

    def hear(self, kind: type[_M]) -> _M:
        """Receives the next message, which must be of this kind.

        Raises:
            PeerLost: no message came, or not within the time of the conversation.
            FormatError: the message is another one, or too long.
        """
        while b"\n" not in self._read:
            if len(self._read) > MAX_LINE:
                raise FormatError(_PEER, expected=f"lines of at most {MAX_LINE} bytes", found="more")
            self._read += self._more()
        line, self._read = self._read.split(b"\n", 1)
        try:
            message = decode(_DECODER, line)
        except msgspec.DecodeError as error:
            raise FormatError(_PEER, expected="a word of the protocol", found=shape_problem(error)) from None
        if not isinstance(message, kind):
            raise FormatError(_PEER, expected=kind.__name__, found=type(message).__name__)
        return message

    def _limit(self) -> None:
        """Limits the next read or write to what is left of the conversation."""
        left = self._until - monotonic()
        if left <= 0:
            raise PeerLost(self._too_long)
        self._socket.settimeout(left)

    @property
    def _too_long(self) -> str:
        return f"{_PEER} has not finished within {self._seconds:g} s"

    def _more(self) -> bytes:
        self._limit()
        try:
            read = self._socket.recv(MAX_LINE)
        except TimeoutError:
            raise PeerLost(self._too_long) from None
        except OSError as error:
            raise PeerLost(f"{_PEER} says nothing: {error}") from None
        if not read:
            raise PeerLost(f"{_PEER} has ended the connection")
        return read


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
    except (OSError, OverflowError, ValueError) as error:
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
        except (OSError, OverflowError, ValueError) as error:
            # DNS has a pod's name once it runs
            may_come = isinstance(error, ConnectionRefusedError | FileNotFoundError | socket.gaierror)
            if not may_come or monotonic() + _PAUSE_SECONDS > until:
                raise PeerLost(f"{address}: {_PEER} is not there: {error}") from None
        sleep(_PAUSE_SECONDS)
    with closing(connection):
        yield Channel(connection, seconds)


def _connection(address: str, seconds: float) -> socket.socket:
    if not _is_path(address):
        return socket.create_connection(_host_and_port(address), timeout=seconds)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


@contextmanager
def _listener(address: str) -> Iterator[socket.socket]:
    if not _is_path(address):
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


def _is_path(address: str) -> bool:
    return "/" in address


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
