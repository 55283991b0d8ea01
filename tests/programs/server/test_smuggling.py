"""Requests whose end is in doubt, over real TLS: none of them is read as two."""

import re
import socket
from contextlib import suppress

import pytest

from tests.pods import pod
from tests.programs.server.asgi import review
from tests.programs.server.conftest import DEADLINE_S, RunningServer

BODY = review(pod())
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
POST = b"POST /mutate/pods HTTP/1.1\r\nHost: webhook\r\n"
PLAIN = POST + LENGTH + b"\r\n" + BODY
LAST = POST + b"Connection: close\r\n" + LENGTH + b"\r\n" + BODY
"""The server ends the connection after it, so that all answers are there."""


def answers(server: RunningServer, sent: bytes) -> list[int]:
    """The statuses of all answers until the server ends the connection."""
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as plain,
        server.context().wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(sent)
        said = b""
        with suppress(ConnectionError):
            while part := connection.recv(65536):
                said += part
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", said)]


@pytest.mark.parametrize(
    "request_head_and_body",
    [
        pytest.param(POST + LENGTH + LENGTH + b"\r\n" + BODY, id="two equal lengths"),
        pytest.param(POST + LENGTH + b"Content-Length: 0\r\n\r\n" + BODY, id="two lengths"),
        pytest.param(POST + b"Content-Length: 0, 0\r\n\r\n", id="a list of lengths"),
        pytest.param(POST + b"Content-Length: +9\r\n\r\n" + BODY, id="a length with a sign"),
        pytest.param(POST + b"Content-Length: 0x9\r\n\r\n" + BODY, id="a length in base 16"),
        pytest.param(POST + b"Content-Length: -1\r\n\r\n" + BODY, id="a length below zero"),
        pytest.param(POST + b"Content-Length: 1_0\r\n\r\n" + BODY, id="a length as Python writes it"),
        pytest.param(POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n" + BODY, id="a length beyond 64 bits"),
        pytest.param(POST + LENGTH + CHUNKED + b"\r\n" + CHUNKS, id="a length, and chunks"),
        pytest.param(POST + CHUNKED + b"Content-Length: 4\r\n\r\n" + CHUNKS, id="chunks, and a length"),
        pytest.param(POST + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + CHUNKS, id="two encodings"),
        pytest.param(POST + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS, id="an unknown encoding"),
        pytest.param(POST + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS, id="a space before the colon"),
        pytest.param(POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKS, id="an encoding on a second line"),
        pytest.param(POST + LENGTH + b"X-A: 1\r\n 2\r\n\r\n" + BODY, id="a header of two lines"),
        pytest.param(PLAIN.replace(b"\r\n", b"\n"), id="lines without CR"),
        pytest.param(POST + b"X-A: a\rContent-Length: 0\r\n" + LENGTH + b"\r\n" + BODY, id="a line with CR alone"),
        pytest.param(POST + b"X-A: a\0b\r\n" + LENGTH + b"\r\n" + BODY, id="NUL in a header"),
        pytest.param(POST + CHUNKED + b"\r\n-1\r\n" + BODY + b"\r\n0\r\n\r\n", id="a chunk below zero"),
        pytest.param(POST + CHUNKED + b"\r\n" + b"f" * 17 + b"\r\n" + BODY, id="a chunk beyond 64 bits"),
        pytest.param(POST + CHUNKED + b"\r\n" + CHUNKS.replace(b"\r\n", b"\n"), id="chunks without CR"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", id="HTTP/2 from the first byte"),
        pytest.param(b"CONNECT webhook:443 HTTP/1.1\r\nHost: webhook\r\n\r\n", id="a tunnel"),
        pytest.param(b"POST /mutate/pods x HTTP/1.1\r\nHost: webhook\r\n\r\n", id="a space in the path"),
    ],
)
def test_a_request_whose_end_is_in_doubt_is_400_and_nothing_after_it_is_read(
    example_server: RunningServer, request_head_and_body: bytes
) -> None:
    assert answers(example_server, request_head_and_body + LAST) == [400]


CLOSE = b"Connection: close\r\n"


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(LAST.replace(b"/mutate", b"https://elsewhere.example/mutate"), id="with a whole URL"),
        pytest.param(LAST.replace(b"Host: webhook\r\n", b""), id="without a host"),
        pytest.param(
            POST + CLOSE + CHUNKED + b"\r\n" + CHUNKS.replace(b"\r\n", b";a=b\r\n", 1), id="chunks with an extension"
        ),
        pytest.param(LAST.replace(CLOSE, CLOSE + b"Content-Encoding: gzip\r\n"), id="said to be compressed"),
        pytest.param(LAST.replace(b"/pods", b"/p%6fds"), id="with an escape in the path"),
        pytest.param(b"POST /mutate/pods HTTP/1.0\r\n" + LENGTH + b"\r\n" + BODY, id="HTTP 1.0"),
        pytest.param(b"POST /mutate/pods HTTP/1.0\r\n" + CHUNKED + b"\r\n" + CHUNKS, id="HTTP 1.0 with chunks"),
    ],
)
def test_an_odd_request_that_is_whole_is_answered_once(example_server: RunningServer, odd: bytes) -> None:
    assert answers(example_server, odd) == [200]


def test_what_follows_the_last_request_of_an_old_client_is_not_read(example_server: RunningServer) -> None:
    assert answers(example_server, b"POST /mutate/pods HTTP/1.0\r\n" + LENGTH + b"\r\n" + BODY + LAST) == [200]


def test_a_review_in_the_body_of_another_method_is_not_answered(example_server: RunningServer) -> None:
    carrier = b"GET /mutate/pods HTTP/1.1\r\nHost: webhook\r\n" + CLOSE + b"Content-Length: %d\r\n\r\n" % len(PLAIN)
    assert answers(example_server, carrier + PLAIN) == [405]


def test_a_header_that_names_another_method_does_not_change_it(example_server: RunningServer) -> None:
    overridden = LAST.replace(b"POST", b"GET").replace(b"Host", b"X-HTTP-Method-Override: POST\r\nHost")
    assert answers(example_server, overridden) == [405]


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket", b"TLS/1.0"])
def test_a_change_of_the_protocol_is_declined_and_what_follows_is_no_request(
    example_server: RunningServer, protocol: bytes
) -> None:
    upgrade = POST + b"Connection: Upgrade, close\r\nUpgrade: " + protocol + b"\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    assert answers(example_server, upgrade + LAST) == [400]
