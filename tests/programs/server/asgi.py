"""Drives the ASGI application of the reviews without a socket."""

import asyncio
import json
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import IO, Any

from tests.decisions.claims.kept import KeptClaims
from tests.judge import policy
from tests.pods import Manifest
from webhook.cluster.state import Claims, Pods, State
from webhook.decisions.configuration import Config
from webhook.programs.http.messages import Application
from webhook.programs.server.app import create_app
from webhook.programs.server.counts import Counts
from webhook.programs.server.events import Events, NoEvents
from webhook.programs.server.log import ReviewLog


class NoPods:
    """A cluster without pods."""

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:  # noqa: ARG002
        return None

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:  # noqa: ARG002
        return []


NOWHERE = NoPods()
NO_EVENTS = NoEvents()
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def response(self) -> Manifest:
        """The ``response`` of the review."""
        return dict(json.loads(self.body)["response"])


@dataclass
class App:
    """The application, and what it counts."""

    answers: Application
    counts: Counts


def review(pod: Any, namespace: str = "ml-workloads", **request: Any) -> bytes:
    """A review of the creation of ``pod``."""
    return json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": UID,
                "operation": "CREATE",
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "namespace": namespace,
                "object": pod,
                **request,
            },
        }
    ).encode()


def binding_review(binding: Any, name: str = "train", **request: Any) -> bytes:
    """A review of the creation of ``binding`` for the pod ml-workloads/``name``."""
    fields = {"resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "binding", "name": name}
    return review(binding, **{**fields, **request})


def application(
    state: State,
    log: IO[bytes],
    pods: Pods = NOWHERE,
    events: Events = NO_EVENTS,
    *,
    known_claims: Claims | None = None,
    **settings: Any,
) -> App:
    """The application with what is the test's."""
    counts = Counts(lambda: events.lost)
    known = known_claims or KeptClaims()
    answers = create_app(Config(), policy(**settings), state, ReviewLog(log.fileno()), counts, pods, events, known)
    return App(answers, counts)


def post(app: App, *chunks: bytes, path: str = "/mutate/pods", method: str = "POST", ends: bool = True) -> Answer:
    """One request, its body in as many messages as there are chunks; unless it ``ends`` the client goes away."""
    return asyncio.run(posted(app, *chunks, path=path, method=method, ends=ends))


async def posted(
    app: App, *chunks: bytes, path: str = "/mutate/pods", method: str = "POST", ends: bool = True
) -> Answer:
    """The request of :func:`post`, beside others."""
    messages: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": chunk, "more_body": not ends or index < len(chunks) - 1}
        for index, chunk in enumerate(chunks)
    ]
    messages.append({"type": "http.disconnect"})
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return messages.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}
    await app.answers(scope, receive, send)
    return Answer(
        sent[0]["status"], dict(sent[0]["headers"]), b"".join(message.get("body", b"") for message in sent[1:])
    )
