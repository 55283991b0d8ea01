"""The plain HTTP port of the agent: ``/metrics``, ``/healthz`` and ``/readyz``."""

import json
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

from webhook import __version__
from webhook.agent.log import AgentLog
from webhook.agent.metrics import families
from webhook.agent.status import Status
from webhook.exposition import Exposition
from webhook.model.errors import GpuTopologyError

STUCK_SECONDS = 300.0
"""A round that takes longer will not end: a call into a driver that hangs. A new process may get through."""
CLIENT_SECONDS = 10.0


class Endpoints:
    """Answers about one agent.

    Args:
        node: The name of its node.
        status: Says how the agent is doing.
        clock: The clock of the status.
        is_alive: Says whether rounds are being made.
        log: Takes what goes wrong in an answer.
    """

    def __init__(
        self,
        node: str,
        status: Callable[[], Status],
        clock: Callable[[], float],
        is_alive: Callable[[], bool],
        log: AgentLog,
    ) -> None:
        self._status = status
        self._clock = clock
        self._is_alive = is_alive
        self._exposition = Exposition(lambda: families(status(), node=node, now=clock(), version=__version__))
        self.log = log

    def answer(self, path: str, accept: str) -> tuple[HTTPStatus, str, bytes]:
        """Status, content type and body for a GET."""
        match path.partition("?")[0]:
            case "/metrics":
                return HTTPStatus.OK, *self._exposition.answer(accept)
            case "/healthz":
                return _verdict(self._illness(), "ok")
            case "/readyz":
                return _verdict(self._status().failure, "ready")
        return _json(HTTPStatus.NOT_FOUND, {"error": "expected /metrics, /healthz or /readyz"})

    def _illness(self) -> str:
        since = self._status().busy_since
        if not self._is_alive():
            return "no more rounds are made"
        if since is not None and self._clock() - since > STUCK_SECONDS:
            return f"a round takes longer than {STUCK_SECONDS:.0f} s"
        return ""


def serve(endpoints: Endpoints, host: str, port: int) -> None:
    """Answer on ``host`` and ``port`` in threads of their own, until the program ends.

    Raises:
        GpuTopologyError: the address cannot be listened on.
    """
    try:
        server = _Server(endpoints, host, port)
    except OSError as error:
        raise GpuTopologyError(
            f"cannot listen on {host} port {port}: {error.strerror}. Choose others with --host and --port"
        ) from None
    threading.Thread(target=server.serve_forever, name="endpoints", daemon=True).start()


class _Server(ThreadingTCPServer):
    """Not ``HTTPServer``, which asks the DNS for the name of this machine before it listens."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, endpoints: Endpoints, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.endpoints = endpoints
        super().__init__((host, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the signature of the base
        if not isinstance(sys.exc_info()[1], OSError):  # clients may go when they like
            self.endpoints.log.bug(traceback.format_exc())


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CLIENT_SECONDS
    server_version = "gpu-topology"
    sys_version = ""

    def do_GET(self) -> None:
        status, content_type, body = self.server.endpoints.answer(self.path, self.headers.get("Accept", ""))
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Probes are not worth a line."""


def _verdict(reason: str, well: str) -> tuple[HTTPStatus, str, bytes]:
    return _json(HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK, {"status": reason or well})


def _json(status: HTTPStatus, body: dict[str, str]) -> tuple[HTTPStatus, str, bytes]:
    return status, "application/json", json.dumps(body).encode()
