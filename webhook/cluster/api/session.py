"""Requests to the API server, for every program of ours: aiohttp, with raw JSON in both directions."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from webhook.cluster.api.access import Access
from webhook.cluster.api.connector import Connector
from webhook.cluster.api.contexts import Context, Where
from webhook.cluster.api.credentials import Credentials
from webhook.cluster.api.errors import AnswerTooLong, ApiServerAway
from webhook.cluster.api.service_account import ServiceAccount
from webhook.cluster.api.status import Answer, failure
from webhook.cluster.kinds import JSON
from webhook.words.errors import ConfigError
from webhook.words.printable import printable

MAX_CONNECTIONS = 64
IDLE_SECONDS = 30.0
"""The lifetime of an idle connection: below the 90 s after which kube-apiserver closes it (apiserver
pkg/server/secure_serving.go), and below the limits of load balancers on the way."""
READ_AHEAD = 128 * 1024
"""The unread bytes of an answer above which the server must wait; aiohttp allows twice as many."""
_LOST_CONNECTION = (aiohttp.ServerDisconnectedError, aiohttp.ClientConnectionResetError)
_STOPPING = "the program stops"


class Session:
    """Kept-alive connections to one API server. They belong to the event loop of the first request.

    Args:
        access: The way to the API server.
        user_agent: Our name in requests.
        seconds: The time limit of a request, from the wait for a connection to the last byte.

    Raises:
        ConfigError: the address or the proxy of ``access`` cannot be used.
    """

    def __init__(self, access: Access, *, user_agent: str, seconds: float) -> None:
        self.seconds = seconds
        self._access = access
        self._url = checked_url(access)
        self._credentials = Credentials(access)
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        self._client: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def problem(self) -> str:
        """The reason why the credentials could not be renewed; empty if they were."""
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
        """Make a GET: :meth:`ask` without a body."""
        return await self.ask(what, "GET", path, limit=limit, accept=accept, seconds=seconds, deadline=deadline)

    async def ask(  # noqa: PLR0913 - the parts of a request
        self,
        what: str,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        limit: int,
        content_type: str = JSON,
        accept: str = JSON,
        seconds: float | None = None,
        deadline: float | None = None,
        may_repeat: bool = False,
    ) -> Answer:
        """Make a request and wait for the whole answer, with any status.

        Args:
            what: The request in words, such as ``get pod team-a/train``; errors begin with it.
            method: The HTTP method. GET, PUT and DELETE are sent again if a kept connection was dead.
            path: The path with the query, escaped.
            body: The body to send.
            limit: The most bytes of the answer.
            content_type: The type of the body.
            accept: The form of the answer.
            seconds: The time limit, if it differs from the session's.
            deadline: The time limit on the clock of the event loop, for several requests that share one.
            may_repeat: True if a POST or PATCH may be sent again too, for example because the object has a name.

        Raises:
            ApiServerAway: no whole answer in time, or one that is longer than ``limit``.
        """
        headers = {"Accept": accept} if body is None else {"Accept": accept, "Content-Type": content_type}
        try:
            async with asyncio.timeout_at(self._deadline(seconds, deadline)):
                try:
                    return await self._answer(method, path, headers, body, limit)
                except _LOST_CONNECTION:
                    if not may_repeat:
                        raise
                return await self._answer(method, path, headers, body, limit)
        except _TooLongError:
            raise AnswerTooLong(f"{what}: expected an answer of at most {limit} bytes, found more") from None
        except TimeoutError:
            within = f"{seconds or self.seconds:g} s"
            raise ApiServerAway(f"{what}: no answer from {self._access.url} within {within}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._away(what, error) from None

    @asynccontextmanager
    async def watch(
        self, what: str, path: str, *, limit: int, accept: str, seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Make a GET whose answer goes on, and yield its lines.

        Args:
            what: The request in words; errors begin with it.
            path: The path with the query, escaped.
            limit: The most bytes of one line.
            accept: The form of the lines.
            seconds: The longest time that the answer may go on.

        Raises:
            ApiServerAway: the answer did not begin, went on for too long or was cut off. Also from within the block.
            ApiError: the API server refused the request.
        """
        try:
            async with asyncio.timeout(seconds):
                async with (
                    self._begun(what, path, accept, limit) as response,
                    aclosing(_lines(response, limit)) as lines,
                ):
                    yield lines
        except _TooLongError:
            raise ApiServerAway(f"{what}: expected lines of at most {limit} bytes, found a longer one") from None
        except TimeoutError:
            raise ApiServerAway(f"{what}: {self._access.url} gives no answer in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._away(what, error) from None

    async def close(self) -> None:
        """Close the connections. Open requests fail."""
        self._closed = True
        await self._credentials.close()
        if self._client is not None:
            await self._client.close()

    @asynccontextmanager
    async def _begun(self, what: str, path: str, accept: str, limit: int) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer to a watch once its head has come, and raise if the head is a refusal."""
        head = asyncio.timeout(self.seconds)
        async with head, await self._request("GET", path, {"Accept": accept}, None) as response:
            if response.status != 200:
                raise failure(what, Answer(response.status, await _whole(response, limit), response.headers))
            head.reschedule(None)
            yield response

    async def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes | None, limit: int) -> Answer:
        async with await self._request(method, path, headers, body) as response:
            return Answer(response.status, await _whole(response, limit), response.headers)

    async def _request(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Prepare a request with our credentials. It is sent on entry of the answer's block."""
        if self._closed:
            raise aiohttp.ClientConnectionError(_STOPPING)
        authorization = await self._credentials.authorization()
        if authorization:
            headers["Authorization"] = authorization
        return self._opened().request(
            method,
            URL(self._url + path, encoded=True),
            headers=headers,
            data=body,
            ssl=self._access.tls() if self._url.startswith("https:") else True,
            server_hostname=self._access.tls_server_name,
            proxy=self._access.proxy,
            allow_redirects=False,  # the token is for the API server alone
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._client is None:
            self._client = aiohttp.ClientSession(
                connector=Connector(limit=MAX_CONNECTIONS, keepalive_timeout=IDLE_SECONDS),
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(),  # no limit here, because each request has a deadline
                auto_decompress=False,
                read_bufsize=READ_AHEAD,
            )
        return self._client

    def _deadline(self, seconds: float | None, deadline: float | None) -> float:
        return asyncio.get_running_loop().time() + (seconds or self.seconds) if deadline is None else deadline

    def _away(self, what: str, error: Exception) -> ApiServerAway:
        words = _STOPPING if self._closed else _words(error)
        return ApiServerAway(printable(f"{what}: {self._access.url} gives no answer: {words}"))


def connect(where: Where, *, user_agent: str, seconds: float) -> Session:
    """Make a session with the API server of a kubeconfig or, without one, of the cluster in which this runs as a pod.

    This sends no request.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    return Session(find_access(where), user_agent=user_agent, seconds=seconds)


def find_access(where: Where) -> Access:
    """Find the access that a kubeconfig gives or, without one, the service account of this pod.

    Args:
        where: The cluster.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    if where is None:
        return ServiceAccount()
    context = Context((where,)) if isinstance(where, Path) else where
    # The official client supports exec plugins and OIDC. It takes 45 MiB, which a pod of the cluster saves.
    try:
        from webhook.cluster.api.kubeconfig import Kubeconfig  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"{context.source}: a kubeconfig needs the Python package {missing.name}, which the image does not have. "
            "Run this where gpu-topology is installed with pip"
        ) from None
    return Kubeconfig(context)


def checked_url(access: Access) -> str:
    """Return the address without a slash at its end.

    Raises:
        ConfigError: the address is none, or the proxy is of an unknown kind.
    """
    url = access.url
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"expected the URL of an API server such as https://10.0.0.1:6443, found {url}")
    if access.proxy and urlsplit(access.proxy).scheme not in ("http", "https"):
        scheme = urlsplit(access.proxy).scheme
        raise ConfigError(f"{url}: expected an HTTP proxy or none, found one of {scheme}. Add its host to NO_PROXY")
    return url.rstrip("/")


def _words(error: Exception) -> str:
    """Describe an error in one line. aiohttp quotes bytes that it could not read, which may be part of a Secret."""
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the connection ended before the answer did"
    if isinstance(error, aiohttp.ClientResponseError):
        return "what came is no HTTP"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        error = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    return " ".join(str(error).split()) or type(error).__name__


class _TooLongError(Exception):
    """Data above the size limit."""


async def _whole(response: aiohttp.ClientResponse, limit: int) -> bytes:
    if (response.content_length or 0) > limit:
        raise _TooLongError
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > limit:
            raise _TooLongError
        parts.append(part)
    return b"".join(parts)


async def _lines(response: aiohttp.ClientResponse, limit: int) -> AsyncGenerator[bytes, None]:
    """Yield the complete lines that are not empty. Text after the last line break counts as a line too."""
    parts, size = list[bytes](), 0
    async for chunk in response.content.iter_any():
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            if size + len(end) > limit:
                raise _TooLongError
            line = b"".join((*parts, end))
            parts, size = [], 0
            if line:
                yield line
        parts.append(rest)
        size += len(rest)
        if size > limit:
            raise _TooLongError
    if size:
        yield b"".join(parts)
