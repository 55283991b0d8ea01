"""People with a token and nothing else, and those who reach the webhook itself."""

import json
import socket
import ssl
from dataclasses import dataclass
from typing import Any

import httpx

from tests.control_plane.control_plane import ControlPlane

PATIENCE_S = 120.0
"""Longer than the API server waits for any webhook."""


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        status: Of HTTP.
        text: The body.
    """

    status: int
    text: str

    @property
    def body(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)

    @property
    def short(self) -> str:
        """The status, and the beginning of a message if there is one."""
        try:
            message = str(self.body.get("message", ""))
        except (ValueError, AttributeError):
            message = self.text
        return f"{self.status} {message[:100]}".strip()


class Person:
    """Somebody at the API server."""

    def __init__(self, control_plane: ControlPlane, token: str) -> None:
        self._client = httpx.Client(
            base_url=control_plane.url,
            verify=ssl.create_default_context(cafile=control_plane.ca_file),
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE_S,
            trust_env=False,
        )

    def close(self) -> None:
        """End all connections."""
        self._client.close()

    def asks(self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **query: str) -> Answer:
        """One request; ``body`` is JSON already if it is text."""
        content = body if isinstance(body, str) else json.dumps(body)
        answer = self._client.request(
            method, path, content=content, params=query, headers={"Content-Type": kind} if body is not None else {}
        )
        return Answer(answer.status_code, answer.text)

    def creates(self, namespace: str, pod: Any, *, dry_run: bool = False) -> Answer:
        """A pod."""
        query = {"dryRun": "All"} if dry_run else {}
        return self.asks("POST", f"/api/v1/namespaces/{namespace}/pods", pod, **query)


@dataclass(frozen=True)
class Neighbour:
    """Somebody in the network of the webhook, without credentials.

    Attributes:
        port: Of the reviews.
        ops_port: Of probes and metrics.
        authority: PEM; whoever wants can do without.
    """

    port: int
    ops_port: int
    authority: bytes

    def tls(self) -> ssl.SSLSocket:
        """A connection to the port of the reviews."""
        context = ssl.create_default_context(cadata=self.authority.decode())
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        return context.wrap_socket(plain, server_hostname="127.0.0.1")

    def silent(self) -> socket.socket:
        """A connection to that port on which nothing is said, not even in TLS."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def plain(self) -> socket.socket:
        """A connection to the other port."""
        return socket.create_connection(("127.0.0.1", self.ops_port), timeout=PATIENCE_S)
