"""A webhook that looks at what exists while a pod is being bound: the pod, its claims, all slices, read live."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.control_plane.claims.drivers import VERSION, Manifest
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import request
from tests.control_plane.stand_in_webhook import running_webhook
from tests.programs.server.conftest import until

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

    def respond(asked: Manifest) -> Manifest:
        return {"allowed": observer.review(asked)}

    with running_webhook(directory, "observer", respond) as client:
        _register(control_plane, client)
        yield observer


def _register(control_plane: ControlPlane, client: dict[str, str]) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    webhook = {
        "name": "observer.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
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
