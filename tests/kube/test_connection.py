"""What came before a request never answers it, however the network cuts it; and no connection is left behind."""

import asyncio
import contextlib
import select
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from certs.issue import issue
from tests.kube.conftest import Run
from tests.kube.stand_in import POD, Line, Received, head, kubeconfig, serving
from webhook.kube.connection import Answer, Connection, Lost
from webhook.kube.errors import ApiServerAway
from webhook.kube.session import Session, connect

PATIENCE_S, SHORT_S = 30.0, 1.0
LONG = 65_536
ASKED = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def says(body: bytes) -> bytes:
    return head("200 OK", f"Content-Length: {len(body)}") + body


FIRST, OTHER, REAL = says(b'{"n":1}'), says(b'{"other":"pod"}'), says(b'{"n":2}')
SHORT_BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
"""The first two bytes of the next answer would be its body."""
LOOPS = [uvloop.run, asyncio.run]


@contextlib.asynccontextmanager
async def line() -> AsyncIterator[tuple[Connection, socket.socket]]:
    """A connection, and the server's end of it: what is sent there has arrived when ``sendall`` returns."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, *listening.getsockname())
        with listening.accept()[0] as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.settimeout(PATIENCE_S)
            yield connection, server
            connection.close()
            await asyncio.sleep(0)


async def ask(connection: Connection, seconds: float = PATIENCE_S) -> Answer:
    deadline = asyncio.get_running_loop().time() + seconds
    return await connection.ask(ASKED, limit=LONG, deadline=deadline)


async def answered(connection: Connection, server: socket.socket, said: bytes, seconds: float = PATIENCE_S) -> Answer:
    """Ask, and say this once the request has come."""
    asking = asyncio.create_task(ask(connection, seconds))
    server.setblocking(False)
    await asyncio.get_running_loop().sock_recv(server, LONG)
    server.setblocking(True)
    server.sendall(said)
    return await asking


async def second_answer(before: bytes, after: bytes) -> Answer | None:
    """The answer to a second request when the first answer has these bytes behind it, and these bytes come later;
    ``None`` if the second request is not sent, or not answered."""
    async with line() as (connection, server):
        assert await answered(connection, server, FIRST + before) == Answer(200, b'{"n":1}')
        if after:
            server.sendall(after)
        asking = asyncio.create_task(ask(connection))
        server.setblocking(False)
        with contextlib.suppress(OSError):
            if await asyncio.get_running_loop().sock_recv(server, LONG):
                server.setblocking(True)
                server.sendall(REAL)
        try:
            return await asking
        except Lost:
            return None


leftovers = st.one_of(
    st.binary(max_size=40),
    st.just(OTHER),
    st.just(SHORT_BODY),
    st.integers(0, len(OTHER)).map(lambda end: OTHER[:end]),
    st.tuples(st.sampled_from([b"\r\n", b"\r", b"\n", b" "]), st.sampled_from([OTHER, SHORT_BODY])).map(b"".join),
)


@settings(max_examples=150, deadline=None)
@given(leftover=leftovers, cut=st.integers(0, 80), loop=st.sampled_from(LOOPS))
@example(leftover=SHORT_BODY, cut=80, loop=asyncio.run)
@example(leftover=SHORT_BODY, cut=0, loop=asyncio.run)
@example(leftover=OTHER, cut=80, loop=uvloop.run)
@example(leftover=OTHER, cut=0, loop=uvloop.run)
@example(leftover=OTHER, cut=1, loop=uvloop.run)
def test_whatever_comes_behind_an_answer_never_answers_the_next_request(leftover: bytes, cut: int, loop: Run) -> None:
    async def test() -> None:
        assert await second_answer(leftover[:cut], leftover[cut:]) in (None, Answer(200, b'{"n":2}'))

    loop(test())


def test_a_kept_connection_over_which_nothing_came_is_asked_again(run: Run) -> None:
    async def test() -> None:
        assert await second_answer(b"", b"") == Answer(200, b'{"n":2}')

    run(test())


@pytest.mark.parametrize("first", [SHORT_S, PATIENCE_S], ids=["after an earlier one", "before a later one"])
def test_each_request_has_its_own_deadline(run: Run, first: float) -> None:
    async def test() -> None:
        now = asyncio.get_running_loop().time
        async with line() as (connection, server):
            assert await answered(connection, server, FIRST, first) == Answer(200, b'{"n":1}')
            begun = now()
            with pytest.raises(TimeoutError, match=r"^$"):
                await ask(connection, 0.1)
            assert begun + 0.1 <= now() < begun + PATIENCE_S
            assert not connection.usable

    run(test())


def test_a_deadline_that_passes_after_its_answer_is_nobodys(run: Run) -> None:
    async def test() -> None:
        async with line() as (connection, server):
            assert await answered(connection, server, FIRST, SHORT_S) == Answer(200, b'{"n":1}')
            await asyncio.sleep(SHORT_S + 0.01)
            assert await answered(connection, server, REAL) == Answer(200, b'{"n":2}')

    run(test())


@pytest.mark.parametrize("behind", [b"H", b"X", SHORT_BODY, OTHER[:-1], OTHER], ids=repr)
def test_a_connection_that_said_more_than_an_answer_is_not_usable(run: Run, behind: bytes) -> None:
    async def test() -> None:
        async with line() as (connection, server):
            assert await answered(connection, server, FIRST + behind) == Answer(200, b'{"n":1}')
            assert not connection.usable
            with pytest.raises(Lost, match=r"^the connection was closed$"):
                await ask(connection)

    run(test())


@pytest.mark.parametrize("said", [OTHER, SHORT_BODY, b"H", b"\r\n"], ids=repr)
def test_a_server_that_speaks_first_is_not_asked(run: Run, said: bytes) -> None:
    async def test() -> None:
        async with line() as (connection, server):
            server.sendall(said)
            with pytest.raises(Lost, match=r"^the server spoke, or ended the connection, before it was asked$"):
                await ask(connection)
            assert not connection.usable

    run(test())


def test_a_connection_that_ended_while_it_was_kept_is_not_asked(run: Run) -> None:
    async def test() -> None:
        async with line() as (connection, server):
            await answered(connection, server, FIRST)
            server.shutdown(socket.SHUT_WR)
            with pytest.raises(Lost, match=r"^the server spoke, or ended the connection, before it was asked$"):
                await ask(connection)

    run(test())


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """Of a server; its authority is in ``ca.crt``."""
    bundle = issue(["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    (tmp_path / "ca.crt").write_bytes(bundle.authority)
    (tmp_path / "both.pem").write_bytes(bundle.certificate + bundle.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "both.pem")
    return context


def trusting(directory: Path, port: int) -> Session:
    """A session with the server on that port that has the context of ``tls``."""
    cluster = {"certificate-authority": str(directory / "ca.crt")}
    path = kubeconfig(directory / "k", f"https://127.0.0.1:{port}", cluster=cluster)
    return connect(path, user_agent="test", seconds=PATIENCE_S)


def test_over_tls_what_came_behind_an_answer_is_seen_too(run: Run, tmp_path: Path, tls: ssl.SSLContext) -> None:

    async def turn(request: Received, line: Line) -> None:
        line.raw(says(POD) + (SHORT_BODY if request.connection == 1 else b""))

    async def test() -> None:
        async with serving(turn, tls=tls) as stand_in:
            session = trusting(tmp_path, stand_in.port)
            for _ in range(3):
                assert await session.get("get", "/", limit=LONG) == Answer(200, POD)
            await session.close()
            assert [request.connection for request in stand_in.received] == [1, 2, 2]

    run(test())


@contextlib.asynccontextmanager
async def deaf() -> AsyncIterator[tuple[int, "asyncio.Queue[asyncio.StreamReader]"]]:
    """A server that takes connections and says nothing, not even what TLS wants: its port, and who called."""
    callers: asyncio.Queue[asyncio.StreamReader] = asyncio.Queue()
    writers: list[asyncio.StreamWriter] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        callers.put_nowait(reader)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], callers
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait until the other side has closed the connection."""
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionError):
            await reader.read()


