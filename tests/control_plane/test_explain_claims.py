"""``gpu-topology explain`` of a pod with a ResourceClaim at a real API server, with the permissions of the list."""

from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, CustomObjectsApi

from tests.cli.command import Done
from tests.control_plane.accounts import without
from tests.control_plane.scheduling import bind
from tests.control_plane.test_explain import MakeSite, Site, make_site
from webhook.cluster.api.permissions import EXPLAIN, Permission, Scope

__all__ = ["make_site"]

pytestmark = pytest.mark.cluster

GROUP, VERSION = "resource.k8s.io", "v1"
DRIVER = "gpu.nvidia.com"


def explained(make_site: MakeSite, permissions: tuple[Permission, ...], config: Path) -> tuple[Site, Done]:
    """A pod on its node, whose claim was given two GPUs of it."""
    site = make_site(permissions)
    objects = CustomObjectsApi(site.admin.api_client)
    uid = create_pod(site.admin, site.namespace)
    create_claim(objects, site, uid)
    slice_ = published(site)
    objects.create_cluster_custom_object(GROUP, VERSION, "resourceslices", slice_)
    bind(site.admin, site.namespace, "train", node=site.node)
    config.write_text("claims: {enabled: true}\n")
    try:
        return site, site.explain("train", "--config", str(config))
    finally:
        objects.delete_cluster_custom_object(GROUP, VERSION, "resourceslices", slice_["metadata"]["name"])


def create_pod(admin: CoreV1Api, namespace: str) -> str:
    container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpus"}]}}
    spec = {
        "containers": [container],
        "resourceClaims": [{"name": "gpus", "resourceClaimName": "two"}],
        "automountServiceAccountToken": False,
    }
    manifest: Any = {"metadata": {"name": "train"}, "spec": spec}
    made: Any = admin.create_namespaced_pod(namespace, manifest)
    uid: str = made.metadata.uid
    return uid


def create_claim(objects: CustomObjectsApi, site: Site, uid: str) -> None:
    request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": 2, "allocationMode": "ExactCount"}}
    claim: dict[str, Any] = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ResourceClaim",
        "metadata": {"name": "two"},
        "spec": {"devices": {"requests": [request]}},
    }
    made: Any = objects.create_namespaced_custom_object(GROUP, VERSION, site.namespace, "resourceclaims", claim)
    results = [{"request": "gpus", "driver": DRIVER, "pool": site.node, "device": f"gpu-{minor}"} for minor in (0, 1)]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": "train", "uid": uid}],
    }
    objects.replace_namespaced_custom_object_status(
        GROUP, VERSION, site.namespace, "resourceclaims", "two", made | {"status": status}
    )


def published(site: Site) -> dict[str, Any]:
    devices = [
        {"name": f"gpu-{gpu.minor}", "attributes": {"type": {"string": "gpu"}, "uuid": {"string": gpu.uuid}}}
        for gpu in site.topology.gpus
    ]
    pool = {"name": site.node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{site.node}-gpus"},
        "spec": {"driver": DRIVER, "nodeName": site.node, "pool": pool, "devices": devices},
    }


def test_a_claim_is_followed_to_the_links_of_its_gpus(make_site: MakeSite, tmp_path: Path) -> None:
    site, done = explained(make_site, EXPLAIN, tmp_path / "config.yaml")
    assert done.err == ""
    assert (
        f"ok   resource-claims: ResourceClaim two was given gpu-0 and gpu-1 of pool {site.node} by driver" in done.out
    )
    assert f"ok   allocation: node {site.node} gives GPU0 and GPU1 to container main" in done.out
    assert "ok   links: every pair of GPU0 and GPU1 has NVLink: link class NVSwitch" in done.out


@pytest.mark.parametrize(
    ("resource", "verb", "code"), [("resourceclaims", "get", "GT293"), ("resourceslices", "list", "GT294")]
)
def test_without_a_permission_less_is_said(
    make_site: MakeSite, tmp_path: Path, resource: str, verb: str, code: str
) -> None:
    _, done = explained(make_site, without(EXPLAIN, Scope.CLUSTER, resource, verb), tmp_path / "config.yaml")
    assert f'cannot {verb} resource "{resource}"' in done.err
    assert f"({code})" in done.out
    assert "GT295" in done.out
