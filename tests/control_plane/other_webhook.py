"""A mutating webhook of others: it adds a container to each pod that it is asked about, as service meshes do."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.control_plane.stand_in_webhook import running_webhook

ADDED = "mesh-proxy"


@contextmanager
def running_other_webhook(directory: Path, name: str) -> Iterator[dict[str, Any]]:
    """Gives its MutatingWebhookConfiguration of this name, for the pods of namespaces that have opted in."""
    with running_webhook(directory, "other", _add_container) as client:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        webhook = {
            "name": "other.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"gpu.topology/injection": "enabled"}},
            "sideEffects": "None",
        }
        yield {"metadata": {"name": name}, "webhooks": [webhook]}


def _add_container(request: dict[str, Any]) -> dict[str, Any]:
    response: dict[str, Any] = {"allowed": True}
    if ADDED not in [each["name"] for each in request["object"]["spec"]["containers"]]:
        patch = [{"op": "add", "path": "/spec/containers/-", "value": {"name": ADDED, "image": "x"}}]
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
    return response
