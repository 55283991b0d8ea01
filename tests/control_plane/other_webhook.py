"""A mutating webhook of others: it adds a container to each pod that it is asked about, as service meshes do."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.control_plane.stand_in_webhook import running_webhook

ADDED = "mesh-proxy"
ADDED_INIT = "mesh-init"


@contextmanager
def running_other_webhook(directory: Path, name: str, *, adds_init: bool = False) -> Iterator[dict[str, Any]]:
    """Gives its MutatingWebhookConfiguration of this name, for the pods of namespaces that have opted in.

    Args:
        directory: For its files.
        name: Of the configuration.
        adds_init: Whether it puts an init container ahead of all others, in place of a container behind them.
    """
    with running_webhook(directory, "other", _put_init_container_first if adds_init else _add_container) as client:
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
    return _added(request, "containers", "-", ADDED)


def _put_init_container_first(request: dict[str, Any]) -> dict[str, Any]:
    return _added(request, "initContainers", "0", ADDED_INIT)


def _added(request: dict[str, Any], field: str, place: str, name: str) -> dict[str, Any]:
    response: dict[str, Any] = {"allowed": True}
    there = request["object"]["spec"].get(field)
    if name not in [each["name"] for each in there or ()]:
        added = {"name": name, "image": "x"}
        path, value = (f"/spec/{field}/{place}", added) if there else (f"/spec/{field}", [added])
        patch = [{"op": "add", "path": path, "value": value}]
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
    return response
