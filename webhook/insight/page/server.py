"""The server of the page, on the loopback interface, which runs until a signal comes.

Only pages of this server, at its own address, with the token of its owner get answers. Another page in the browser of
the owner cannot read answers, because there are no CORS headers. It could read them through a name that is made to
point to this machine (DNS rebinding), so the Host header has to be ours. Other users of the machine lack the token.
"""

import asyncio
import hmac
import secrets
import socket
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webhook.insight.page.following import Newest
from webhook.insight.page.markup import ASSETS, MOST_SHOWN, POLICY, asset, contents, detail, shell
from webhook.insight.page.view import View
from webhook.programs.http.server import Limits, Server, bind

LOOPBACK = "127.0.0.1"
LIMITS = Limits(header_bytes=64 * 1024, request_seconds=60)
"""Limits of connections: every user of the machine can open some."""
_QUERY_LIMIT = 1024
_TOKEN_BYTES = 32
_HTML = "text/html; charset=utf-8"
_OPEN = frozenset({"/", *(f"/assets/{name}" for name in ASSETS)})
"""Paths whose contents say nothing about the cluster, so that they need no token."""
_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_FROM_OURSELVES = frozenset((b"same-origin", b"none"))
"""Values of Sec-Fetch-Site for our own page and for a person (W3C, "Fetch Metadata Request Headers")."""


class Place(NamedTuple):
    """The address of the page, and the token that opens it."""

    bound: socket.socket
    token: str

    @property
    def port(self) -> int:
        """The port of the socket."""
        return int(self.bound.getsockname()[1])

    @property
    def url(self) -> str:
        """The URL for the browser. Browsers do not send the part after the #, so no log and no other page gets it."""
        return f"http://{LOOPBACK}:{self.port}/#token={self.token}"


def find_place(port: int) -> Place:
    """Returns a bound port of the loopback interface with a new token.

    Args:
        port: The port; 0: any port that is free.

    Raises:
        GpuTopologyError: the port is taken.
    """
    bound = bind(LOOPBACK, port, remedy="Choose another one with --port")
    return Place(bound, secrets.token_urlsafe(_TOKEN_BYTES))


def create_app(newest: Newest) -> Starlette:
    """Returns the application, without any protection: :class:`Guard` protects it."""
    turn = asyncio.Lock()

    def page(_: Request) -> Response:
        return Response(shell(), media_type=_HTML)

    def file(request: Request) -> Response:
        name = request.path_params["name"]
        return Response(asset(name), media_type=ASSETS[name]) if name in ASSETS else Response(status_code=404)

    async def overview(request: Request) -> Response:
        query = request.query_params.get("q", "")[:_QUERY_LIMIT]
        async with turn:
            if newest.known is None:
                return Response(status_code=204)
            version = f'"{newest.version}-{hash(query):x}"'
            if request.headers.get("if-none-match") == version:
                return Response(status_code=304, headers={"ETag": version})
            known, colours, standing = newest.known, newest.colours, newest.standing
            text = await asyncio.to_thread(lambda: contents(View(known.overview, colours, query, MOST_SHOWN), standing))
        return Response(text, media_type=_HTML, headers={"ETag": version})

    async def one(request: Request) -> Response:
        key = request.query_params.get("key", "")[:_QUERY_LIMIT]
        async with turn:
            known = newest.known
            found = await asyncio.to_thread(detail, known, key) if known else None
        return Response(found.markup, media_type=_HTML) if found else Response(status_code=404)

    routes = (("/", page), ("/assets/{name}", file), ("/overview", overview), ("/detail", one))
    return Starlette(routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in routes])


class Guard:
    """An ASGI application that refuses requests before they reach another application.

    Args:
        application: The application that answers.
        place: The address of the page, and its token.
    """

    def __init__(self, application: ASGIApp, place: Place) -> None:
        self._application = application
        # What a browser of this machine sends.
        self._hosts = frozenset(f"{name}:{place.port}".encode() for name in (LOOPBACK, "localhost"))
        self._token = f"Bearer {place.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one ASGI request, or passes it to the application."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = {name for name, _ in _HEADERS}
                others = [each for each in message.get("headers", ()) if each[0].lower() not in ours]
                message["headers"] = [*others, *_HEADERS]
            await send(message)

        if status := self._refusal(scope):
            headers = {"connection": "close"} | ({"allow": "GET"} if status == 405 else {})
            await Response(status_code=status, headers=headers)(scope, receive, with_headers)
        else:
            await self._application(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> int:
        """Returns the status of a refusal; 0 if the request may pass."""
        if _header(scope, b"host") not in self._hosts:
            return 421  # RFC 9110, "Misdirected Request"
        if scope["method"] != "GET":
            return 405
        sites = {value for key, value in scope["headers"] if key == b"sec-fetch-site"}
        if not sites <= _FROM_OURSELVES and scope["path"] != "/":
            return 403
        said = _header(scope, b"authorization")
        return 0 if scope["path"] in _OPEN or hmac.compare_digest(said, self._token) else 403


def _header(scope: Scope, name: bytes) -> bytes:
    """Returns the value of a header; empty if there is no such header, or more than one."""
    found: list[bytes] = [value for key, value in scope["headers"] if key == name]
    return found[0] if len(found) == 1 else b""


class _Server(Server):
    capture_signals = uvicorn.Server.capture_signals


async def serve(place: Place, newest: Newest, work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Serves the page until SIGINT or SIGTERM.

    Args:
        place: The address of the page.
        newest: The newest state of the cluster.
        work: Tasks that run beside the server. An exception of one of them ends everything.
    """
    server = _Server(Guard(create_app(newest), place), place.bound, LIMITS)
    tasks = [asyncio.create_task(each) for each in work]
    serving = asyncio.create_task(server.serve())
    try:
        await asyncio.wait([serving, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        server.should_exit = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await serving
