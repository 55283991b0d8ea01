"""Objects of any kind at the API server, by server-side apply that refuses unknown fields."""

import json
import ssl
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from tests.control_plane.control_plane import REQUEST_TIMEOUT_S, ControlPlane
from tests.programs.server.conftest import until

CUSTOM = ("cert-manager.io/v1", "monitoring.coreos.com/v1")
"""API versions that a bare API server does not know."""
WITHOUT_NAMESPACE = frozenset(
    {
        "ClusterQueue",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "DeviceClass",
        "DeviceTaintRule",
        "KWOKNodeClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "NodePool",
        "ResourceFlavor",
        "ResourceSlice",
        "Topology",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)


def request(
    control_plane: ControlPlane, method: str, path: str, *, kubeconfig: Path | None = None, **options: Any
) -> httpx.Response:
    """What the API server answers to the administrator, or to the user of ``kubeconfig``."""
    config = json.loads((kubeconfig or control_plane.kubeconfig).read_text())
    return httpx.request(
        method,
        f"{control_plane.url}{path}",
        headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}"} | options.pop("headers", {}),
        verify=_trust(control_plane.ca_file),
        trust_env=False,
        timeout=REQUEST_TIMEOUT_S,
        **options,
    )


@cache
def _trust(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority)


def apply(control_plane: ControlPlane, manifest: dict[str, Any], *, dry_run: bool = False) -> httpx.Response:
    """Create the object or change it; a field that the API server does not know is an error."""
    parameters = {"fieldManager": "kubectl", "fieldValidation": "Strict", "force": "true"}
    return request(
        control_plane,
        "PATCH",
        path_of(manifest),
        params=parameters | ({"dryRun": "All"} if dry_run else {}),
        headers={"Content-Type": "application/apply-patch+yaml"},
        content=json.dumps(manifest),
    )


def applied(control_plane: ControlPlane, manifest: dict[str, Any]) -> None:
    """The object is there; a webhook that does not answer yet is asked again."""
    answers = list[httpx.Response]()

    def is_taken() -> bool:
        answers[:] = [apply(control_plane, manifest)]
        return answers[0].status_code in {httpx.codes.OK, httpx.codes.CREATED}

    try:
        until(is_taken, f"{manifest['kind']} {manifest['metadata']['name']}")
    except AssertionError as error:
        error.add_note(answers[0].text)
        raise


def find(control_plane: ControlPlane, manifest: dict[str, Any]) -> Any:
    """The object of this identity as it is now; None if there is none."""
    answer = request(control_plane, "GET", path_of(manifest))
    assert answer.status_code in {200, 404}, answer.text
    return answer.json() if answer.status_code == 200 else None


def path_of(manifest: dict[str, Any]) -> str:
    """Where the object is at the API server."""
    version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = "" if kind in WITHOUT_NAMESPACE else f"/namespaces/{metadata['namespace']}"
    plural = f"{kind.lower()}s".replace("ys", "ies").replace("sss", "sses")
    return f"{root}{place}/{plural}/{metadata['name']}"
