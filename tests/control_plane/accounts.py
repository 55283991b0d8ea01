"""Namespaces, and service accounts that may do what a list of permissions says, and nothing else."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kubernetes.client import (
    CoreV1Api,
    RbacAuthorizationV1Api,
    RbacV1Subject,
    V1ClusterRole,
    V1ClusterRoleBinding,
    V1Namespace,
    V1ObjectMeta,
    V1PolicyRule,
    V1Role,
    V1RoleBinding,
    V1RoleRef,
    V1ServiceAccount,
)
from kubernetes.client.exceptions import ConflictException

from tests.control_plane.control_plane import ControlPlane, wait_until_allowed
from webhook.cluster.api.permissions import Permission, Scope

RBAC = "rbac.authorization.k8s.io"


def namespace_for_pods(admin: CoreV1Api, metadata: V1ObjectMeta) -> str:
    """The name of a new namespace in which pods can be created: it has the service account ``default``."""
    created = admin.create_namespace(V1Namespace(metadata=metadata)).metadata
    assert created is not None
    assert created.name is not None
    # In a whole cluster the controller manager makes it. Where one runs, it may be quicker.
    with suppress(ConflictException):
        admin.create_namespaced_service_account(created.name, V1ServiceAccount(metadata=V1ObjectMeta(name="default")))
    return created.name


def permitted(
    admin: CoreV1Api, control_plane: ControlPlane, namespace: str, account: str, permissions: tuple[Permission, ...]
) -> Path:
    """A kubeconfig for a new service account, once the API server knows what it may do.

    It has one role for each place. So one right of a role tells that all of them are known.
    """
    admin.create_namespaced_service_account(namespace, V1ServiceAccount(metadata=V1ObjectMeta(name=account)))
    by_place: dict[str, list[Permission]] = {}
    for permission in permissions:
        by_place.setdefault(_place(permission.scope, namespace), []).append(permission)
    for place, allowed in by_place.items():
        grant(admin, namespace, account, *allowed, role=f"{namespace}-{account}-{place or 'everywhere'}")
    kubeconfig = control_plane.kubeconfig_for(namespace, account)
    known_by = [replace(allowed[0], verbs=allowed[0].verbs[:1]) for allowed in by_place.values()]
    wait_until_granted(control_plane, kubeconfig, namespace, known_by)
    return kubeconfig


def grant(admin: CoreV1Api, namespace: str, account: str, *permissions: Permission, role: str) -> None:
    """More permissions of one place for the service account, by a role of that name."""
    rbac = RbacAuthorizationV1Api(admin.api_client)
    subjects = [RbacV1Subject(kind="ServiceAccount", name=account, namespace=namespace)]
    metadata = V1ObjectMeta(name=role)
    rules = [
        V1PolicyRule(
            api_groups=[permission.group],
            resources=[permission.resource],
            verbs=list(permission.verbs),
            resource_names=list(permission.resource_names) or None,
        )
        for permission in permissions
    ]
    place = _place(permissions[0].scope, namespace)
    if not place:
        role_ref = V1RoleRef(api_group=RBAC, kind="ClusterRole", name=role)
        rbac.create_cluster_role(V1ClusterRole(metadata=metadata, rules=rules))
        rbac.create_cluster_role_binding(V1ClusterRoleBinding(metadata=metadata, role_ref=role_ref, subjects=subjects))
    else:
        role_ref = V1RoleRef(api_group=RBAC, kind="Role", name=role)
        rbac.create_namespaced_role(place, V1Role(metadata=metadata, rules=rules))
        rbac.create_namespaced_role_binding(
            place, V1RoleBinding(metadata=metadata, role_ref=role_ref, subjects=subjects)
        )


def wait_until_granted(
    control_plane: ControlPlane, kubeconfig: Path, namespace: str, permissions: Iterable[Permission], *, own: str = ""
) -> None:
    """Returns once the user of ``kubeconfig`` may do all that.

    Args:
        control_plane: Where.
        kubeconfig: Of that user.
        namespace: In which agents publish.
        permissions: What is waited for.
        own: Namespace of the release; empty: the same one.
    """
    with control_plane.client(kubeconfig) as client:
        for permission in permissions:
            place = own if own and permission.scope is Scope.OWN_NAMESPACE else _place(permission.scope, namespace)
            name = (permission.resource_names or ("",))[0]
            for verb in permission.verbs:
                wait_until_allowed(client, place, verb, permission.resource, group=permission.group, name=name)


def without(permissions: tuple[Permission, ...], scope: Scope, resource: str, verb: str) -> tuple[Permission, ...]:
    """The list with one verb less."""
    fewer = []
    for each in permissions:
        taken = verb if (each.scope, each.resource) == (scope, resource) else ""
        verbs = tuple(one for one in each.verbs if one != taken)
        fewer += [replace(each, verbs=verbs)] if verbs else []
    return tuple(fewer)


def _place(scope: Scope, namespace: str) -> str:
    """The namespace of a permission; empty for all."""
    return {Scope.CLUSTER: "", Scope.DEFAULT_NAMESPACE: "default"}.get(scope, namespace)
