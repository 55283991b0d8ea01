"""The objects of certificate management at the stand-in for the API server: a Secret, Leases, a registration.

Every write is accepted. There is one writer at a time, so no write conflicts.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NAME = "gpu-topology-webhook"
SECRET = "gpu-topology-webhook-tls"  # noqa: S105 - a name
"""The name of the Secret, which exists from the start and is empty, as the chart makes it."""
PLACE = re.compile(rf"({CONFIGURATIONS}|/api(?:s/coordination\.k8s\.io)?/v1/namespaces/[^/]+/(?:secrets|leases))(/.+)?")
MISSING = {
    "kind": "Status",
    "status": "Failure",
    "message": "there is no such object",
    "code": 404,
    "details": {"kind": "objects"},  # shows the webhook that the API server itself answers
}

Object = dict[str, Any]


class Objects:
    """The objects by their paths.

    Args:
        namespace: The namespace of the webhook.
        authority: The file for the certificate of the authority in the Secret.
    """

    def __init__(self, namespace: str, authority: Path | None) -> None:
        webhook = {"name": "pods.gpu.topology", "clientConfig": {"service": {"namespace": namespace, "name": NAME}}}
        registration = {"metadata": {"name": NAME, "resourceVersion": "1"}, "webhooks": [webhook]}
        secret = {"metadata": {"name": SECRET, "resourceVersion": "1"}, "type": "gpu.topology/certificates"}
        self._objects: dict[str, Object] = {
            f"{CONFIGURATIONS}/{NAME}": registration,
            f"/api/v1/namespaces/{namespace}/secrets/{SECRET}": secret,
        }
        self._authority = authority
        self._version = 1

    def answer(self, method: str, target: str, body: Object) -> tuple[int, Object] | None:
        """Returns status and document, or None for a request that is not about certificates."""
        url = urlsplit(target)
        place = PLACE.fullmatch(url.path)
        if place is None:
            return None
        if method == "GET" and place[2] is None:
            if "=" not in parse_qs(url.query).get("labelSelector", [""])[0]:
                return None  # the Leases of agents, by a label without a value
            return 200, {"items": [each for path, each in self._objects.items() if path.startswith(f"{place[1]}/")]}
        path = f"{place[1]}/{body['metadata']['name']}" if place[2] is None else url.path
        if method == "GET":
            found = self._objects.get(path)
            return (200, found) if found is not None else (404, MISSING)
        self._version += 1
        before = self._objects.get(path, {}) if method == "PATCH" else {}
        stored = merged(merged(before, body), {"metadata": {"resourceVersion": str(self._version)}})
        self._objects[path] = stored
        if self._authority and "ca.crt" in stored.get("data", {}):
            self._authority.write_bytes(base64.b64decode(stored["data"]["ca.crt"]))
        return 200, stored


def merged(old: Object, patch: Object) -> Object:
    """Merges `patch` into `old`: mappings field by field, webhooks by their names, all other values as a whole."""
    found = dict(old)
    for name, value in patch.items():
        if name == "webhooks":
            patches = {each["name"]: each for each in value}
            found[name] = [merged(each, patches.get(each["name"], {})) for each in old.get(name, [])]
        elif isinstance(value, dict) and isinstance(old.get(name), dict):
            found[name] = merged(old[name], value)
        else:
            found[name] = value
    return found
