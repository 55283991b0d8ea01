"""The connections of a port: their number, the bytes that they hold, and which are ended first when there are too many.

Clients are served without saying who they are, so connections that are used have priority. A connection that never got
an answer to a whole request is a *stranger*. Those of kube-apiserver are strangers for some milliseconds, and then stay
for long.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from math import inf

TICK_SECONDS = 1.0
"""Time between two searches for connections that are late."""


class Cause(StrEnum):
    """The reason for which the server ended a connection."""

    HANDSHAKE_FAILED = "handshake-failed"
    HANDSHAKE_LATE = "handshake-late"
    HEADERS_LATE = "headers-late"
    HEADERS_TOO_LONG = "headers-too-long"
    BODY_LATE = "body-late"
    MALFORMED = "malformed"
    PIPELINED = "pipelined"
    ANSWER_UNREAD = "answer-unread"
    TOO_MANY_BYTES = "too-many-bytes"
    TOO_MANY_CONNECTIONS = "too-many-connections"


class Phase(Enum):
    """The phase of a connection."""

    HANDSHAKE = "handshake"
    IDLE = "idle"
    HEADERS = "headers"
    BODY = "body"
    ANSWER = "answer"
    """The request is complete; its answer is not."""
    SENDING = "sending"
    """The answer waits for the client to take it, or for the end of the connection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The limits for the clients of one port."""

    connections: int
    unfinished_bytes: int
    """Bytes of all unanswered requests and all unsent answers together."""
    header_bytes: int = 8 * 1024
    """Bytes of one request apart from its body."""
    body_bytes: int
    """Bytes of the body of one request. A longer one is handed to the application at once, which refuses it."""
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    body_seconds: float = 10.0
    answer_seconds: float = 10.0
    idle_seconds: float = 120.0


class Connection(ABC):
    """One connection, as far as :class:`Connections` knows it.

    Args:
        address: The address of the client.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.phase = Phase.HANDSHAKE
        self.deadline = inf
        """The time by which the phase must have ended."""
        self.served = False
        """Whether a whole request of the connection was answered."""
        self.held = 0
        """Bytes in memory of its request or its answer."""

    @property
    def follows(self) -> bool:
        """Whether the client is taking an answer that has begun and goes on, such as a stream of events."""
        return False

    @abstractmethod
    def abandon(self) -> None:
        """End the connection at once, and forget what it holds."""

    @abstractmethod
    def close(self) -> None:
        """End the connection as its client expects."""

    @abstractmethod
    def refuse_late(self) -> None:
        """Tell the client that the rest of its request comes too late, and end the connection."""


