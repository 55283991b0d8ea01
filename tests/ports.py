"""Ports of the loopback interface: one to listen at, and one at which nobody does."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


def free_port() -> int:
    """A port at which nobody listens for now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port of the loopback interface that is ours until the end.

    The socket that holds it never listens, so it gets no connections. A program can listen there if it sets
    SO_REUSEADDR, as Go and asyncio do, or SO_REUSEPORT and has the same user (socket(7)); and nobody who asks for any
    free port gets this one between our choice and the program's start.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        yield port


@pytest.fixture
def port() -> Iterator[int]:
    """One that is the test's until its end."""
    with reserved_port() as reserved:
        yield reserved
