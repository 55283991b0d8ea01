"""The control plane of the tests is a real one: it stores, it authorizes, and it knows who owns a field."""

from typing import Any

import pytest
from kubernetes.client import (
    ApiClient,
    ApiException,
    CoreV1Api,
    RbacAuthorizationV1Api,
    RbacV1Subject,
    V1ConfigMap,
    V1ObjectMeta,
    V1PolicyRule,
    V1Role,
    V1RoleBinding,
    V1RoleRef,
    V1ServiceAccount,
    VersionApi,
)

from tests.control_plane.control_plane import ControlPlane, wait_until_allowed

pytestmark = pytest.mark.cluster

# Server-side apply is a patch of this content type (kubernetes.io, "Server-Side Apply").
APPLY = "application/apply-patch+yaml"


def config_map(name: str, **data: str) -> V1ConfigMap:
    return V1ConfigMap(metadata=V1ObjectMeta(name=name), data=data)


def apply(admin: CoreV1Api, namespace: str, manager: str, **data: str) -> V1ConfigMap:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "topology"}, "data": data}
    return admin.patch_namespaced_config_map(
        "topology", namespace, body, field_manager=manager, force=False, _content_type=APPLY
    )


def reader(admin: CoreV1Api, control_plane: ControlPlane, namespace: str) -> ApiClient:
    """A client with a token of the service account ``reader`` of the namespace, which this creates."""
    admin.create_namespaced_service_account(namespace, V1ServiceAccount(metadata=V1ObjectMeta(name="reader")))
    return control_plane.client(control_plane.kubeconfig_for(namespace, "reader"))


def test_the_api_server_knows_its_release(admin: CoreV1Api) -> None:
    release = VersionApi(admin.api_client).get_code().git_version
    assert release.startswith("v1.")


def test_a_config_map_can_be_created_and_read(admin: CoreV1Api, namespace: str) -> None:
    admin.create_namespaced_config_map(namespace, config_map("node-a", gpus="8"))
    assert admin.read_namespaced_config_map("node-a", namespace).data == {"gpus": "8"}


def test_a_role_lets_its_service_account_in_and_no_further(
    admin: CoreV1Api, control_plane: ControlPlane, namespace: str
) -> None:
    rules = [V1PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["list"])]
    role = V1Role(metadata=V1ObjectMeta(name="lists"), rules=rules)
    binding = V1RoleBinding(
        metadata=V1ObjectMeta(name="lists"),
        role_ref=V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="lists"),
        subjects=[RbacV1Subject(kind="ServiceAccount", name="reader", namespace=namespace)],
    )
    rbac = RbacAuthorizationV1Api(admin.api_client)
    rbac.create_namespaced_role(namespace, role)
    rbac.create_namespaced_role_binding(namespace, binding)
    with reader(admin, control_plane, namespace) as client:
        core = CoreV1Api(client)
        wait_until_allowed(client, namespace, "list", "configmaps")
        assert core.list_namespaced_config_map(namespace).items == []
        with pytest.raises(ApiException, match="cannot create resource") as refused:
            core.create_namespaced_config_map(namespace, config_map("node-a"))
    assert refused.value.status == 403


def test_server_side_apply_refuses_a_field_of_another_manager(admin: CoreV1Api, namespace: str) -> None:
    apply(admin, namespace, "agent", gpus="8")
    with pytest.raises(ApiException, match=r"conflict with \\\"agent\\\"") as refused:
        apply(admin, namespace, "person", gpus="4")
    assert refused.value.status == 409
