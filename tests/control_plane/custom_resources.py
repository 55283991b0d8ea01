"""Kinds of other projects at the API server, without their controllers and without a schema."""

from http import HTTPStatus

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import apply, request
from tests.programs.server.conftest import until


def serve(control_plane: ControlPlane, api: str, kind: str, plural: str) -> None:
    """The API server has such objects from now on.

    Args:
        control_plane: Where.
        api: Group and version.
        kind: As in manifests.
        plural: As in paths.
    """
    group, _, version = api.partition("/")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": APPROVED},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }
    assert apply(control_plane, definition).status_code in {HTTPStatus.OK, HTTPStatus.CREATED}
    until(lambda: request(control_plane, "GET", f"/apis/{api}/{plural}").status_code == HTTPStatus.OK, plural)


APPROVED = {"api-approved.kubernetes.io": "unapproved, a test"}
"""The API server wants it of groups of Kubernetes itself."""