def test_a_connection_that_is_not_made_in_time_is_closed(run: Run, tmp_path: Path) -> None:
    async def test() -> None:
        async with deaf() as (port, callers):
            session = connect(kubeconfig(tmp_path / "k", f"https://127.0.0.1:{port}"), user_agent="test", seconds=0.1)
            with pytest.raises(ApiServerAway, match=r"^get: no answer from https://.* within 0\.1 s"):
                await session.get("get", "/", limit=LONG)
            await ended(await callers.get())
            await session.close()

    run(test())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_request_that_is_given_up_while_it_connects_leaves_no_connection(
    run: Run, tmp_path: Path, scheme: str
) -> None:
    async def test() -> None:
        async with deaf() as (port, callers):
            path = kubeconfig(tmp_path / "k", f"{scheme}://127.0.0.1:{port}")
            session = connect(path, user_agent="test", seconds=PATIENCE_S)
            for ticks in range(12):
                request = asyncio.create_task(session.get("get", "/", limit=LONG))
                for _ in range(ticks):
                    await asyncio.sleep(0)
                request.cancel()
                await asyncio.wait((request,))
                assert request.cancelled()
            request = asyncio.create_task(session.get("get", "/", limit=LONG))
            first = await callers.get()
            request.cancel()
            await asyncio.wait((request,))
            await ended(first)
            await asyncio.sleep(0.05)
            while not callers.empty():
                await ended(callers.get_nowait())
            await session.close()

    run(test())


