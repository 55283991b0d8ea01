"""The plain HTTP port of programs that serve no reviews: ``/metrics``, ``/healthz`` and ``/readyz``."""

import json
import traceback
from collections.abc import Callable, Iterator
from http import HTTPStatus

from prometheus_client.core import Metric

from webhook.programs.exposition import Exposition
from webhook.programs.http.messages import Receive, Scope, Send, send_answer
from webhook.programs.http.server import BACKLOG, Limits, Server, ServerThread, bind


class Endpoints:
    """The answers of the HTTP port of one program. They are made in another thread than the program's own.

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
    """Serve ``endpoints`` at ``host`` and ``port`` in a separate thread, until the program ends.

    Raises:
        GpuTopologyError: the address is taken or cannot be used.
    """
    bound = bind(host, port, remedy="Choose others with --host and --port")
    bound.listen(BACKLOG)  # so that a probe waits for the thread, and is not refused
    ServerThread(Server(_Application(endpoints), bound, Limits())).start()


class _Application:
    """The ASGI application of the port."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        status, kind, body = self._answer(scope)
        await send_answer(send, status, (b"content-type", kind.encode()), body)

    def _answer(self, scope: Scope) -> tuple[HTTPStatus, str, bytes]:
        if scope["method"] != "GET":
            return _json(HTTPStatus.METHOD_NOT_ALLOWED, {"error": f"expected GET, found {scope['method']}"})
        accept = next((value for name, value in scope["headers"] if name == b"accept"), b"")
        try:
            return self._endpoints.answer(scope["path"], accept.decode("latin-1"))
        except Exception:  # a bug of ours, which must not end the port
            self._endpoints.bug(traceback.format_exc())
            return _json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "see the log"})


def _verdict(reason: str, well: str) -> tuple[HTTPStatus, str, bytes]:
    return _json(HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK, {"status": reason or well})


def _json(status: HTTPStatus, body: dict[str, str]) -> tuple[HTTPStatus, str, bytes]:
    return status, "application/json", json.dumps(body).encode()
