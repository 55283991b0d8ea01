"""What came before a request never answers it, however the network cuts it; and no connection is left behind."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop
from hypothesis import example, given
from hypothesis import strategies as st

from certs.certificate import issue
from tests.cluster.api.access import ToldAccess
from tests.cluster.api.conftest import Run
from tests.cluster.api.stand_in import POD, Line, Received, chunked, head, kubeconfig, serving
from webhook.cluster.api.errors import ApiServerAway
from webhook.cluster.api.session import Session, connect

PATIENCE_S, SHORT_S = 30.0, 1.0
LONG = 65_536
ASKED = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def says(body: bytes) -> bytes:
    return head("200 OK", f"Content-Length: {len(body)}") + body


FIRST, OTHER, REAL = says(b'{"n":1}'), says(b'{"other":"pod"}'), says(b'{"n":2}')
SHORT_BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
"""The first two bytes of the next answer would be its body."""
LOOPS = [uvloop.run, asyncio.run]


@pytest.fixture(params=LOOPS, ids=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine to its end, with the loop of the server and with that of Python."""
    found: Run = request.param
    return found


@contextlib.asynccontextmanager
async def talk() -> AsyncIterator[tuple[Session, socket.socket]]:
    """A session, and a socket that listens for it: what is sent to it has arrived when ``sendall`` returns."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        access = ToldAccess(f"http://127.0.0.1:{listening.getsockname()[1]}")
        session = Session(access, user_agent="test", seconds=PATIENCE_S)
        yield session, listening
        await session.close()


async def ask(session: Session, seconds: float = PATIENCE_S) -> tuple[int, bytes]:
    answer = await session.get("get", "/", limit=LONG, seconds=seconds)
    return answer.status, answer.body


async def heard(listening: socket.socket) -> socket.socket:
    """A new connection, over which a request has come."""
    server, _ = await asyncio.get_running_loop().sock_accept(listening)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server.setblocking(False)
    await asyncio.get_running_loop().sock_recv(server, LONG)
    return server


async def second_answer(before: bytes, after: bytes) -> tuple[int, bytes]:
    """The answer to a second request when the first answer has these bytes behind it, and these bytes come later.

    Over a new connection, and over the first one, the server gives the right answer.
    """
    loop = asyncio.get_running_loop()
    async with talk() as (session, listening):
        asking = asyncio.create_task(ask(session))
        with await heard(listening) as first:
            await loop.sock_sendall(first, FIRST + before)
            with contextlib.suppress(ApiServerAway):  # what stands behind it may spoil the answer itself
                assert await asking == (200, b'{"n":1}')
            if after:
                with contextlib.suppress(OSError):
                    await loop.sock_sendall(first, after)
            asking = asyncio.create_task(ask(session))

            async def again() -> None:
                with contextlib.suppress(OSError):
                    if await loop.sock_recv(first, LONG):
                        await loop.sock_sendall(first, REAL)

            async def anew() -> None:
                with await heard(listening) as second:
                    await loop.sock_sendall(second, REAL)
                    await asking

            others = [asyncio.create_task(again()), asyncio.create_task(anew())]
            try:
                return await asking
            finally:
                for other in others:
                    other.cancel()
                await asyncio.wait(others)


leftovers = st.one_of(
    st.binary(max_size=40),
    st.just(OTHER),
    st.just(SHORT_BODY),
    st.integers(0, len(OTHER)).map(lambda end: OTHER[:end]),
    st.tuples(st.sampled_from([b"\r\n", b"\r", b"\n", b" "]), st.sampled_from([OTHER, SHORT_BODY])).map(b"".join),
)


@given(leftover=leftovers, cut=st.integers(0, 80), loop=st.sampled_from(LOOPS))
@example(leftover=SHORT_BODY, cut=80, loop=asyncio.run)
@example(leftover=SHORT_BODY, cut=0, loop=asyncio.run)
@example(leftover=OTHER, cut=80, loop=uvloop.run)
@example(leftover=OTHER, cut=0, loop=uvloop.run)
@example(leftover=OTHER, cut=0, loop=asyncio.run)
@example(leftover=OTHER, cut=1, loop=uvloop.run)
def test_whatever_comes_behind_an_answer_never_answers_the_next_request(leftover: bytes, cut: int, loop: Run) -> None:
    async def test() -> None:
        assert await second_answer(leftover[:cut], leftover[cut:]) == (200, b'{"n":2}')

    loop(test())


def test_a_kept_connection_over_which_nothing_came_is_asked_again(run: Run) -> None:
    async def turn(_: Received, line: Line) -> None:
        line.raw(says(POD))

    async def test() -> None:
        async with serving(turn) as stand_in:
            session = Session(ToldAccess(f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=PATIENCE_S)
            for _ in range(3):
                assert await ask(session) == (200, POD)
            await session.close()
            assert [request.connection for request in stand_in.received] == [1, 1, 1]

    run(test())


def test_a_connection_that_ended_while_it_was_kept_is_not_asked(run: Run) -> None:
    async def turn(request: Received, line: Line) -> None:
        line.raw(says(POD))
        if request.connection == 1:
            line.hang_up()

    async def test() -> None:
        async with serving(turn) as stand_in:
            session = Session(ToldAccess(f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=PATIENCE_S)
            for _ in range(3):
                answer = await session.ask("post", "POST", "/", b"{}", limit=LONG)
                assert answer.body == POD
            await session.close()
            assert [request.connection for request in stand_in.received] == [1, 2, 2]

    run(test())


@pytest.mark.parametrize("first", [SHORT_S, PATIENCE_S], ids=["after an earlier one", "before a later one"])
def test_each_request_has_its_own_deadline(run: Run, first: float) -> None:
    async def turn(request: Received, line: Line) -> None:
        if request.target == "/":
            line.raw(says(POD))

    async def test() -> None:
        async with serving(turn) as stand_in:
            session = Session(ToldAccess(f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=PATIENCE_S)
            assert await ask(session, first) == (200, POD)
            with pytest.raises(ApiServerAway, match=r"^get: no answer from http://.* within 0\.1 s$"):
                await session.get("get", "/silent", limit=LONG, seconds=0.1)
            assert await ask(session, first) == (200, POD)
            await session.close()
            assert [request.connection for request in stand_in.received] == [1, 1, 2]

    run(test())


@pytest.mark.parametrize("said", [says(b"x" * 100), head("200 OK", "Transfer-Encoding: chunked") + chunked(b"x" * 100)])
def test_an_answer_that_is_too_long_is_an_error(run: Run, said: bytes) -> None:
    async def turn(_: Received, line: Line) -> None:
        line.raw(said)

    async def test() -> None:
        async with serving(turn) as stand_in:
            session = Session(ToldAccess(f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=PATIENCE_S)
            assert len((await session.get("get", "/", limit=100)).body) == 100
            with pytest.raises(ApiServerAway, match=r"^get: expected an answer of at most 99 bytes, found more$"):
                await session.get("get", "/", limit=99)
            await session.close()

    run(test())


def test_a_redirection_is_not_followed(run: Run) -> None:
    async def turn(_: Received, line: Line) -> None:
        line.say(b"", "302 Found", "Location: http://127.0.0.1:1/elsewhere")

    async def test() -> None:
        async with serving(turn) as stand_in:
            session = Session(ToldAccess(f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=PATIENCE_S)
            assert await ask(session) == (302, b"")
            await session.close()

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
                assert await ask(session) == (200, POD)
            await session.close()
            assert [request.connection for request in stand_in.received] == [1, 2, 2]

    run(test())


@contextlib.contextmanager
def serving_one(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[int]:
    """A server in a thread of its own, with its one connection and the event that the test is over: its port."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: serve(listening.accept()[0], over))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            over.set()
            thread.join()


