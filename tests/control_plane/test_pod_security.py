"""Pod Security at a real API server: it judges the pods that we have changed."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import ENFORCE, create_pod, gpu_container, gpu_pod, registered
from tests.programs.server.conftest import RunningServer, until

pytestmark = pytest.mark.cluster

PEERS = (gpu_container("prefill"), gpu_container("decode", 1))
FORBIDDEN: dict[str, Any] = {
    "metadata": {"name": "forbidden"},
    "spec": {"hostNetwork": True, "containers": [{"name": "main", "image": "x"}]},
}


class Enforced(Protocol):
    """Our server in a namespace of some Pod Security level."""

    def __call__(self, level: str, *, config: str = "") -> AbstractContextManager[RunningServer]: ...


@pytest.fixture
def enforced(admin: CoreV1Api, control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Enforced:
    def is_refused() -> bool:
        return create_pod(control_plane, namespace, FORBIDDEN, dry_run=True).status == 403

    @contextmanager
    def enforce(level: str, *, config: str = "") -> Iterator[RunningServer]:
        admin.patch_namespace(namespace, {"metadata": {"labels": {ENFORCE: level}}})
        until(is_refused, f"Pod Security level {level}")
        with registered(control_plane, namespace, tmp_path, config=config, labels={ENFORCE: level}) as server:
            yield server

    return enforce


@pytest.mark.parametrize(
    ("profile", "carrier", "environment"),
    [
        ("exclusive", "init", "annotations"),
        ("pod-peers", "sidecar", "file"),
    ],
)
def test_restricted_accepts_what_needs_no_host_namespace(
    control_plane: ControlPlane, namespace: str, enforced: Enforced, profile: str, carrier: str, environment: str
) -> None:
    options = {"gpu.topology/profile": profile, "gpu.topology/remap": carrier}
    with enforced("restricted", config=f"remap: {{environment: {environment}}}\n"):
        answer = create_pod(control_plane, namespace, gpu_pod("serve", options, *PEERS))
    assert (answer.status, answer.warnings) == (201, [])
    assert [one["name"] for one in answer.body["spec"]["initContainers"]] == ["gpu-topology-remap"]


@pytest.mark.parametrize("level", ["baseline", pytest.param("restricted", marks=pytest.mark.long)])
def test_node_peers_are_rejected_as_our_warning_foretells(
    control_plane: ControlPlane, namespace: str, enforced: Enforced, level: str
) -> None:
    with enforced(level):
        answer = create_pod(control_plane, namespace, gpu_pod("serve", {"gpu.topology/profile": "node-peers"}))
    assert answer.status == 403
    assert f'violates PodSecurity "{level}:latest": host namespaces (hostPID=true, hostIPC=true)' in answer.message
    (warning,) = answer.warnings
    assert f"Pod Security level {level} of namespace {namespace} will reject hostIPC, hostPID" in warning


def test_isolated_node_peers_are_accepted_where_others_are_rejected(
    control_plane: ControlPlane, namespace: str, enforced: Enforced
) -> None:
    options = {"gpu.topology/profile": "node-peers", "gpu.topology/isolation": "isolated"}
    with enforced("restricted"):
        answer = create_pod(control_plane, namespace, gpu_pod("serve", options, *PEERS))
        host = create_pod(control_plane, namespace, gpu_pod("host", options | {"gpu.topology/isolation": "host"}))
    assert (answer.status, answer.warnings, host.status) == (201, [], 403)
    spec = answer.body["spec"]
    assert spec["shareProcessNamespace"] is True
    assert not spec.keys() & {"hostIPC", "hostPID"}
    assert [one["name"] for one in spec["initContainers"]] == ["gpu-topology-remap"]
