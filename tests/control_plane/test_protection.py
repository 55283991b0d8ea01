"""Who may change what the webhook and the schedulers wrote on a pod, with the policy of the chart and without."""

import string
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import httpx
import pytest
from kubernetes.client import CoreV1Api, V1ObjectMeta

from tests.control_plane.accounts import grant, namespace_for_pods
from tests.control_plane.control_plane import ControlPlane, wait_until_allowed
from tests.control_plane.protection import Tenant, protected, tenant
from tests.programs.server.conftest import until
from webhook.cluster.api.permissions import Permission, Scope

pytestmark = pytest.mark.cluster

WRITTEN = {
    "gpu.topology/injected": "0.1.0 pod-peers",
    "gpu.topology/visible-uuids": "GPU-1,GPU-2",
    "gpu.topology/cuda-visible-devices.0": "0,1",
    "gpu.topology/nccl-env.NCCL_ALGO": "Ring",
    "gpu.topology/nccl-p2p-level": "NVL",
    "gpu.topology/link": "NVSwitch",
    "hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,97871,100:;",
    "hami.io/vgpu-node": "node-1",
    "volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,97871,100:",
    "scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":0}]}',
}
"""What a pod has once it is bound; no pod has all of it."""
OTHERS = {"team": "ml", "gpu.topology/min-bandwidth": "100", "hami.io/gpu-scheduler-policy": "spread"}
"""What belongs to the user."""
SUBRESOURCES = ("status", "ephemeralcontainers", "resize")
RIGHTS = tuple(("patch", f"pods/{one}") for one in SUBRESOURCES)


OPTED_IN = {"gpu.topology/injection": "enabled"}


@pytest.fixture
def opted_in(admin: CoreV1Api) -> str:
    """A new namespace that has had the label from its first moment, so that no policy sees it without."""
    return namespace_for_pods(admin, V1ObjectMeta(generate_name="test-", labels=OPTED_IN))


@pytest.fixture(scope="module", autouse=True)
def _protection(control_plane: ControlPlane, admin: CoreV1Api) -> Iterator[None]:
    """The policy of the chart is in force; ``test_unprotected.py`` has what holds without it."""
    with protected(control_plane, namespace_for_pods(admin, V1ObjectMeta(generate_name="probed-", labels=OPTED_IN))):
        yield


