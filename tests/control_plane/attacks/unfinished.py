"""Requests that never end, by somebody in the network without credentials."""

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from tests.control_plane.attacks.people import PATIENCE_S
from tests.control_plane.attacks.replay import Found
from tests.control_plane.attacks.stage import Stage

SILENT = 500
CONNECTIONS, BODY = 70, 6 * 1024 * 1024
HEAD = b"POST /mutate/pods HTTP/1.1\r\nHost: webhook\r\nContent-Length: %d\r\n\r\n" % BODY
ENDLESS_HEAD = b"GET /healthz HTTP/1.1\r\nHost: webhook\r\n"
HEADER = b"X-%08d: " + b"x" * 1000 + b"\r\n"
LONGEST_HEAD, TRIED_HEAD = 16 * 1024 * 1024, 64 * 1024 * 1024
"""The kernel buffers megabytes on both sides before anybody reads them: tcp(7), tcp_rmem and tcp_wmem."""
HELD_S = 90.0
"""As long as the unfinished requests are held, if nobody ends them."""


def run(stage: Stage) -> Found:
    """First connections that say nothing and all bodies at once, and then one head at each port."""
    with ExitStack() as stack:
        held = [stack.enter_context(stage.neighbour.silent()) for _ in range(SILENT)]
        for _ in range(CONNECTIONS):
            with suppress(OSError):  # the server may end a connection before it is made
                held.append(stack.enter_context(stage.neighbour.tls()))
                held[-1].sendall(HEAD + b" " * (BODY - 1))
        held = _still_open(held)
        kept = len(held)
        deadline = time.monotonic() + HELD_S
        while held and time.monotonic() < deadline:
            time.sleep(0.5)
            held = _still_open(held)
    faults = [f"{len(held)} of {SILENT + CONNECTIONS} connections were held to the end"] if held else []
    heads = {"plain": _head_taken(stage.neighbour.plain), "TLS": _head_taken(stage.neighbour.tls)}
    faults += [
        f"{taken:,} bytes of one {port} head were taken" for port, taken in heads.items() if taken > LONGEST_HEAD
    ]
    said = f"{kept} of {SILENT + CONNECTIONS} held at first, {len(held)} at the end; heads of "
    return Found(said + " and ".join(f"{taken:,} bytes ({port})" for port, taken in heads.items()), tuple(faults))


def _still_open(connections: list[socket.socket]) -> list[socket.socket]:
    """Those that the server has not ended."""
    return [connection for connection in connections if not _is_ended(connection)]


def _is_ended(connection: socket.socket) -> bool:
    """Whether the server has nothing more to say."""
    while (said := _said(connection)) is not None:
        if not said:
            return True
    return False


def _said(connection: socket.socket) -> bytes | None:
    """What the server says now; nothing after the end, ``None`` if it says nothing yet."""
    connection.settimeout(0)
    try:
        return connection.recv(65536)
    except (BlockingIOError, ssl.SSLWantReadError):
        return None
    except OSError:
        return b""
    finally:
        connection.settimeout(PATIENCE_S)


def _head_taken(connect: Callable[[], socket.socket]) -> int:
    """Bytes of a head without end that were sent until the server refused it."""
    sent = 0
    with suppress(OSError), connect() as connection:
        connection.sendall(ENDLESS_HEAD)
        while sent < TRIED_HEAD and _said(connection) is None:
            part = b"".join(HEADER % (sent + number) for number in range(64))
            connection.sendall(part)
            sent += len(part)
    return sent
