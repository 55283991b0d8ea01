"""The guard of the page: only pages of this server, at its own address, with the token of its owner get answers.

Another page in the browser of the owner cannot read answers, because there are no CORS headers. It could read them
through a name that is made to point to this machine (DNS rebinding), so the Host header has to be ours. Other users of
the machine, and other programs, lack the token.
"""

import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from webhook.insight.page.document import POLICY

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_OPEN = frozenset(("/", "/assets/page.js", "/assets/page.css", "/assets/icon.svg"))
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


class Guard:
    """An ASGI application that refuses requests before they reach another application.

    Args:
        application: The application that answers.
        hosts: Values of the Host header that are ours.
        token: The token of the owner.
    """

    def __init__(self, application: Application, hosts: Iterable[str], token: str) -> None:
        self._application = application
        self._hosts = frozenset(host.encode() for host in hosts)
        self._token = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one ASGI request, or passes it to the application."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        status = self._refusal(scope) if scope["type"] == "http" else 403

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = {name for name, _ in _HEADERS}
                others = [each for each in message.get("headers", ()) if each[0].lower() not in ours]
                message["headers"] = [*others, *_HEADERS]
            await send(message)

        if not status:
            await self._application(scope, receive, with_headers)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        else:
            headers = [
                (b"content-length", b"0"),
                (b"connection", b"close"),
                *([(b"allow", b"GET")] if status == 405 else ()),
            ]
            await with_headers({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

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