def new_tenant(
    control_plane: ControlPlane,
    admin: CoreV1Api,
    namespace: str,
    *more: tuple[str, str],
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Tenant:
    written = WRITTEN | OTHERS if annotations is None else annotations
    body: Any = {
        "metadata": {"name": "train", "annotations": written, "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    admin.create_namespaced_pod(namespace, body)
    return tenant(control_plane, admin, namespace, "train", "tenant", *more)


def change(one: Tenant, key: str) -> dict[str, httpx.Response]:
    """What the API server answers to each way of changing an annotation; nothing of it is stored."""

    def spoil(stored: dict[str, Any]) -> None:
        stored["metadata"]["annotations"][key] = "forged"

    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "annotations": {key: "forged"}}}
    return {
        "kubectl annotate --overwrite": one.patches({key: "forged"}, dry_run=True),
        "kubectl annotate KEY-": one.patches({key: None}, dry_run=True),
        "through the status": one.patches({key: "forged"}, through="status", dry_run=True),
        "from the status": one.patches({key: None}, through="status", dry_run=True),
        "server-side apply": one.applies(manifest, dry_run=True),
        "kubectl replace": one.replaces(spoil, dry_run=True),
    }


def statuses(answers: dict[str, httpx.Response]) -> set[int]:
    return {answer.status_code for answer in answers.values()}


@pytest.mark.parametrize("labels", [{}, {"gpu.topology/injection": "disabled"}], ids=["plain", "opted out"])
def test_who_may_edit_pods_changes_nothing_of_what_they_were_told(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str, labels: dict[str, str]
) -> None:
    one = new_tenant(control_plane, admin, opted_in, *RIGHTS, labels=labels)
    for key in WRITTEN:
        for way, answer in change(one, key).items():
            assert (answer.status_code, key in answer.text) == (422, True), f"{way}: {answer.text}"
    for key in OTHERS:
        assert statuses(change(one, key)) == {200}, key
    status = {"status": {"conditions": [{"type": "example.com/Checked", "status": "True"}]}}
    assert one.sends(status, through="status").status_code == 200


PLACED = {"gpu.topology/placed": "{}", "nvidia.com/use-gpuuuid": "GPU-1,GPU-2"}
"""What the planner writes on a pod whose cards it chose."""


def patch_label(one: Tenant, value: str | None, *, through: str = "", dry_run: bool = True) -> int:
    """What the API server answers to another value of the label; None removes it."""
    labels = {"metadata": {"labels": {"gpu.topology/placement": value}}}
    return one.sends(labels, through=through, dry_run=dry_run).status_code


@pytest.mark.parametrize("state", ["waiting", "pinned"])
def test_who_may_edit_pods_changes_neither_the_chosen_cards_nor_how_far_the_choice_is(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str, state: str
) -> None:
    labels = {"gpu.topology/placement": state, "team": "ml"}
    one = new_tenant(control_plane, admin, opted_in, *RIGHTS, labels=labels, annotations=PLACED)
    for key in PLACED:
        for way, answer in change(one, key).items():
            assert (answer.status_code, key in answer.text) == (422, True), f"{way}: {answer.text}"
    for through in ("", "status"):
        assert patch_label(one, "released", through=through) == 422
        assert patch_label(one, None, through=through) == 422
        assert one.sends({"metadata": {"labels": {"team": None}}}, through=through, dry_run=True).status_code == 200
    grant(admin, opted_in, "tenant", Permission(Scope.CLUSTER, "", "nodes", ("patch",)), role=f"{opted_in}-nodes")
    until(lambda: patch_label(one, "released") == 200, "an administrator")
    assert one.patches({"nvidia.com/use-gpuuuid": None}).status_code == 200


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({}, {"nvidia.com/use-gpuuuid": "GPU-1"}),
        ({"gpu.topology/placement": "waiting"}, {}),
        ({"gpu.topology/placement": "waiting"}, {"nvidia.com/use-gpuuuid": "GPU-1"}),
        ({"gpu.topology/placement": "released"}, PLACED),
    ],
    ids=["not placed", "waiting", "waiting with a list", "released"],
)
def test_a_list_of_cards_that_nobody_chose_is_the_users(
    control_plane: ControlPlane,
    admin: CoreV1Api,
    opted_in: str,
    labels: dict[str, str],
    annotations: dict[str, str],
) -> None:
    one = new_tenant(control_plane, admin, opted_in, labels=labels, annotations=annotations)
    assert one.patches({"nvidia.com/use-gpuuuid": "GPU-7"}).status_code == 200
    assert one.patches({"nvidia.com/use-gpuuuid": None}).status_code == 200
    assert patch_label(one, "pinned") == 422


def test_a_binding_cannot_set_the_label(control_plane: ControlPlane, admin: CoreV1Api, opted_in: str) -> None:
    rights = (("create", "pods/binding"), ("create", "bindings"))
    one = new_tenant(control_plane, admin, opted_in, *rights, annotations={})
    refused = one.binds("node-1", {}, labels={"gpu.topology/placement": "pinned"})
    assert (refused.status_code, "gpu.topology/placement" in refused.text) == (422, True), refused.text
    assert one.binds("node-1", {}, labels={"team": "ml"}).status_code == 201


def test_what_a_pod_was_not_told_cannot_be_added_either(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str
) -> None:
    one = new_tenant(control_plane, admin, opted_in, *RIGHTS, annotations={})
    for key in WRITTEN:
        assert one.patches({key: "forged"}).status_code == 422
        assert one.patches({key: "forged"}, through="status").status_code == 422
    assert one.patches({"team": "ml"}).status_code == 200


@pytest.mark.parametrize("through", ["ephemeralcontainers", "resize"])
def test_the_other_subresources_write_no_annotation_at_all(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str, through: str
) -> None:
    one = new_tenant(control_plane, admin, opted_in, *RIGHTS)
    assert one.patches({"gpu.topology/link": "forged", "team": "other"}, through=through).status_code == 200
    assert (one.annotation("gpu.topology/link"), one.annotation("team")) == ("NVSwitch", "ml")


