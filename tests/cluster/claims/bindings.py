"""A webhook that looks at what exists while a pod is being bound: the pod, its claims, all slices, read live."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from certs.issue import issue
from tests.cluster.claims.drivers import VERSION, Manifest
from tests.cluster.control_plane import CERTIFICATE_LIFETIME, ControlPlane
from tests.cluster.manifests import request
from tests.server.conftest import until

OBSERVED = {"claims.example.com/observed": "true"}
"""Labels of namespaces whose Bindings are looked at."""


@dataclass(frozen=True)
class State:
    """What the API server had.

    Attributes:
        user: Who sent the Binding; empty: there was none.
        pod: As it was.
        claims: Of the namespace.
        slices: All.
    """

    user: str
    pod: Manifest
    claims: list[Manifest]
    slices: list[Manifest]


@dataclass
class Observer:
    """What was there at the Binding of each pod.

    Attributes:
        denied: Names of pods whose Bindings are refused.
    """

    control_plane: ControlPlane
    denied: set[str] = field(default_factory=set)
    _seen: dict[tuple[str, str], list[State]] = field(default_factory=dict)

    def bindings(self, namespace: str, name: str) -> list[State]:
        """One for each Binding of the pod so far."""
        return list(self._seen.get((namespace, name), ()))

    def binding(self, namespace: str, name: str) -> State:
        """The first Binding of the pod, which is waited for."""
        until(lambda: bool(self.bindings(namespace, name)), f"the Binding of {name}: {self._why(namespace, name)}")
        return self.bindings(namespace, name)[0]

    def look(self, namespace: str, name: str, user: str = "") -> State:
        """What the API server has now."""
        claims = self._get(f"/apis/{VERSION}/namespaces/{namespace}/resourceclaims")["items"]
        slices = self._get(f"/apis/{VERSION}/resourceslices")["items"]
        return State(user, self._get(f"/api/v1/namespaces/{namespace}/pods/{name}"), claims, slices)

    def review(self, asked: Manifest) -> bool:
        """Remember what there is; returns whether the Binding is allowed."""
        namespace, name = asked["namespace"], asked["name"]
        state = self.look(namespace, name, asked["userInfo"]["username"])
        self._seen.setdefault((namespace, name), []).append(state)
        return name not in self.denied

    def _get(self, path: str) -> Any:
        answer = request(self.control_plane, "GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def _why(self, namespace: str, name: str) -> str:
        status = self._get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]
        return "; ".join(str(each.get("message", "")) for each in status.get("conditions", ()))


@contextmanager
def observing(control_plane: ControlPlane, directory: Path) -> Iterator[Observer]:
    """Registered for namespaces with the labels ``OBSERVED``, until the end."""
    observer = Observer(control_plane)
    bundle = issue(("127.0.0.1",), now=datetime.now(UTC), lifetime=CERTIFICATE_LIFETIME)
    for file, content in (("observer.crt", bundle.certificate), ("observer.key", bundle.key)):
        (directory / file).touch(mode=0o600)
        (directory / file).write_bytes(content)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "observer.crt", directory / "observer.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(observer)) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, name="observer")
        thread.start()
        try:
            _register(control_plane, f"https://127.0.0.1:{server.server_port}/", bundle.authority)
            yield observer
        finally:
            server.shutdown()
            thread.join()


def _register(control_plane: ControlPlane, url: str, authority: bytes) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    webhook = {
        "name": "observer.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": OBSERVED},
        "sideEffects": "None",
        "timeoutSeconds": 30,
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "observer"},
        "webhooks": [webhook],
    }
    answer = request(control_plane, "POST", path, json=body)
    assert answer.status_code == 201, answer.text


def _handler(observer: Observer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            allowed = observer.review(review["request"])
            response = {"uid": review["request"]["uid"], "allowed": allowed}
            body = json.dumps(review | {"response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # the name of the base class
            """Says nothing."""

    return Handler