class Connections:
    """The connections of one port.

    Args:
        limits: The limits of the port.
        port: The name of the port in the counts.
        closed: Counts the connections that were ended, by port and cause.
        clock: Returns seconds that never go back.
    """

    def __init__(self, limits: Limits, port: str, closed: Counter[tuple[str, str]], clock: Callable[[], float]) -> None:
        self.limits = limits
        self.held = 0
        """Bytes that all connections hold."""
        self._port = port
        self._closed = closed
        self._clock = clock
        self._ticked = clock()
        self._told: Counter[str] = Counter()
        # Dictionaries without values serve as sets that keep their order: the oldest entry comes first.
        self._all: dict[Connection, None] = {}
        self._by_address: Counter[str] = Counter()
        self._strangers: dict[str, dict[Connection, None]] = {}
        self._unfinished: dict[Connection, None] = {}
        """Connections with an unanswered request or an unsent answer, in the order of its beginning."""

    def __len__(self) -> int:
        return len(self._all)

    def phases(self) -> Counter[Phase]:
        """Return the number of connections in each phase. May be called in any thread."""
        return Counter(connection.phase for connection in list(self._all))

    def enter(self, connection: Connection) -> bool:
        """Take in the connection of a new client; return whether there is room for it."""
        while len(self._all) >= self.limits.connections:
            if not self.make_room(connection.address):
                self.count(Cause.TOO_MANY_CONNECTIONS)
                return False
        self._all[connection] = None
        self._by_address[connection.address] += 1
        self._strangers.setdefault(connection.address, {})[connection] = None
        return True

    def make_room(self, address: str) -> bool:
        """End one connection to make room for a client of ``address``; return whether there was one to end.

        The first that exists of these is ended:

        1. of the address with the most strangers, the oldest stranger that does not follow a stream;
        2. the connection with the oldest request that is incomplete or whose answer is not taken;
        3. of the address with the most connections, if it has more than ``address``, the one that was idle for longest.

        A client whose request is being answered is left alone.
        """
        victim = self._oldest_stranger() or self._oldest_request() or self._longest_idle(address)
        if victim is not None:
            self.drop(victim, Cause.TOO_MANY_CONNECTIONS)
        return victim is not None

    def leave(self, connection: Connection) -> None:
        """Forget a connection that has ended. A second call changes nothing."""
        if connection not in self._all:
            return
        self._settle(connection)
        del self._all[connection]
        self._known(connection)
        address = connection.address
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def connected(self, connection: Connection) -> None:
        """Note that the handshake of the connection is done."""
        self._enter_phase(connection, Phase.IDLE, self.limits.idle_seconds)

    def begin(self, connection: Connection) -> None:
        """Note that the first byte of a request has come."""
        self._unfinished[connection] = None
        self._enter_phase(connection, Phase.HEADERS, self.limits.header_seconds)

    def headers_end(self, connection: Connection) -> None:
        """Note that all headers of the request have come."""
        self._enter_phase(connection, Phase.BODY, self.limits.body_seconds)

    def hold(self, connection: Connection, size: int) -> None:
        """Count ``size`` more bytes that the connection holds in memory. May end connections, also this one."""
        if connection not in self._all:
            return
        connection.held += size
        self.held += size
        while self.held > self.limits.unfinished_bytes:
            self.drop(self._first_holder(), Cause.TOO_MANY_BYTES)

    def release(self, connection: Connection) -> None:
        """Count the bytes of the connection as freed."""
        self.held -= connection.held
        connection.held = 0

    def request_ends(self, connection: Connection) -> None:
        """Note that the last byte of the request has come."""
        self._enter_phase(connection, Phase.ANSWER, inf)

    def stuck(self, connection: Connection) -> None:
        """Give the client a deadline for taking what was sent, without which nothing more can be written."""
        connection.deadline = self._clock() + self.limits.answer_seconds

    def sending(self, connection: Connection) -> None:
        """Note that the request is finished, and its answer or the end of the connection waits for the client."""
        if connection not in self._all:
            return
        self._settle(connection)
        self._unfinished[connection] = None
        self._enter_phase(connection, Phase.SENDING, self.limits.answer_seconds)

    def rest(self, connection: Connection) -> None:
        """Note that a request was answered and the client has taken the answer."""
        self._settle(connection)
        if not connection.served:
            self._known(connection)
            connection.served = True
        self._enter_phase(connection, Phase.IDLE, self.limits.idle_seconds)

    def drop(self, connection: Connection, cause: Cause) -> None:
        """End the connection at once."""
        self.count(cause)
        self.leave(connection)
        connection.abandon()

    def count(self, cause: Cause) -> None:
        """Count a connection that is ended for ``cause``."""
        self._closed[self._port, cause] += 1

    def news(self) -> Mapping[str, int]:
        """Return how many connections were ended since the last call, by cause."""
        counts = Counter({cause.value: self._closed[self._port, cause] for cause in Cause})
        new = counts - self._told
        self._told = counts
        return new

    def tick(self) -> None:
        """End the connections that are late. It is to be called every :data:`TICK_SECONDS`.

        The time in which the server itself stood still does not count: it is added to all deadlines.
        """
        now = self._clock()
        excess = now - self._ticked - 2 * TICK_SECONDS
        self._ticked = now
        if excess > 0:
            for connection in self._all:
                connection.deadline += excess
        for connection in [each for each in self._all if each.deadline <= now]:
            self._end_late(connection)

    def _end_late(self, connection: Connection) -> None:
        match connection.phase:
            case Phase.IDLE:
                self.sending(connection)
                connection.close()
            case Phase.HEADERS:
                self.count(Cause.HEADERS_LATE)
                connection.refuse_late()
            case Phase.BODY:
                self.count(Cause.BODY_LATE)
                connection.refuse_late()
            case _:
                self.drop(connection, Cause.ANSWER_UNREAD)

    def _enter_phase(self, connection: Connection, phase: Phase, seconds: float) -> None:
        connection.phase = phase
        connection.deadline = self._clock() + seconds

    def _settle(self, connection: Connection) -> None:
        """Forget the request of the connection."""
        self.release(connection)
        self._unfinished.pop(connection, None)

    def _known(self, connection: Connection) -> None:
        """Remove the connection from the strangers."""
        strangers = self._strangers.get(connection.address)
        if strangers is not None:
            strangers.pop(connection, None)
            if not strangers:
                del self._strangers[connection.address]

    def _oldest_stranger(self) -> Connection | None:
        most = max(self._strangers.values(), key=len, default=None)
        return next((each for each in most if not each.follows), None) if most else None

    def _oldest_request(self) -> Connection | None:
        return next((each for each in self._unfinished if each.phase is not Phase.ANSWER), None)

    def _longest_idle(self, address: str) -> Connection | None:
        heaviest, most = self._by_address.most_common(1)[0]
        if most <= self._by_address[address] + 1:
            return None
        idle = (each for each in self._all if each.address == heaviest and each.phase is Phase.IDLE)
        return min(idle, key=lambda each: each.deadline, default=None)

    def _first_holder(self) -> Connection:
        """Return, of the connections that hold bytes, the stranger with the oldest request, or else the oldest one."""
        holders = [each for each in self._unfinished if each.held]
        return next((each for each in holders if not each.served), holders[0])
