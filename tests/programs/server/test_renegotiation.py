"""A client that wants to negotiate its TLS connection again, which costs a server a handshake for some bytes."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.certificate import issue
from tests.go_programs.left_out import LeaveOut
from tests.programs.server.conftest import DEADLINE_S, RunningServer, until


@pytest.fixture(scope="module")
def openssl(leave_out: LeaveOut) -> str:
    """The program of OpenSSL: Python's own library cannot ask for it."""
    found = shutil.which("openssl")
    if found is None:
        leave_out("openssl", "openssl not found on PATH: apt-get install openssl")
    return found


def said_to_another_negotiation(openssl: str, port: int) -> str:
    """What a client says that asks for it, and then for a page."""
    command = [openssl, "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_2"]
    pipe = subprocess.PIPE
    # Without a buffer nothing is left to be written when a client that has ended is closed.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, bufsize=0) as client:
        assert client.stdin is not None
        with suppress(BrokenPipeError):
            client.stdin.write(b"R\n")
        return _until_its_end(client)


def _until_its_end(client: subprocess.Popen[bytes]) -> str:
    assert client.stdout is not None
    said = b""
    while line := client.stdout.readline():
        said += line
        if said.endswith(b"RENEGOTIATING\n"):
            assert client.stdin is not None
            with suppress(BrokenPipeError):
                client.stdin.write(b"Q\n")
    client.wait(DEADLINE_S)
    return said.decode(errors="replace")


@contextmanager
def other_server(openssl: str, port: int, directory: Path) -> Iterator[None]:
    """A server of OpenSSL that lets its clients do it."""
    pair = issue(["localhost"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    for name, pem in (("crt", pair.certificate), ("key", pair.key)):
        (directory / name).write_bytes(pem)
    command = [openssl, "s_server", "-accept", f"127.0.0.1:{port}", "-cert", "crt", "-key", "key", "-tls1_2", "-quiet"]
    with subprocess.Popen([*command, "-client_renegotiation"], cwd=directory, stdin=subprocess.PIPE) as server:
        try:
            until(lambda: is_open(port), "a server that listens")
            yield
        finally:
            server.kill()


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_that_lets_its_clients_do_it_would_be_found(openssl: str, port: int, tmp_path: Path) -> None:
    with other_server(openssl, port, tmp_path):
        said = said_to_another_negotiation(openssl, port)
    assert "RENEGOTIATING" in said
    assert "no renegotiation" not in said


def test_a_connection_is_not_negotiated_again(openssl: str, example_server: RunningServer) -> None:
    said = said_to_another_negotiation(openssl, example_server.port)
    assert "RENEGOTIATING" in said
    assert "no renegotiation" in said