def test_a_request_that_is_given_up_just_when_tls_has_begun_waits_for_no_farewell(
    run: Run, tmp_path: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls.maximum_version = (
        ssl.TLSVersion.TLSv1_2
    )  # in 1.3 the client is done first, and the server might hear half of it
    requests: list[asyncio.Task[Answer]] = []

    class GivenUp(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            requests[0].cancel()

    monkeypatch.setattr("webhook.kube.session.Connection", GivenUp)

    def hears_the_end(listening: socket.socket) -> bool:
        with tls.wrap_socket(listening.accept()[0], server_side=True) as server:
            end = select.poll()
            end.register(server, select.POLLRDHUP)
            return bool(end.poll(10_000))

    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            hearing = asyncio.create_task(asyncio.to_thread(hears_the_end, listening))
            session = trusting(tmp_path, listening.getsockname()[1])
            requests.append(asyncio.create_task(session.get("get", "/", limit=LONG)))
            assert await hearing
            assert requests[0].cancelled()
            await session.close()

    run(test())


def test_a_connection_that_is_made_while_the_session_is_closed_is_not_used(run: Run, tmp_path: Path) -> None:
    async def test() -> None:
        async with deaf() as (port, callers):
            session = connect(
                kubeconfig(tmp_path / "k", f"http://127.0.0.1:{port}"), user_agent="test", seconds=PATIENCE_S
            )
            request = asyncio.create_task(session.get("get", "/", limit=LONG))
            await asyncio.sleep(0)
            await session.close()
            with pytest.raises(ApiServerAway, match=r"gives no answer: the webhook stops$"):
                await request
            await asyncio.sleep(0.05)
            while not callers.empty():
                caller = callers.get_nowait()
                await ended(caller)

    run(test())


def test_a_session_that_is_closed_does_not_connect(run: Run, tmp_path: Path) -> None:
    async def test() -> None:
        async with deaf() as (port, callers):
            session = connect(
                kubeconfig(tmp_path / "k", f"http://127.0.0.1:{port}"), user_agent="test", seconds=PATIENCE_S
            )
            await session.close()
            with pytest.raises(ApiServerAway, match=r"gives no answer: the webhook stops$"):
                await session.get("get", "/", limit=LONG)
            assert callers.empty()

    run(test())
