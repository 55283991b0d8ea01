"""Requests that never end, by somebody in the network without credentials."""

import select
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from tests.cluster.attacks.replay import Found
from tests.cluster.attacks.stage import Stage

CONNECTIONS, BODY = 70, 6 * 1024 * 1024
HEAD = b"POST /mutate/pods HTTP/1.1\r\nHost: webhook\r\nContent-Length: %d\r\n\r\n" % BODY
ENDLESS_HEAD = b"GET /healthz HTTP/1.1\r\nHost: webhook\r\n"
HEADER = b"X-%08d: " + b"x" * 1000 + b"\r\n"
LONGEST_HEAD, TRIED_HEAD = 1024 * 1024, 64 * 1024 * 1024
HELD_S = 90.0
"""As long as the unfinished requests are held, if nobody ends them."""


def run(stage: Stage) -> Found:
    """First all bodies at once, and then one head at each port."""
    with ExitStack() as stack:
        held = [stack.enter_context(_unfinished(stage)) for _ in range(CONNECTIONS)]
        held = _still_open(held)
        kept = len(held)
        deadline = time.monotonic() + HELD_S
        while held and time.monotonic() < deadline:
            time.sleep(0.5)
            held = _still_open(held)
    faults = [f"{len(held)} of {CONNECTIONS} unfinished requests were held to the end"] if held else []
    heads = {"plain": _head_taken(stage.neighbour.plain()), "TLS": _head_taken(stage.neighbour.tls())}
    faults += [
        f"{taken:,} bytes of one {port} head were taken" for port, taken in heads.items() if taken > LONGEST_HEAD
    ]
    said = f"{kept} of {CONNECTIONS} held at first, {len(held)} at the end; heads of "
    return Found(said + " and ".join(f"{taken:,} bytes ({port})" for port, taken in heads.items()), tuple(faults))


@contextmanager
def _unfinished(stage: Stage) -> Iterator[socket.socket]:
    """A request that lacks its last byte, or as much of it as the server takes."""
    with stage.neighbour.tls() as connection:
        with suppress(OSError):
            connection.sendall(HEAD + b" " * (BODY - 1))
        yield connection


def _still_open(connections: list[socket.socket]) -> list[socket.socket]:
    """Those that the server has not ended."""
    return [connection for connection in connections if not _is_ended(connection)]


def _is_ended(connection: socket.socket) -> bool:
    """Nothing is asked completely, so the server has nothing to say before it ends the connection."""
    try:
        while select.select([connection], [], [], 0)[0]:
            connection.settimeout(0.2)  # a ticket of TLS 1.3 is no data, and then there is nothing to receive
            if not connection.recv(65536):
                return True
    except (TimeoutError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    return False


def _head_taken(connection: socket.socket) -> int:
    """Bytes of a head without end that were sent until the server ended the connection."""
    sent = 0
    with connection, suppress(OSError):
        connection.sendall(ENDLESS_HEAD)
        while sent < TRIED_HEAD and not select.select([connection], [], [], 0)[0]:
            part = b"".join(HEADER % (sent + number) for number in range(64))
            connection.sendall(part)
            sent += len(part)
    return sent
