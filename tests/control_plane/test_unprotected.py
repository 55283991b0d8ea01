"""Who may change what the webhook and the schedulers wrote on a pod, where the policy of the chart is not in force."""

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.protection import Tenant, is_unprotected
from tests.control_plane.test_protection import (
    PLACED,
    RIGHTS,
    WRITTEN,
    change,
    new_tenant,
    opted_in,
    patch_label,
    statuses,
)
from tests.programs.server.conftest import until

__all__ = ["opted_in"]

pytestmark = pytest.mark.cluster


def _unprotected_tenant(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, *more: tuple[str, str], **metadata: dict[str, str]
) -> Tenant:
    """A tenant, once the API server has forgotten the policies of other tests, a moment after they were deleted."""
    one = new_tenant(control_plane, admin, namespace, *more, **metadata)
    until(lambda: is_unprotected(one), "an API server without such a policy")
    return one


def test_without_the_policy_who_may_edit_pods_rewrites_what_they_were_told(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str
) -> None:
    one = _unprotected_tenant(control_plane, admin, opted_in, *RIGHTS)
    for key in WRITTEN:
        assert statuses(change(one, key)) == {200}, key
    one.patches({"gpu.topology/visible-uuids": "GPU-7"})
    assert one.annotation("gpu.topology/visible-uuids") == "GPU-7"
    one.patches({"gpu.topology/visible-uuids": "GPU-8"}, through="status")
    assert one.annotation("gpu.topology/visible-uuids") == "GPU-8"


def test_without_the_policy_who_may_edit_pods_changes_the_label(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str
) -> None:
    one = _unprotected_tenant(
        control_plane, admin, opted_in, labels={"gpu.topology/placement": "pinned"}, annotations=PLACED
    )
    assert patch_label(one, None, dry_run=False) == 200
    assert one.patches({"nvidia.com/use-gpuuuid": "GPU-7"}).status_code == 200


def test_without_the_policy_who_may_bind_pods_writes_outputs(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str
) -> None:
    one = _unprotected_tenant(control_plane, admin, opted_in, ("create", "pods/binding"), annotations={})
    forged = {"gpu.topology/visible-uuids": "GPU-7"}
    assert one.binds("node-1", forged).status_code == 201
    assert one.annotation("gpu.topology/visible-uuids") == "GPU-7"
