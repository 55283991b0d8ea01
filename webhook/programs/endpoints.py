"""The plain HTTP port of programs without a web server: ``/metrics``, ``/healthz`` and ``/readyz``."""

import json
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

from prometheus_client.core import Metric

from webhook.programs.exposition import Exposition
from webhook.words.errors import GpuTopologyError

CLIENT_SECONDS = 10.0


class Endpoints:
    """The answers of the HTTP port of one program. They are made in other threads than the program's own.

    Args:
        families: Makes the metrics for a scrape.
        illness: Returns why the program should be replaced; empty when it is well.
        failure: Returns why the program is not ready; empty when it is.
        bug: Logs the traceback of an exception in an answer.
    """

    def __init__(
        self,
        families: Callable[[], Iterator[Metric]],
        *,
        illness: Callable[[], str],
        failure: Callable[[], str],
        bug: Callable[[str], None],
    ) -> None:
        self._exposition = Exposition(families)
        self._illness = illness
        self._failure = failure
        self.bug = bug

    def answer(self, path: str, accept: str) -> tuple[HTTPStatus, str, bytes]:
        """Return status, content type and body for a GET of ``path``."""
        match path.partition("?")[0]:
            case "/metrics":
                return HTTPStatus.OK, *self._exposition.answer(accept)
            case "/healthz":
                return _verdict(self._illness(), "ok")
            case "/readyz":
                return _verdict(self._failure(), "ready")
        return _json(HTTPStatus.NOT_FOUND, {"error": "expected /metrics, /healthz or /readyz"})


def serve(endpoints: Endpoints, host: str, port: int) -> None:
    """Serve ``endpoints`` at ``host`` and ``port`` in separate threads, until the program ends.

    Raises:
        GpuTopologyError: the address is taken or cannot be used.
    """
    try:
        server = _Server(endpoints, host, port)
    except OSError as error:
        raise GpuTopologyError(
            f"cannot listen on {host} port {port}: {error.strerror}. Choose others with --host and --port"
        ) from None
    threading.Thread(target=server.serve_forever, name="endpoints", daemon=True).start()


class _Server(ThreadingTCPServer):
    """The HTTP server. It is no ``HTTPServer``, which looks up this machine's name in the DNS before it listens."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, endpoints: Endpoints, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.endpoints = endpoints
        super().__init__((host, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the signature of the base
        if not isinstance(sys.exc_info()[1], OSError):  # a client has closed its connection
            self.endpoints.bug(traceback.format_exc())


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
        """Log nothing: requests of probes are not worth a line."""


def _verdict(reason: str, well: str) -> tuple[HTTPStatus, str, bytes]:
    return _json(HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK, {"status": reason or well})


def _json(status: HTTPStatus, body: dict[str, str]) -> tuple[HTTPStatus, str, bytes]:
    return status, "application/json", json.dumps(body).encode()
