"""Requests to the API server that wait without blocking: reviews go on while one of them waits for its pod.

By hand, on httptools, because of what a GET of a pod of 10 KB over TLS costs beside an empty review of 41 us of CPU:
here 33 us with eight that wait at once and 86 with one; with aiohttp 126 and 200, with urllib3 in a thread 240 and
300, with httpx 1,250 and 800.
"""

import asyncio
import ssl
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies

from webhook.kube.configuration import load_configuration
from webhook.kube.connection import Answer, Connection, Lost, TooLong
from webhook.kube.credentials import Credentials, problem_of
from webhook.kube.errors import ApiServerAway
from webhook.model.errors import ConfigError

MAX_CONNECTIONS = 64
IDLE_SECONDS = 30.0
"""Below the 90 s after which kube-apiserver closes an idle connection (apiserver pkg/server/secure_serving.go), and
below what load balancers in between grant."""
ATTEMPTS = 2
"""A connection that was kept may be dead: the API server is replaced, or a load balancer has forgotten it."""


class Address(NamedTuple):
    """Where the API server is."""

    host: str
    port: int
    authority: str
    """Host and port as they stand in a request."""
    path: str
    """What all paths begin with; mostly nothing."""
    tls: ssl.SSLContext | None
    tls_name: str | None
    """The name in its certificate."""


class Session:
    """Connections to the API server, kept alive. They belong to one event loop.

    Args:
        configuration: Of the official client, loaded.
        user_agent: How we name ourselves.
        seconds: How long a request may take, from waiting for a connection to the last byte: ``binding.readSeconds``.

    Raises:
        ConfigError: address, certificates or credentials of the configuration cannot be used.
    """

    def __init__(self, configuration: Configuration, *, user_agent: str, seconds: float) -> None:
        self.seconds = seconds
        self._url: str = configuration.host
        self._address = address(configuration)
        try:
            self._credentials = Credentials(configuration)
        except Exception as error:  # of the client's code for OIDC and exec plugins anything may come
            raise ConfigError(f"expected credentials for {self._url}: {problem_of(error)}") from None
        self._headers = (
            f" HTTP/1.1\r\nHost: {self._address.authority}\r\nUser-Agent: {user_agent}\r\nAccept: application/json\r\n"
        )
        self._room = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._closed = False

    @property
    def problem(self) -> str:
        """Why the credentials could not be renewed; empty when they were."""
        return self._credentials.problem

    @property
    def deadline(self) -> float:
        """Until when a request that begins now may take, on the clock of the running event loop."""
        return asyncio.get_running_loop().time() + self.seconds

    async def get(self, what: str, path: str, *, limit: int, deadline: float | None = None) -> Answer:
        """GET. Arguments and errors are those of :meth:`post`; several requests may share a :attr:`deadline`."""
        head = f"GET {self._address.path}{path}{self._headers}"
        return await self._ask(what, head, b"", limit, self.deadline if deadline is None else deadline)

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
        head = f"POST {self._address.path}{path}{self._headers}Content-Type: application/json\r\n"
        return await self._ask(what, f"{head}Content-Length: {len(body)}\r\n", body, limit, self.deadline)

    async def close(self) -> None:
        """Close the connections; whoever waits for an answer gets an error."""
        self._closed = True
        await self._credentials.close()
        for connection in list(self._open):
            connection.close()
        self._open.clear()
        self._idle.clear()
        await asyncio.sleep(0)  # let them hear of it

    async def _ask(self, what: str, head: str, body: bytes, limit: int, deadline: float) -> Answer:
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
            text = f"{what}: no answer from {self._url} within {self.seconds:g} s (binding.readSeconds)"
            raise ApiServerAway(text) from None
        except TooLong:
            raise ApiServerAway(f"{what}: expected an answer of at most {limit} bytes, found more") from None
        except (Lost, OSError) as error:
            words = " ".join(str(error).split()) or type(error).__name__
            raise ApiServerAway(f"{what}: {self._url} gives no answer: {words}") from None

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
        host, port, _, _, tls, tls_name = self._address
        loop = asyncio.get_running_loop()
        async with asyncio.timeout_at(deadline):
            _, connection = await loop.create_connection(Connection, host, port, ssl=tls, server_hostname=tls_name)
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
    return Session(load_configuration(kubeconfig), user_agent=user_agent, seconds=seconds)


def address(configuration: Configuration) -> Address:
    """Where the API server is, and whom to take for it.

    Raises:
        ConfigError: the address or a certificate cannot be used, or there is a proxy in between.
    """
    url = configuration.host
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError(f"expected the URL of an API server such as https://10.0.0.1:6443, found {url}")
    if configuration.proxy and not should_bypass_proxies(url, configuration.no_proxy or ""):
        raise ConfigError(
            f"{url}: expected an API server that is reached directly, found the proxy {configuration.proxy}."
            " Add its host to NO_PROXY, or take proxy-url out of the kubeconfig"
        )
    path, authority = parts.path.rstrip("/"), parts.netloc.rpartition("@")[2]
    if parts.scheme == "http":
        return Address(host, port or 80, authority, path, None, None)
    return Address(
        host, port or 443, authority, path, tls_context(configuration), configuration.tls_server_name or host
    )


def tls_context(configuration: Configuration) -> ssl.SSLContext:
    """Whom to trust and who we are, as the client's configuration says it.

    Raises:
        ConfigError: a certificate or key cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (OSError, ValueError) as error:  # of OpenSSL's errors some are the one, some the other
        files = configuration.ssl_ca_cert or "the configuration", configuration.cert_file or "no client certificate"
        raise ConfigError(f"expected certificates for {configuration.host} in {' and '.join(files)}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    context.check_hostname = configuration.verify_ssl and configuration.assert_hostname is not False
    if not configuration.verify_ssl:
        context.verify_mode = ssl.CERT_NONE
    return context
