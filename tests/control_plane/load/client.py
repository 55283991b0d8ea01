"""Requests to the API server at a given rate, whatever becomes of them, from a process of its own."""

import itertools
import json
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from multiprocessing import get_context
from urllib.parse import urlsplit

from tests.control_plane.control_plane import ControlPlane

TIMEOUT_S = 30.0
THREADS = 24
"""Connections, each with one request at a time."""


@dataclass(frozen=True)
class Request:
    """A POST.

    Attributes:
        path: At the API server.
        body: JSON.
        wanted: Text that the answer must have, besides the status 201.
    """

    path: str
    body: bytes
    wanted: bytes = b""


@dataclass(frozen=True)
class Sent:
    """What became of all requests.

    Attributes:
        seconds: From the first request to the last answer.
        latencies: Sorted, in seconds, each from when the request was due: one that was sent late because others took
            their time has waited as well.
        faults: Of answers that were not as wanted.
    """

    seconds: float
    latencies: tuple[float, ...]
    faults: tuple[str, ...]

    @property
    def per_second(self) -> float:
        """Requests."""
        return len(self.latencies) / self.seconds


def send(control_plane: ControlPlane, requests: list[Request], rate: float) -> Sent:
    """Send them in order as the administrator, ``rate`` a second; infinite: as fast as answers come."""
    token = json.loads(control_plane.kubeconfig.read_text())["users"][0]["user"]["token"]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as another:
        return another.submit(_send, control_plane.url, str(control_plane.ca_file), token, requests, rate).result()


def _send(url: str, ca_file: str, token: str, requests: list[Request], rate: float) -> Sent:
    place = urlsplit(url)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    context = ssl.create_default_context(cafile=ca_file)
    numbers = itertools.count()
    latencies: list[float] = []
    faults: list[str] = []

    def connect() -> HTTPSConnection:
        connection = HTTPSConnection(place.hostname or "", place.port, context=context, timeout=TIMEOUT_S)
        connection.connect()
        return connection

    connections = [connect() for _ in range(THREADS)]
    begin = time.monotonic()

    def go(connection: HTTPSConnection) -> None:
        # One call of next() is not interrupted by other threads.
        while (number := next(numbers)) < len(requests):
            due = begin + number / rate
            time.sleep(max(0.0, due - time.monotonic()))
            if fault := _fault_of(connection, requests[number], headers):
                faults.append(fault)
            latencies.append(time.monotonic() - (due if rate < float("inf") else begin))

    _in_threads(go, connections)
    return Sent(time.monotonic() - begin, tuple(sorted(latencies)), tuple(faults))


def _fault_of(connection: HTTPSConnection, request: Request, headers: dict[str, str]) -> str:
    try:
        connection.request("POST", request.path, body=request.body, headers=headers)
        answer = connection.getresponse()
        said = answer.read()
    except (OSError, HTTPException) as error:
        connection.close()  # the next request opens it again
        return repr(error)
    if answer.status != 201:
        return f"{answer.status}: {said[:300].decode(errors='replace')}"
    return "" if request.wanted in said else f"the answer lacks {request.wanted.decode()}"


def _in_threads(go: Callable[[HTTPSConnection], None], connections: list[HTTPSConnection]) -> None:
    threads = [threading.Thread(target=go, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in connections:
        connection.close()