def test_a_request_that_is_given_up_over_tls_leaves_nothing_to_the_loop(
    run: Run, tmp_path: Path, tls: ssl.SSLContext
) -> None:
    """A connection that waits for a farewell outlives the loop: uvloop then refuses to close, and asyncio warns."""
    heard = threading.Event()

    def deaf_to_farewells(connection: socket.socket, over: threading.Event) -> None:
        with tls.wrap_socket(connection, server_side=True) as server:
            server.recv(LONG)
            heard.set()
            over.wait(PATIENCE_S)

    async def test(port: int) -> None:
        session = trusting(tmp_path, port)
        request = asyncio.create_task(session.get("get", "/", limit=LONG))
        await asyncio.to_thread(heard.wait, PATIENCE_S)
        request.cancel()
        await asyncio.wait((request,))
        await session.close()

    with serving_one(deaf_to_farewells) as port:
        run(test(port))


class _Greeting(ssl.SSLObject):
    """One side of TLS that says when its handshake is done."""

    done = False

    def do_handshake(self) -> None:
        super().do_handshake()
        _Greeting.done = True


class _GreetingAccess(ToldAccess):
    def tls(self) -> ssl.SSLContext:
        context = super().tls()
        context.sslobject_class = _Greeting
        return context


def test_a_request_that_is_given_up_once_tls_is_agreed_leaves_nothing_to_the_loop(
    run: Run, tmp_path: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop has the connection already, and who asked for it does not yet."""
    monkeypatch.setattr(_Greeting, "done", False)

    def deaf_to_farewells(connection: socket.socket, over: threading.Event) -> None:
        with contextlib.suppress(OSError), tls.wrap_socket(connection, server_side=True):
            over.wait(PATIENCE_S)

    async def test(port: int) -> None:
        access = _GreetingAccess(f"https://127.0.0.1:{port}", authority=tmp_path / "ca.crt")
        session = Session(access, user_agent="test", seconds=PATIENCE_S)
        request = asyncio.create_task(session.get("get", "/", limit=LONG))
        async with asyncio.timeout(PATIENCE_S):
            while not _Greeting.done:
                await asyncio.sleep(0)
        request.cancel()
        await asyncio.wait((request,))
        assert request.cancelled()
        await session.close()

    with serving_one(deaf_to_farewells) as port:
        run(test(port))


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


def test_a_connection_that_is_made_while_the_session_is_closed_is_not_used(run: Run, tmp_path: Path) -> None:
    async def test() -> None:
        async with deaf() as (port, callers):
            session = connect(
                kubeconfig(tmp_path / "k", f"http://127.0.0.1:{port}"), user_agent="test", seconds=PATIENCE_S
            )
            request = asyncio.create_task(session.get("get", "/", limit=LONG))
            await asyncio.sleep(0)
            await session.close()
            with pytest.raises(ApiServerAway, match=r"gives no answer: the program stops$"):
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
            with pytest.raises(ApiServerAway, match=r"gives no answer: the program stops$"):
                await session.get("get", "/", limit=LONG)
            assert callers.empty()

    run(test())
