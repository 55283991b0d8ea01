"""Claims, templates and pods with claims, as users write them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.control_plane.claims.drivers import GPU_CLASS, VERSION, Manifest

ADMIN_ACCESS = {"resource.kubernetes.io/admin-access": "true"}
"""Labels of a namespace in which claims may ask for the administrator's access."""


def exactly(
    name: str = "gpus",
    count: int = 1,
    *,
    device_class: str = GPU_CLASS,
    cel: str = "",
    capacity: Mapping[str, str] | None = None,
    **fields: Any,
) -> Manifest:
    """A request of a claim.

    Args:
        name: Of the request.
        count: Devices.
        device_class: Their class.
        cel: What they must fulfil; empty: nothing.
        capacity: How much of each, where devices are shared.
        fields: More of the request, such as ``adminAccess``.
    """
    return {"name": name, "exactly": _wish(count, device_class, cel, capacity) | fields}


def first_available(alternatives: Iterable[tuple[str, int, str]], name: str = "gpus") -> Manifest:
    """A request with alternatives (name, count, CEL), the best first."""
    wishes = [{"name": each} | _wish(count, GPU_CLASS, cel, None) for each, count, cel in alternatives]
    return {"name": name, "firstAvailable": wishes}


def claim(name: str, *requests: Manifest, **devices: Any) -> Manifest:
    """A ResourceClaim; one card if nothing is requested. ``devices`` adds ``constraints`` or ``config``."""
    return {
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": _spec(requests, devices),
    }


def template(name: str, *requests: Manifest, **devices: Any) -> Manifest:
    """A ResourceClaimTemplate; one card if nothing is requested."""
    return {
        "apiVersion": VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": _spec(requests, devices)},
    }


def of_template(name: str, template_name: str) -> Manifest:
    """An entry of a pod's ``resourceClaims``: a claim of its own."""
    return {"name": name, "resourceClaimTemplateName": template_name}


def of_claim(name: str, claim_name: str) -> Manifest:
    """An entry of a pod's ``resourceClaims``: one that others may use too."""
    return {"name": name, "resourceClaimName": claim_name}


def container(
    name: str = "main", claims: Sequence[str | tuple[str, str]] = (), gpus: int = 0, **fields: Any
) -> Manifest:
    """A container.

    Args:
        name: Of the container.
        claims: Names of entries of the pod's ``resourceClaims``; with a second name, only that request of it.
        gpus: Of the extended resource ``nvidia.com/gpu``.
        fields: More of the container.
    """
    references = [{"name": one} if isinstance(one, str) else {"name": one[0], "request": one[1]} for one in claims]
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {"name": name, "image": "x", "resources": limits | ({"claims": references} if references else {})} | fields


def claim_pod(
    name: str,
    claims: Sequence[Manifest] = (),
    *containers: Manifest,
    node: str = "",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A pod for the plain kube-scheduler.

    Args:
        name: Of the pod.
        claims: Its ``resourceClaims``.
        containers: If there are none, one that refers to all claims.
        node: The only node that it may go to; empty: any.
        annotations: Of the pod.
        labels: Of the pod.
        spec: More of its ``spec``, such as ``initContainers``.
    """
    listed = list(containers) or [container(claims=[each["name"] for each in claims])]
    chosen = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {}), "labels": dict(labels or {})},
        "spec": {"resourceClaims": list(claims), "containers": listed, "automountServiceAccountToken": False}
        | chosen
        | spec,
    }


def _spec(requests: Sequence[Manifest], devices: Manifest) -> Manifest:
    return {"devices": {"requests": list(requests) or [exactly()]} | devices}


def _wish(count: int, device_class: str, cel: str, capacity: Mapping[str, str] | None) -> Manifest:
    selectors = {"selectors": [{"cel": {"expression": cel}}]} if cel else {}
    amounts = {"capacity": {"requests": dict(capacity)}} if capacity else {}
    return {"deviceClassName": device_class, "count": count} | selectors | amounts
