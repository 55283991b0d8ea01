"""`python -m bench.filling`: the memory that clients without credentials can make a server use, and what others wait.

Each attack runs for some seconds against a server of its own, on a core of its own, from another process. During it a
keep-alive client sends reviews as kube-apiserver does, and reviews on new connections and probes are sent at an
interval. The report has the peak of resident memory, and for each kind of client the longest wait and the lost
requests. Exit codes: 0 nothing was lost and memory stayed below the limit, 1 otherwise, 2 usage. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import logging
import multiprocessing
import os
import resource
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import bodies, proc, servers
from bench.load import OK

LIMIT_MIB = 200.0
SECONDS = 15.0
BODY = 6 * 1024 * 1024
PAUSE_S = 0.01
"""The pause between two reviews of the keep-alive client."""
HEAD = b"POST /mutate/pods HTTP/1.1\r\nHost: x\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[], Awaitable[Streams]]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A kind of attack: clients that all do the same, and connect again when the server closes their connection."""

    name: str
    clients: int
    act: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
    transport: str = "tls"
    """The destination: ``tls``, ``tcp`` for the same port without a handshake, or ``ops``."""


@dataclass(kw_only=True)
class Waits:
    """The waits and losses of one kind of client."""

    longest_s: float = 0.0
    answered: int = 0
    lost: int = 0

    def add(self, ask: Callable[[], None]) -> bool:
        """Calls ``ask`` once and counts the outcome; returns whether it got an answer."""
        begin = time.perf_counter()
        try:
            ask()
        except (OSError, ValueError):
            self.lost += 1
        else:
            self.answered += 1
            self.longest_s = max(self.longest_s, time.perf_counter() - begin)
            return True
        return False


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one attack."""

    peak_mib: float
    kept: Waits
    fresh: Waits
    probes: Waits


async def _unfinished_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % BODY + b" " * (BODY - 1))
    await reader.read()


async def _endless_chunks(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        await writer.drain()


async def _endless_trailers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n")
    await _endless_lines(writer)


async def _endless_headers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
    await _endless_lines(writer)


async def _endless_lines(writer: asyncio.StreamWriter) -> None:
    for number in itertools.count():
        if writer.is_closing():
            return
        writer.write(b"X-%d: %s\r\n" % (number, b"x" * 1000))
        await writer.drain()


async def _pipeline(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(1000):
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 1000)
        await writer.drain()
    await reader.read()


async def _unread_answers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = bodies.request("gpu")
    while not writer.is_closing():
        writer.write(request)
        await writer.drain()


async def _silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


ATTACKS = (
    Attack(name="none", clients=0, act=_silence),
    Attack(name="70 unfinished bodies of 6 MiB", clients=70, act=_unfinished_body),
    Attack(name="700 unfinished bodies of 6 MiB", clients=700, act=_unfinished_body),
    Attack(name="100 endless chunked bodies", clients=100, act=_endless_chunks),
    Attack(name="100 endless trailers", clients=100, act=_endless_trailers),
    Attack(name="100 endless headers", clients=100, act=_endless_headers),
    Attack(name="1 connection with endless headers, plain port", clients=1, act=_endless_headers, transport="ops"),
    Attack(name="100 with endless headers, plain port", clients=100, act=_endless_headers, transport="ops"),
    Attack(name="50 pipelines", clients=50, act=_pipeline),
    Attack(name="50 that read no answer", clients=50, act=_unread_answers),
    Attack(name="2,000 that never shake hands", clients=2000, act=_silence, transport="tcp"),
    Attack(name="700 that say nothing", clients=700, act=_silence),
)


def _attack(number: int, program: servers.Program, core: int) -> None:
    """Runs the clients of one attack, in their own process."""
    logging.disable()  # failures of their connections are expected
    os.sched_setaffinity(0, {core})
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))
    asyncio.run(_attackers(ATTACKS[number], program))


async def _attackers(attack: Attack, program: servers.Program) -> None:
    context = ssl.create_default_context(cafile=str(program.ca_file)) if attack.transport == "tls" else None
    port = program.ops_port if attack.transport == "ops" else program.port

    async def one() -> None:
        while True:
            with contextlib.suppress(OSError, EOFError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
                try:
                    await attack.act(reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.1)

    await asyncio.gather(*(one() for _ in range(attack.clients)))


class KeptConnection:
    """The client that keeps its connection."""

    def __init__(self, program: servers.Program, request: bytes) -> None:
        self._program, self._request = program, request
        self._channel: ssl.SSLSocket | None = None

    def ask(self) -> None:
        """Sends a review on the connection of the last one, or on a new one after a failure."""
        if self._channel is None:
            self._channel = _dial(self._program)
        try:
            _exchange(self._channel, self._request)
        except OSError:
            self._channel.close()
            self._channel = None
            raise


def _dial(program: servers.Program) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", program.port), timeout=30)
    return ssl.create_default_context(cafile=str(program.ca_file)).wrap_socket(plain, server_hostname="127.0.0.1")


def _exchange(channel: ssl.SSLSocket, request: bytes) -> None:
    channel.sendall(request)
    answer = servers.read_answer(channel)
    if not answer.startswith(OK):
        raise ValueError(answer[:100])


def measure(number: int, seconds: float, server_core: int, client_core: int) -> Result:
    """Runs attack number ``number`` against a new server."""
    request = bodies.request("gpu")
    with tempfile.TemporaryDirectory() as directory:
        program = servers.webhook(Path(directory) / "server")
        with servers.running(program, server_core, request) as server:
            program.probe()
            kept, fresh, probes = Waits(), Waits(), Waits()
            client = KeptConnection(program, request)
            with _process(number, program, client_core):
                end = time.monotonic() + seconds
                for turn in itertools.count():
                    kept.add(client.ask)
                    if turn % 10 == 0:
                        fresh.add(lambda: _fresh(program, request))
                    if turn % 50 == 0:
                        probes.add(program.probe)
                    if time.monotonic() > end:
                        break
                    time.sleep(PAUSE_S)
            return Result(peak_mib=proc.peak_mib(server.pid), kept=kept, fresh=fresh, probes=probes)


def _fresh(program: servers.Program, request: bytes) -> None:
    with contextlib.closing(_dial(program)) as channel:
        _exchange(channel, request)


@contextlib.contextmanager
def _process(number: int, program: servers.Program, core: int) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=_attack, args=(number, program, core), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.filling", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of each attack")
    parser.add_argument("--only", default="", help="only attacks with this in their name")
    arguments = parser.parse_args()
    server_core, client_core = proc.core_pair()
    table = Table("attack", "peak MiB", "kept: longest s", "new: longest s", "probe: longest s", "answered", "lost")
    passed = True
    for number, attack in enumerate(ATTACKS):
        if arguments.only not in attack.name:
            continue
        result = measure(number, arguments.seconds, server_core, client_core)
        all_waits = (result.kept, result.fresh, result.probes)
        table.add_row(
            attack.name,
            f"{result.peak_mib:.0f}",
            *(f"{waits.longest_s:.3f}" for waits in all_waits),
            "/".join(str(waits.answered) for waits in all_waits),
            "/".join(str(waits.lost) for waits in all_waits),
        )
        passed = passed and result.peak_mib < LIMIT_MIB and not any(waits.lost for waits in all_waits)
    Console(width=140).print(table)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
