"""A small API server that also takes what the planner writes: patches of pods, their conditions, a Lease, Events."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from tests.cluster.api.api_server import ApiServer, Manifest
from tests.cluster.api.stand_in import Line, Received, status
from webhook.cluster.kinds import PODS, WHOLE_NODES, config_maps, leases
from webhook.words import names

OWN = "gpu-topology"
NAMESPACES = "/api/v1/namespaces"
CONFIG_MAPS, LEASES = config_maps(OWN).path, leases(OWN).path
LEASE = f"{LEASES}/{names.PLANNER_LEASE}"
GATE = names.PLACE_GATE
Act = Callable[[Received, Line], bool]


def pod(name: str, *, uid: str = "", gates: tuple[str, ...] = (GATE,), **metadata: Any) -> Manifest:
    """A pod as the webhook leaves it: injected, and behind gates."""
    return {
        "metadata": {
            "uid": uid or f"uid-of-{name}",
            "creationTimestamp": "2026-01-15T09:30:00Z",
            "labels": {names.PLACEMENT: "waiting"},
            "annotations": {names.INJECTED: "{}"},
            **metadata,
        },
        "spec": {"containers": [{"name": "main"}], "schedulingGates": [{"name": gate} for gate in gates]},
        "status": {"phase": "Pending"},
    }


@dataclass
class PlacingServer(ApiServer):
    """:class:`tests.cluster.api.api_server.ApiServer` with writes.

    Attributes:
        before: Asked before each request that is no list and no watch; true if it has answered, or said nothing.
        events: What was told.
        writes: Method and path of each write that came.
    """

    page: int = 100
    before: Act = lambda *_: False
    events: list[Manifest] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for path in (NAMESPACES, WHOLE_NODES.path, CONFIG_MAPS, LEASES, PODS.path):
            self.collection(path)

    def put_pod(self, name: str, manifest: Manifest) -> None:
        self.put(PODS.path, name, **json.loads(json.dumps(manifest)))

    def pod(self, name: str) -> Manifest:
        return self.collection(PODS.path).objects[name]

    @property
    def lease(self) -> Manifest:
        """The spec of the planner's Lease; empty if there is none."""
        found = self.collection(LEASES).objects.get(names.PLANNER_LEASE)
        return dict(found["spec"]) if found else {}

    async def turn(self, request: Received, line: Line) -> None:
        path = request.target.partition("?")[0]
        if "limit=" in request.target or "watch=1" in request.target:
            await super().turn(request, line)
            return
        if request.method != "GET":
            self.writes.append(f"{request.method} {path}")
        if self.before(request, line):
            return
        if code := self.refuse(request.target):
            line.say(status(code, "no"), f"{code} No")
        elif path.endswith("/events"):
            self.events.append(json.loads(request.body))
            line.say(request.body, "201 Created")
        elif path.startswith(LEASES) and request.method != "GET":
            self._write_lease(request, line)
        elif path.startswith(NAMESPACES) and "/pods/" in path:
            self._one_pod(request, path, line)
        else:
            await super().turn(request, line)

    def _write_lease(self, request: Received, line: Line) -> None:
        wanted = json.loads(request.body)
        present = self.collection(LEASES).objects.get(names.PLANNER_LEASE)
        version = present["metadata"]["resourceVersion"] if present else None
        if version != wanted["metadata"].get("resourceVersion"):
            line.say(status(409, "the object has been modified"), "409 Conflict")
            return
        self.put(LEASES, names.PLANNER_LEASE, spec=wanted["spec"])
        line.say(json.dumps(self.collection(LEASES).objects[names.PLANNER_LEASE]).encode())

    def _one_pod(self, request: Received, path: str, line: Line) -> None:
        namespace, _, rest = path.removeprefix(f"{NAMESPACES}/").partition("/pods/")
        name = f"{namespace}/{rest.removesuffix('/status')}"
        present = self.collection(PODS.path).objects.get(name)
        if present is None:
            missing = status(404, f"{name} not found", details={"kind": "pods", "name": name})
            line.say(missing, "404 Not Found")
            return
        if request.method == "PATCH":
            code, words, changed = _patched(request, present)
            if changed is None:
                line.say(status(code, words), f"{code} No")
                return
            if changed != present:
                self.put_pod(name, changed)
        line.say(json.dumps(self.pod(name)).encode())


def _patched(request: Received, present: Manifest) -> tuple[int, str, Manifest | None]:
    """The pod after the patch; or the code and the words with which the API server refuses it."""
    patch = json.loads(request.body)
    if request.headers["content-type"] == "application/json-patch+json":
        try:
            return 200, "", jsonpatch.apply_patch(present, patch)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
            return 422, "the server rejected our request due to an error in our request", None
    if patch["metadata"]["uid"] != present["metadata"]["uid"]:
        return 409, "Precondition failed: UID in precondition", None
    changed = json.loads(json.dumps(present))
    conditions = {one["type"]: one for one in changed["status"].setdefault("conditions", [])}
    for one in patch["status"]["conditions"]:
        conditions[one["type"]] = {**conditions.get(one["type"], {}), **one}
    changed["status"]["conditions"] = list(conditions.values())
    return 200, "", changed
