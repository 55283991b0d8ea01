"""Who may write a pin, for which the planner holds cards, in a namespace that has not opted in."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from tests.chart.registration import PINS, installed_policies
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import apply, path_of, request
from tests.control_plane.protection import Tenant, tenant
from tests.programs.server.conftest import until

pytestmark = pytest.mark.cluster

PLACED, LIST, LABEL = "gpu.topology/placed", "nvidia.com/use-gpuuuid", "gpu.topology/placement"
PIN = {PLACED: '{"node":"n1","cards":["GPU-1"]}', LIST: "GPU-1"}


def ghost(name: str, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    """A pod that no scheduler looks at."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"schedulerName": "none", "containers": [{"name": "main", "image": "x"}]},
    }


@pytest.fixture(scope="module")
def policy(control_plane: ControlPlane) -> Iterator[None]:
    """The policy of the chart, until the end."""
    objects = installed_policies(PINS)
    for one in objects:
        assert apply(control_plane, one).status_code in {200, 201}
    yield
    for one in objects:
        request(control_plane, "DELETE", path_of(one))


@pytest.fixture
def one(control_plane: ControlPlane, admin: CoreV1Api, namespace: str, policy: None) -> Tenant:  # noqa: ARG001 - in force
    """A tenant with the role ``edit``, in a namespace that has not opted in; the policy answers."""
    body: Any = ghost("train", {}, {})
    admin.create_namespaced_pod(namespace, body)
    found = tenant(control_plane, admin, namespace, "train", "tenant")
    until(lambda: creates(found, ghost("probe", {LABEL: "pinned"}, PIN)) == 422, "the policy")
    return found


def creates(one: Tenant, body: dict[str, Any], *, as_admin: bool = False) -> int:
    """The status of the answer; nothing is stored."""
    path, kubeconfig = one.path.rpartition("/")[0], None if as_admin else one.kubeconfig
    answer = request(one.control_plane, "POST", path, kubeconfig=kubeconfig, json=body, params={"dryRun": "All"})
    return answer.status_code


@pytest.mark.parametrize("word", ["pinned", "waiting"])
def test_a_tenant_creates_no_pod_with_a_pin(one: Tenant, word: str) -> None:
    assert creates(one, ghost("ghost", {LABEL: word}, PIN)) == 422


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [({}, PIN), ({LABEL: "pinned"}, {LIST: "GPU-1"}), ({LABEL: "released"}, PIN), ({}, {})],
    ids=["without the label", "without the choice", "let go", "like any other"],
)
def test_what_holds_no_cards_may_be_created(one: Tenant, labels: dict[str, str], annotations: dict[str, str]) -> None:
    assert creates(one, ghost("other", labels, annotations)) == 201


def test_a_tenant_writes_no_pin_onto_a_pod_that_is_there(one: Tenant) -> None:
    assert one.sends({"metadata": {"labels": {LABEL: "pinned"}, "annotations": PIN}}, dry_run=True).status_code == 422
    assert one.sends({"metadata": {"labels": {LABEL: "pinned"}}}).status_code == 200
    assert one.sends({"metadata": {"annotations": PIN}}, dry_run=True).status_code == 422
    assert one.sends({"metadata": {"annotations": {LIST: "GPU-1"}}}).status_code == 200


def test_who_may_patch_nodes_may_restore_such_a_pod(one: Tenant) -> None:
    assert creates(one, ghost("restored", {LABEL: "pinned"}, PIN), as_admin=True) == 201
