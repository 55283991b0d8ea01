"""The load: closed-loop connections that send the next review when the last is answered, in a process of its own.

No answer is parsed. Every answer to one request has the same length, so the number of bytes shows its end, and its
first bytes show whether it is a 200. So one core of this client keeps one core of a server busy.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import re
import signal
import ssl
import time
from array import array
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import cast

import uvloop

from bench import proc
from bench.bodies import SERIAL

OK = b"HTTP/1.1 200"
GRACE_S = 10.0
"""The seconds that a burst may take longer than planned, before the server counts as hung."""

SETTLE_S = 0.05
"""The seconds for servers to finish handshakes and closes outside the measured time."""


class AnswerError(Exception):
    """The error of a server that did not answer with the expected 200, or not at all."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The target of a load: one request to one server, with the data that the client needs to count answers."""

    name: str
    """The server, for errors."""
    port: int
    pid: int
    ca_file: Path
    request: bytes
    answer_length: int
    behind: int | None = None
    """The process that the server asks before it answers, if there is one. Its time is not that of other processes."""
    restless: tuple[int, ...] = ()
    """The processes that work all the time, and so are stopped while another row is measured."""


@dataclass(frozen=True, kw_only=True)
class Burst:
    """The measurements of one burst."""

    reviews: int
    seconds: float
    server_us: float
    """CPU time of the server process for one review, user and system, in microseconds."""
    p50_us: float
    p99_us: float
    max_us: float
    client_busy: float
    """The share of its core that the client used. Near 1, the client limits the reviews per second."""
    others: float
    """The share of the cores in use that went to processes other than server and client."""

    @property
    def per_second(self) -> float:
        """Reviews per second."""
        return self.reviews / self.seconds


class Connection(asyncio.Protocol):
    """One keep-alive connection, which sends the next review when the answer to the last one is complete."""

    def __init__(self, target: Target, serials: Iterator[int], latencies: array[int]) -> None:
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport
        self._name = target.name
        self._request = bytearray(target.request)
        self._serial_places = [
            slice(match.start(), match.end()) for match in re.finditer(re.escape(SERIAL), target.request)
        ]
        self._serials = serials
        self._latencies = latencies
        self._expected = target.answer_length
        self._received = 0
        self._sent_ns = 0
        self._deadline_ns = 0

    def start(self, deadline_ns: int) -> None:
        """Sends reviews until `deadline_ns` on the clock of `time.perf_counter_ns`."""
        self._deadline_ns = deadline_ns
        self._send(time.perf_counter_ns())

    def _send(self, now_ns: int) -> None:
        serial = b"%012d" % next(self._serials)
        for place in self._serial_places:
            self._request[place] = serial
        self._sent_ns = now_ns
        self.transport.write(self._request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop when the handshake is done."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop. Counts bytes, and sends the next review when the answer is complete."""
        if not self._received and not data.startswith(OK):
            return self._fail(f"expected {OK.decode()}, found {data[:300]!r}")
        self._received += len(data)
        if self._received < self._expected:
            return None
        if self._received > self._expected:
            return self._fail(f"expected an answer of {self._expected} bytes, found {self._received}")
        now_ns = time.perf_counter_ns()
        self._latencies.append(now_ns - self._sent_ns)
        self._received = 0
        if now_ns < self._deadline_ns:
            self._send(now_ns)
        else:
            self.finished.set_result(None)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop. An error unless this connection has finished."""
        found = f"{self._received} bytes and then {exc or 'the end of the stream'}"
        self._fail(f"expected an answer of {self._expected} bytes, found {found}")

    def _fail(self, reason: str) -> None:
        if not self.finished.done():
            self.finished.set_exception(AnswerError(f"{self._name}: {reason}"))
            self.transport.abort()


async def _burst(target: Target, connections: int, seconds: float) -> Burst:
    clients, latencies = await _connect(target, connections)
    cores = os.sched_getaffinity(target.pid) | os.sched_getaffinity(0)

    begin_ns, busy_ns = time.perf_counter_ns(), proc.busy_ns(cores)
    server_ns, behind_ns, client_ns = proc.cpu_ns(target.pid), _behind_ns(target), time.process_time_ns()
    for client in clients:
        client.start(begin_ns + int(seconds * 1e9))
    try:
        async with asyncio.timeout(seconds + GRACE_S):
            await asyncio.gather(*(client.finished for client in clients))
    except TimeoutError:
        raise AnswerError(f"{target.name}: expected the last answers within {GRACE_S:g} s, found silence") from None
    server_ns, behind_ns = proc.cpu_ns(target.pid) - server_ns, _behind_ns(target) - behind_ns
    client_ns = time.process_time_ns() - client_ns
    elapsed_ns, busy_ns = time.perf_counter_ns() - begin_ns, proc.busy_ns(cores) - busy_ns

    for client in clients:
        client.transport.close()
    await asyncio.sleep(SETTLE_S)
    ordered = sorted(latencies)
    return Burst(
        reviews=len(ordered),
        seconds=elapsed_ns / 1e9,
        server_us=server_ns / len(ordered) / 1e3,
        p50_us=ordered[len(ordered) // 2] / 1e3,
        p99_us=ordered[len(ordered) * 99 // 100] / 1e3,
        max_us=ordered[-1] / 1e3,
        client_busy=client_ns / elapsed_ns,
        others=max(0.0, (busy_ns - server_ns - behind_ns - client_ns) / elapsed_ns / len(cores)),
    )


def _behind_ns(target: Target) -> int:
    return 0 if target.behind is None else proc.cpu_ns(target.behind)


async def _connect(target: Target, connections: int) -> tuple[list[Connection], array[int]]:
    """Opens the connections, with their handshakes; returns them and the array for their latencies."""
    tls = ssl.create_default_context(cafile=str(target.ca_file))
    # Unique over all bursts: the count starts at the microseconds of the clock, and a review takes over a microsecond.
    serials = itertools.count(time.monotonic_ns() // 1_000 % 10 ** len(SERIAL))
    latencies = array("q")
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(
            lambda: Connection(target, serials, latencies), "127.0.0.1", target.port, ssl=tls
        )
        clients.append(client)
    await asyncio.sleep(SETTLE_S)
    return clients, latencies


class Client:
    """The process that makes the load."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def burst(self, target: Target, connections: int, seconds: float) -> Burst:
        """Loads a server for some seconds over this many keep-alive connections, and returns the measurements.

        Raises `AnswerError` for an answer that is not the expected one, or that does not come.
        """
        return self._pool.submit(_run_burst, target, connections, seconds).result()


@contextmanager
def client(core: int) -> Iterator[Client]:
    """Starts a load-generating process on its own core, and ends it with the block."""
    with ProcessPoolExecutor(1, get_context("spawn"), _prepare, (core,)) as pool:
        yield Client(pool)


def _prepare(core: int) -> None:
    """Prepares the new process.

    The parent decides when it ends, and garbage is not collected during a burst, because that would count as latency.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.sched_setaffinity(0, {core})
    gc.disable()


def _run_burst(target: Target, connections: int, seconds: float) -> Burst:
    try:
        return uvloop.run(_burst(target, connections, seconds))
    finally:
        gc.collect()