def test_in_a_namespace_that_has_not_opted_in_the_policy_changes_nothing(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str
) -> None:
    admin.patch_namespace(opted_in, {"metadata": {"labels": {"gpu.topology/injection": None}}})
    one = new_tenant(control_plane, admin, opted_in, *RIGHTS)
    until(lambda: one.patches({"gpu.topology/link": "x"}, dry_run=True).status_code == 200, "a namespace left alone")
    for key in WRITTEN:
        assert statuses(change(one, key)) == {200}, key
    admin.patch_namespace(opted_in, {"metadata": {"labels": {"gpu.topology/injection": "enabled"}}})


def test_who_may_patch_nodes_may_change_both(control_plane: ControlPlane, admin: CoreV1Api, opted_in: str) -> None:
    one = new_tenant(control_plane, admin, opted_in, *RIGHTS)
    assert one.patches({"hami.io/vgpu-node": "node-2"}).status_code == 422
    grant(admin, opted_in, "tenant", Permission(Scope.CLUSTER, "", "nodes", ("patch",)), role=f"{opted_in}-nodes")
    until(lambda: one.patches({"hami.io/vgpu-node": "node-2"}).status_code == 200, "a device plugin")
    for key in WRITTEN:
        assert statuses(change(one, key)) == {200}, key


def test_who_may_bind_pods_may_change_allocations_and_no_output(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str
) -> None:
    one = new_tenant(control_plane, admin, opted_in, *RIGHTS, ("create", "pods/binding"), ("create", "bindings"))
    for key in WRITTEN:
        expected = 422 if key.startswith("gpu.topology/") else 200
        assert statuses(change(one, key)) == {expected}, key


@pytest.mark.parametrize("legacy", [False, True], ids=["pods/binding", "bindings"])
def test_outputs_on_a_binding_are_the_webhooks_as_well(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str, *, legacy: bool
) -> None:
    rights = (("create", "pods/binding"), ("create", "bindings"))
    one = new_tenant(control_plane, admin, opted_in, *rights, annotations={})
    refused = one.binds("node-1", {"gpu.topology/visible-uuids": "GPU-7"}, legacy=legacy)
    assert (refused.status_code, "gpu.topology/visible-uuids" in refused.text) == (422, True), refused.text
    assert one.binds("node-1", {"volcano.sh/vgpu-ids-new": "x"}, legacy=legacy).status_code == 201
    assert one.annotation("volcano.sh/vgpu-ids-new") == "x"


def test_who_may_bind_pods_elsewhere_is_nobody_here(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str
) -> None:
    one = new_tenant(control_plane, admin, opted_in)
    binds = Permission(Scope.DEFAULT_NAMESPACE, "", "pods/binding", ("create",))
    grant(admin, opted_in, "tenant", binds, role=f"{opted_in}-binds")
    with control_plane.client(one.kubeconfig) as client:
        wait_until_allowed(client, "default", "create", "pods/binding")
    assert one.patches({"hami.io/vgpu-node": "node-2"}).status_code == 422


@pytest.mark.long
def test_the_status_of_a_pod_with_as_many_annotations_as_there_can_be_is_still_written(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str
) -> None:
    # Together they may have 256 KiB: apimachinery pkg/api/validation/objectmeta.go.
    letters = string.ascii_lowercase
    many = dict.fromkeys(map("".join, islice(product(letters + string.digits, repeat=4), 65_000)), "")
    one = new_tenant(control_plane, admin, opted_in, *RIGHTS, annotations=many)
    status = {"status": {"conditions": [{"type": "example.com/Checked", "status": "True"}]}}
    assert one.sends(status, through="status").status_code == 200
    assert one.patches({"aaaa": "x"}).status_code == 422
    grant(admin, opted_in, "tenant", Permission(Scope.CLUSTER, "", "nodes", ("patch",)), role=f"{opted_in}-nodes")
    until(lambda: one.patches({"aaaa": "x"}).status_code == 200, "a device plugin")
