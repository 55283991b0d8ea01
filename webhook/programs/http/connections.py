"""How many connections a port has, what they hold, and which of them go first when there are too many.

No client has to say who it is before it is served, so room is given to those who use it. A connection that never got an
answer to a whole request is a *stranger*; kube-apiserver's are that for some milliseconds, and then stay for long.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from math import inf

TICK_SECONDS = 1.0
"""Between two looks for connections that are late."""


class Cause(StrEnum):
    """Why the server ended a connection."""

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
    """What a connection is at."""

    HANDSHAKE = "handshake"
    IDLE = "idle"
    HEADERS = "headers"
    BODY = "body"
    ANSWER = "answer"
    """The request is complete, its answer is not."""
    SENDING = "sending"
    """The answer waits for the client to take it, or for the end of the connection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What the clients of one port may take."""

    connections: int
    unfinished_bytes: int
    """Of all requests together that are not answered, and of answers that are not sent."""
    header_bytes: int
    """Of one request, with everything else that is no body."""
    body_bytes: int
    """Of one request. What is longer is handed to the application at once, which refuses it."""
    handshake_seconds: float
    header_seconds: float
    body_seconds: float
    answer_seconds: float
    idle_seconds: float


class Connection(ABC):
    """What :class:`Connections` knows of one connection.

    Args:
        address: Of the client.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.phase = Phase.HANDSHAKE
        self.deadline = inf
        """When the phase must have ended."""
        self.served = False
        """Whether a whole request was answered."""
        self.held = 0
        """Bytes of it that are in memory."""

    @property
    def follows(self) -> bool:
        """Whether its client takes an answer that has begun and goes on, such as a stream of events."""
        return False

    @abstractmethod
    def abandon(self) -> None:
        """End it at once, and forget what it holds."""

    @abstractmethod
    def close(self) -> None:
        """End it as its client expects."""

    @abstractmethod
    def refuse_late(self) -> None:
        """Tell the client that the rest of its request comes too late, and end the connection."""


class Connections:
    """The connections of one port.

    Args:
        limits: For all of them.
        port: Its name in the counts.
        closed: Counts what was ended, by port and cause.
        clock: Seconds that never go back.
    """

    def __init__(self, limits: Limits, port: str, closed: Counter[tuple[str, str]], clock: Callable[[], float]) -> None:
        self.limits = limits
        self.held = 0
        """Bytes that all of them hold."""
        self._port = port
        self._closed = closed
        self._clock = clock
        self._ticked = clock()
        self._told: Counter[str] = Counter()
        # Dictionaries without values are sets that keep their order: the oldest comes first.
        self._all: dict[Connection, None] = {}
        self._by_address: Counter[str] = Counter()
        self._strangers: dict[str, dict[Connection, None]] = {}
        self._unfinished: dict[Connection, None] = {}
        """By the beginning of their requests."""

    def __len__(self) -> int:
        return len(self._all)

    def phases(self) -> Counter[Phase]:
        """How many connections are at each phase. In any thread."""
        return Counter(connection.phase for connection in list(self._all))

    def enter(self, connection: Connection) -> bool:
        """A client has connected; returns whether there is room for it."""
        while len(self._all) >= self.limits.connections:
            if not self.make_room(connection.address):
                self.count(Cause.TOO_MANY_CONNECTIONS)
                return False
        self._all[connection] = None
        self._by_address[connection.address] += 1
        self._strangers.setdefault(connection.address, {})[connection] = None
        return True

    def make_room(self, address: str) -> bool:
        """End the connection that has to go first when a client of that address comes; returns whether one had to.

        The oldest stranger that does not follow a stream, of the address that has the most; then the oldest request of
        which something is missing or whose answer is not taken; then the connection that was idle for longest, of the
        address that has the most, if that has more than the new one. A client whose request is being answered is left
        alone.
        """
        victim = self._oldest_stranger() or self._oldest_request() or self._longest_idle(address)
        if victim is not None:
            self.drop(victim, Cause.TOO_MANY_CONNECTIONS)
        return victim is not None

    def leave(self, connection: Connection) -> None:
        """The connection has ended; said twice it changes nothing."""
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
        """Its handshake is done."""
        self._enter_phase(connection, Phase.IDLE, self.limits.idle_seconds)

    def begin(self, connection: Connection) -> None:
        """The first byte of a request has come."""
        self._unfinished[connection] = None
        self._enter_phase(connection, Phase.HEADERS, self.limits.header_seconds)

    def headers_end(self, connection: Connection) -> None:
        """All headers of the request are there."""
        self._enter_phase(connection, Phase.BODY, self.limits.body_seconds)

    def hold(self, connection: Connection, size: int) -> None:
        """More bytes of its request are in memory. May end connections, this one too."""
        if connection not in self._all:
            return
        connection.held += size
        self.held += size
        while self.held > self.limits.unfinished_bytes:
            self.drop(self._first_holder(), Cause.TOO_MANY_BYTES)

    def release(self, connection: Connection) -> None:
        """What it holds is no longer needed."""
        self.held -= connection.held
        connection.held = 0

    def request_ends(self, connection: Connection) -> None:
        """The last byte of the request has come."""
        self._enter_phase(connection, Phase.ANSWER, inf)

    def stuck(self, connection: Connection) -> None:
        """The client has to take what was sent before more can be written."""
        connection.deadline = self._clock() + self.limits.answer_seconds

    def sending(self, connection: Connection) -> None:
        """The request is done with, but its answer, or the end of the connection, waits for the client."""
        if connection not in self._all:
            return
        self._settle(connection)
        self._unfinished[connection] = None
        self._enter_phase(connection, Phase.SENDING, self.limits.answer_seconds)

    def rest(self, connection: Connection) -> None:
        """A request was answered, and its answer was taken."""
        self._settle(connection)
        if not connection.served:
            self._known(connection)
            connection.served = True
        self._enter_phase(connection, Phase.IDLE, self.limits.idle_seconds)

    def drop(self, connection: Connection, cause: Cause) -> None:
        """End it at once."""
        self.count(cause)
        self.leave(connection)
        connection.abandon()

    def count(self, cause: Cause) -> None:
        """A connection is ended for that."""
        self._closed[self._port, cause] += 1

    def news(self) -> Mapping[str, int]:
        """How many connections were ended since this was asked last, by cause."""
        counts = Counter({cause.value: self._closed[self._port, cause] for cause in Cause})
        new = counts - self._told
        self._told = counts
        return new

    def tick(self) -> None:
        """End the connections that are late; to be called every :data:`TICK_SECONDS`.

        Clients are not late by the time in which the server itself stood still: their deadlines are moved by it.
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
        """Its request is done with."""
        self.release(connection)
        self._unfinished.pop(connection, None)

    def _known(self, connection: Connection) -> None:
        """It is no stranger any more."""
        strangers = self._strangers.get(connection.address)
        if strangers is not None:
            strangers.pop(connection, None)
            if not strangers:
                del self._strangers[connection.address]

    def _oldest_stranger(self) -> Connection | None:
        most = max(self._strangers.values(), key=_size, default=None)
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
        """Of those that hold bytes: the oldest request of a stranger, or else the oldest."""
        holders = [each for each in self._unfinished if each.held]
        return next((each for each in holders if not each.served), holders[0])


def _size(strangers: dict[Connection, None]) -> int:
    return len(strangers)
