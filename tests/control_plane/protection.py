"""The policy that protects the annotations of pods, at the API server; and tenants who try to write them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from kubernetes.client import (
    CoreV1Api,
    RbacAuthorizationV1Api,
    RbacV1Subject,
    V1ObjectMeta,
    V1PolicyRule,
    V1Role,
    V1RoleBinding,
    V1RoleRef,
    V1ServiceAccount,
)

from tests.chart.registration import installed_protection
from tests.control_plane.accounts import RBAC
from tests.control_plane.control_plane import ControlPlane, wait_until_allowed
from tests.control_plane.manifests import apply, path_of, request
from tests.programs.server.conftest import until

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
EDIT = ("system:aggregate-to-edit", "system:aggregate-to-view")
"""What the controller manager, which does not run here, would put into the role ``edit``."""


@dataclass(frozen=True)
class Tenant:
    """A service account that writes to one pod.

    Attributes:
        path: Of the pod at the API server.
    """

    control_plane: ControlPlane
    kubeconfig: Path
    path: str

    def patches(
        self, annotations: Mapping[str, str | None], *, through: str = "", dry_run: bool = False
    ) -> httpx.Response:
        """Changes annotations, as ``kubectl annotate`` does; None removes one.

        Args:
            annotations: What is changed.
            through: A subresource such as ``status``.
            dry_run: Only asks.
        """
        return self.sends({"metadata": {"annotations": annotations}}, through=through, dry_run=dry_run)

    def sends(self, patch: dict[str, Any], *, through: str = "", dry_run: bool = False) -> httpx.Response:
        """A merge patch of the pod, or of a subresource of it."""
        path = f"{self.path}/{through}" if through else self.path
        return self._send("PATCH", path, patch, MERGE, _only_asking(dry_run))

    def applies(self, manifest: dict[str, Any], *, dry_run: bool = False) -> httpx.Response:
        """Server-side apply, with force."""
        parameters = {"fieldManager": "tenant", "force": "true"} | _only_asking(dry_run)
        return self._send("PATCH", self.path, manifest, APPLY, parameters)

    def replaces(self, change: Callable[[dict[str, Any]], None], *, dry_run: bool = False) -> httpx.Response:
        """Reads the pod, changes it, and puts it back, as ``kubectl edit`` and ``replace`` do."""
        stored = self.reads()
        change(stored)
        return self._send("PUT", self.path, stored, "application/json", _only_asking(dry_run))

    def binds(
        self, node: str, annotations: dict[str, str], *, labels: dict[str, str] | None = None, legacy: bool = False
    ) -> httpx.Response:
        """A Binding with these annotations and labels."""
        collection, _, name = self.path.rpartition("/")
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "annotations": annotations, "labels": labels or {}},
            "target": {"kind": "Node", "name": node},
        }
        path = f"{collection.removesuffix('/pods')}/bindings" if legacy else f"{self.path}/binding"
        return self._send("POST", path, body, "application/json", {})

    def reads(self) -> dict[str, Any]:
        """The pod as it is."""
        found: dict[str, Any] = request(self.control_plane, "GET", self.path).json()
        return found

    def annotation(self, key: str) -> str | None:
        """Of the pod as it is."""
        found: str | None = self.reads()["metadata"].get("annotations", {}).get(key)
        return found

    def _send(
        self, method: str, path: str, body: dict[str, Any], media_type: str, parameters: dict[str, str]
    ) -> httpx.Response:
        headers = {"Content-Type": media_type}
        return request(
            self.control_plane,
            method,
            path,
            kubeconfig=self.kubeconfig,
            headers=headers,
            json=body,
            params=parameters,
        )


def _only_asking(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


@contextmanager
def unprotected(control_plane: ControlPlane, one: Tenant) -> Iterator[None]:
    """The policy, which is in force, is not for a while; its return is waited for with what the tenant may do."""
    _, binding = installed_protection()
    request(control_plane, "DELETE", path_of(binding))
    until(lambda: is_unprotected(one), "an API server that has forgotten the policy")
    try:
        yield
    finally:
        assert apply(control_plane, binding).status_code == 201
        until(lambda: not is_unprotected(one), "the policy")


@contextmanager
def protected(control_plane: ControlPlane, namespace: str) -> Iterator[None]:
    """The policy of the chart, in force in that namespace, which has opted in, until the end."""
    with ExitStack() as stack:
        for one in installed_protection():
            assert apply(control_plane, one).status_code in {200, 201}
            stack.callback(request, control_plane, "DELETE", path_of(one))
        with control_plane.client() as client:
            admin = CoreV1Api(client)
            body: Any = {
                "metadata": {"name": "guarded"},
                "spec": {"containers": [{"name": "probe", "image": "x"}]},
            }
            admin.create_namespaced_pod(namespace, body)
            probe = tenant(control_plane, admin, namespace, "guarded", "prober")
            until(lambda: not is_unprotected(probe), "the policy")
            try:
                yield
            finally:
                stack.close()
                until(lambda: is_unprotected(probe), "an API server that has forgotten the policy")
                admin.delete_namespaced_pod("guarded", namespace, grace_period_seconds=0)


def is_unprotected(probe: Tenant) -> bool:
    """Return whether the API server would let the tenant write what a scheduler writes; nothing is stored."""
    status = probe.patches({"gpu.topology/link": "x"}, dry_run=True).status_code
    assert status in {200, 422}, f"expected 200 or 422 from the API server, found {status}"
    return status == 200


def tenant(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, pod: str, account: str, *more: tuple[str, str]
) -> Tenant:
    """A new service account with the built-in role ``edit`` in the namespace, who writes to the pod.

    Args:
        control_plane: Where.
        admin: Makes the account.
        namespace: Of both.
        pod: Its name.
        account: Its name.
        more: Rights beyond the role: a verb, and a resource such as ``pods/status``.
    """
    admin.create_namespaced_service_account(namespace, V1ServiceAccount(metadata=V1ObjectMeta(name=account)))
    rbac = RbacAuthorizationV1Api(admin.api_client)
    subjects = [RbacV1Subject(kind="ServiceAccount", name=account, namespace=namespace)]
    for role in EDIT:
        reference = V1RoleRef(api_group=RBAC, kind="ClusterRole", name=role)
        metadata = V1ObjectMeta(name=f"{account}-{role}")
        rbac.create_namespaced_role_binding(
            namespace, V1RoleBinding(metadata=metadata, role_ref=reference, subjects=subjects)
        )
    kubeconfig = control_plane.kubeconfig_for(namespace, account)
    with control_plane.client(kubeconfig) as client:
        if more:
            rules = [V1PolicyRule(api_groups=[""], resources=[resource], verbs=[verb]) for verb, resource in more]
            own = f"{account}-more"
            rbac.create_namespaced_role(namespace, V1Role(metadata=V1ObjectMeta(name=own), rules=rules))
            reference = V1RoleRef(api_group=RBAC, kind="Role", name=own)
            rbac.create_namespaced_role_binding(
                namespace, V1RoleBinding(metadata=V1ObjectMeta(name=own), role_ref=reference, subjects=subjects)
            )
            for verb, resource in more:
                wait_until_allowed(client, namespace, verb, resource)
        wait_until_allowed(client, namespace, "patch", "pods")
    return Tenant(control_plane, kubeconfig, f"/api/v1/namespaces/{namespace}/pods/{pod}")
