"""Requests to the API server that wait without blocking: reviews go on while one of them waits for its pod.

By hand, on httptools, because of what a GET of a pod of 10 KB over TLS costs beside an empty review of 41 us of CPU:
here 33 us with eight that wait at once and 86 with one; with aiohttp 126 and 200, with urllib3 in a thread 240 and
300, with httpx 1,250 and 800.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from webhook.kube.access import Access, find_access
from webhook.kube.connection import Answer, Connection, Lost, TooLong
from webhook.kube.credentials import Credentials, problem_of
from webhook.kube.errors import AnswerTooLong, ApiServerAway
from webhook.kube.stream import Stream
from webhook.kube.trust import Trust
from webhook.model.errors import ConfigError

MAX_CONNECTIONS = 64
IDLE_SECONDS = 30.0
"""Below the 90 s after which kube-apiserver closes an idle connection (apiserver pkg/server/secure_serving.go), and
below what load balancers in between grant."""
ATTEMPTS = 2
"""A connection that was kept may be dead: the API server is replaced, or a load balancer has forgotten it."""
JSON = "application/json"

_C = TypeVar("_C", Connection, Stream)


class Address(NamedTuple):
    """Where the API server is."""

    host: str
    port: int
    authority: str
    """Host and port as they stand in a request."""
    path: str
    """What all paths begin with; mostly nothing."""
    trust: Trust | None
    """For TLS."""
    tls_name: str | None
    """The name in its certificate."""


class Session:
    """Connections to the API server, kept alive. They belong to one event loop.

    Args:
        access: How the API server is reached.
        user_agent: How we name ourselves.
        seconds: How long a request may take, from waiting for a connection to the last byte: ``binding.readSeconds``.

    Raises:
        ConfigError: address, certificates or credentials of ``access`` cannot be used.
    """

    def __init__(self, access: Access, *, user_agent: str, seconds: float) -> None:
        self.seconds = seconds
        self._url = access.host
        self._address = address(access)
        try:
            self._credentials = Credentials(access)
        except Exception as error:  # of the client's code for OIDC and exec plugins anything may come
            raise ConfigError(f"expected credentials for {self._url}: {problem_of(error)}") from None
        self._headers = f" HTTP/1.1\r\nHost: {self._address.authority}\r\nUser-Agent: {user_agent}\r\nAccept: "
        self._room = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: list[Connection] = []
        self._open: set[Connection | Stream] = set()
        self._closed = False

    @property
    def problem(self) -> str:
        """Why the credentials could not be renewed; empty when they were."""
        return self._credentials.problem

    async def get(
        self,
        what: str,
        path: str,
        *,
        limit: int,
        accept: str = JSON,
        seconds: float | None = None,
        deadline: float | None = None,
    ) -> Answer:
        """GET. What is not said here is as for :meth:`post`.

        Args:
            what: What is asked for; errors begin with it.
            path: With the query, escaped.
            limit: Bytes that the answer may have.
            accept: The form of the answer.
            seconds: How long it may take, if that is not ``binding.readSeconds``.
            deadline: Until when, on the clock of the event loop: several requests may share ``binding.readSeconds``.

        Raises:
            ApiServerAway: no whole answer in time, or one that is longer.
        """
        head = f"GET {self._address.path}{path}{self._headers}{accept}\r\n"
        return await self._ask(what, head, b"", limit, seconds, deadline)

    @asynccontextmanager
    async def watch(self, what: str, path: str, *, limit: int, accept: str, seconds: float) -> AsyncIterator[Stream]:
        """GET of an answer that goes on, over a connection of its own; its ``status`` is known.

        Args:
            what: What is asked for; errors begin with it.
            path: With the query, escaped.
            limit: Bytes that one line may have.
            accept: The form of the lines.
            seconds: How long it may go on.

        Raises:
            ApiServerAway: it cannot be begun, it went on for too long or was cut off. Also from within the block.
        """
        head = f"GET {self._address.path}{path}{self._headers}{accept}\r\n"
        stream: Stream | None = None
        try:
            async with asyncio.timeout(seconds):
                async with asyncio.timeout(self.seconds):
                    self._check_open()
                    authorization = self._credentials.header()
                    if authorization is None:
                        authorization = await self._credentials.renewed()
                    stream = await self._dial(lambda: Stream(limit))
                    await stream.ask(f"{head}{authorization}\r\n".encode())
                yield stream
        except TimeoutError:
            raise ApiServerAway(f"{what}: {self._url} gives no answer in time") from None
        except TooLong:
            raise ApiServerAway(f"{what}: expected lines of at most {limit} bytes, found a longer one") from None
        except (Lost, OSError) as error:
            raise ApiServerAway(f"{what}: {self._url} gives no answer: {_words(error)}") from None
        finally:
            if stream is not None:
                self._open.discard(stream)
                stream.close()

    async def post(self, what: str, path: str, body: bytes, *, limit: int) -> Answer:
        """POST of JSON. It may be sent twice, so the object must have a name.

        Args:
            what: What is asked for, such as ``get pod team-a/train``; errors begin with it.
            path: With the query, escaped.
            body: JSON.
            limit: Bytes that the answer may have.

        Raises:
            ApiServerAway: no whole answer in time, or one that is longer.
        """
        head = f"POST {self._address.path}{path}{self._headers}{JSON}\r\nContent-Type: {JSON}\r\n"
        return await self._ask(what, f"{head}Content-Length: {len(body)}\r\n", body, limit)

    async def close(self) -> None:
        """Close the connections; whoever waits for an answer gets an error."""
        self._closed = True
        await self._credentials.close()
        for connection in list(self._open):
            connection.close()
        self._open.clear()
        self._idle.clear()
        await asyncio.sleep(0)  # let them hear of it

    async def _ask(
        self,
        what: str,
        head: str,
        body: bytes,
        limit: int,
        seconds: float | None = None,
        deadline: float | None = None,
    ) -> Answer:
        if deadline is None:
            deadline = asyncio.get_running_loop().time() + (seconds or self.seconds)
        try:
            self._check_open()
            authorization = self._credentials.header()
            if authorization is None:
                async with asyncio.timeout_at(deadline):
                    authorization = await self._credentials.renewed()
            message = f"{head}{authorization}\r\n".encode() + body
            if not self._room.locked():
                await self._room.acquire()
            else:
                async with asyncio.timeout_at(deadline):
                    await self._room.acquire()
            try:
                return await self._attempt(message, limit, deadline)
            finally:
                self._room.release()
        except TimeoutError:
            within = f"{seconds:g} s" if seconds else f"{self.seconds:g} s (binding.readSeconds)"
            raise ApiServerAway(f"{what}: no answer from {self._url} within {within}") from None
        except TooLong:
            raise AnswerTooLong(f"{what}: expected an answer of at most {limit} bytes, found more") from None
        except (Lost, OSError) as error:
            raise ApiServerAway(f"{what}: {self._url} gives no answer: {_words(error)}") from None

    async def _attempt(self, message: bytes, limit: int, deadline: float) -> Answer:
        """Ask over a connection that was kept, if there is one; if that is lost, over a new one."""
        for attempt in range(1, ATTEMPTS + 1):
            connection = (self._kept() if attempt == 1 else None) or await self._connect(deadline)
            try:
                answer = await connection.ask(message, limit=limit, deadline=deadline)
            except Lost:
                if attempt == ATTEMPTS:
                    raise
            else:
                self._keep(connection)
                return answer
            finally:
                if not connection.usable:
                    self._open.discard(connection)
        raise AssertionError("unreachable")

    async def _connect(self, deadline: float) -> Connection:
        self._check_open()
        async with asyncio.timeout_at(deadline):
            return await self._dial(Connection)

    async def _dial(self, make: Callable[[], _C]) -> _C:
        """A new connection."""
        host, port, _, _, trust, tls_name = self._address
        tls = trust.context() if trust else None
        loop = asyncio.get_running_loop()
        connection = make()
        try:
            await loop.create_connection(lambda: connection, host, port, ssl=tls, server_hostname=tls_name)
        except BaseException:
            connection.close()  # given up when it had just been made, it would wait half a minute for a farewell of TLS
            raise
        if self._closed:  # meanwhile
            connection.close()
        self._check_open()
        self._open.add(connection)
        return connection

    def _check_open(self) -> None:
        if self._closed:
            raise Lost("the webhook stops")

    def _kept(self) -> Connection | None:
        """The connection that was used last, if it may still be used."""
        earliest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since >= earliest:
                return connection
            connection.close()
            self._open.discard(connection)
        return None

    def _keep(self, connection: Connection) -> None:
        if connection.usable:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.close()


def connect(kubeconfig: Path | None, *, user_agent: str, seconds: float) -> Session:
    """The API server that a kubeconfig names or, without one, that of the cluster in which this program runs as a pod.

    Nothing is sent yet.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    return Session(find_access(kubeconfig), user_agent=user_agent, seconds=seconds)


def address(access: Access) -> Address:
    """Where the API server is, and whom to take for it.

    Raises:
        ConfigError: the address or a certificate cannot be used, or there is a proxy in between.
    """
    url = access.host
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError(f"expected the URL of an API server such as https://10.0.0.1:6443, found {url}")
    if access.proxy and not _bypasses(url, access.no_proxy or ""):
        raise ConfigError(
            f"{url}: expected an API server that is reached directly, found the proxy {access.proxy}."
            " Add its host to NO_PROXY, or take proxy-url out of the kubeconfig"
        )
    path, authority = parts.path.rstrip("/"), parts.netloc.rpartition("@")[2]
    if parts.scheme == "http":
        return Address(host, port or 80, authority, path, None, None)
    return Address(host, port or 443, authority, path, Trust(access), access.tls_server_name or host)


def _bypasses(url: str, no_proxy: str) -> bool:
    """Whether ``url`` is reached without the proxy."""
    from kubernetes.client.rest import should_bypass_proxies  # noqa: PLC0415 - see find_access; proxies are rare

    return should_bypass_proxies(url, no_proxy)


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
