"""Registered with a condition on who binds: only the Bindings of HAMi's scheduler reach us."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kubernetes.client import (
    ApiException,
    CoreV1Api,
    RbacAuthorizationV1Api,
    RbacV1Subject,
    V1ClusterRoleBinding,
    V1ObjectMeta,
    V1RoleRef,
    V1ServiceAccount,
)

from tests.control_plane.accounts import RBAC
from tests.control_plane.control_plane import ControlPlane, wait_until_allowed
from tests.control_plane.registration import created, gpu_pod, registered
from tests.control_plane.scheduling import NODE, allocate, bind, bind_by_legacy_resource, stored
from tests.programs.server.conftest import RunningServer

pytestmark = pytest.mark.cluster

SCHEDULER = "hami-scheduler"
MayBind = Callable[[str], CoreV1Api]
RESOURCES = pytest.mark.parametrize("bind_pod", [bind, bind_by_legacy_resource], ids=["pods/binding", "bindings"])


@pytest.fixture
def webhook(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[RunningServer]:
    """Our server, registered for the Bindings of the service account ``hami-scheduler``."""
    user = f"system:serviceaccount:{namespace}:{SCHEDULER}"
    with registered(control_plane, namespace, tmp_path, scheduler=user) as server:
        yield server


@pytest.fixture
def may_bind(admin: CoreV1Api, control_plane: ControlPlane, namespace: str) -> Iterator[MayBind]:
    """Makes a client for a new service account that schedules."""

    def make(account: str) -> CoreV1Api:
        admin.create_namespaced_service_account(namespace, V1ServiceAccount(metadata=V1ObjectMeta(name=account)))
        role = V1RoleRef(api_group=RBAC, kind="ClusterRole", name="system:kube-scheduler")
        subjects = [RbacV1Subject(kind="ServiceAccount", name=account, namespace=namespace)]
        metadata = V1ObjectMeta(name=f"{namespace}-{account}")
        RbacAuthorizationV1Api(admin.api_client).create_cluster_role_binding(
            V1ClusterRoleBinding(metadata=metadata, role_ref=role, subjects=subjects)
        )
        client = clients.enter_context(control_plane.client(control_plane.kubeconfig_for(namespace, account)))
        wait_until_allowed(client, namespace, "create", "bindings")
        return CoreV1Api(client)

    with ExitStack() as clients:
        yield make


def prepare(control_plane: ControlPlane, admin: CoreV1Api, namespace: str) -> None:
    """A pod that waits for its Binding."""
    created(control_plane, namespace, gpu_pod("train", {}))
    allocate(admin, namespace, "train", (), (2, 5))


def test_a_binding_by_the_scheduler_is_patched(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, webhook: RunningServer, may_bind: MayBind
) -> None:
    prepare(control_plane, admin, namespace)
    bind(may_bind(SCHEDULER), namespace, "train")
    node, annotations = stored(admin, namespace, "train")
    assert (node, annotations["gpu.topology/link"], annotations["gpu.topology/ring-order"]) == (NODE, "NVSwitch", "2,5")
    assert 'gpu_topology_bindings_total{outcome="patch",' in webhook.probe("/metrics").text


def test_a_binding_by_the_legacy_resource_which_loses_the_uid_gets_no_values(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, webhook: RunningServer, may_bind: MayBind
) -> None:
    prepare(control_plane, admin, namespace)
    bind_by_legacy_resource(may_bind(SCHEDULER), namespace, "train")
    node, annotations = stored(admin, namespace, "train")
    assert (node, annotations.get("gpu.topology/link")) == (NODE, None)
    assert 'reason="pod-not-named"} 1.0' in webhook.probe("/metrics").text


@RESOURCES
def test_a_binding_by_another_account_passes_untouched(
    control_plane: ControlPlane,
    admin: CoreV1Api,
    namespace: str,
    webhook: RunningServer,
    may_bind: MayBind,
    *,
    bind_pod: Callable[[CoreV1Api, str, str], None],
) -> None:
    prepare(control_plane, admin, namespace)
    before = stored(admin, namespace, "train")[1]
    bind_pod(may_bind("other-scheduler"), namespace, "train")
    assert stored(admin, namespace, "train") == (NODE, before)
    assert "gpu_topology_bindings_total{" not in webhook.probe("/metrics").text


def test_an_account_of_that_name_elsewhere_is_another(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, tmp_path: Path, may_bind: MayBind
) -> None:
    with registered(control_plane, namespace, tmp_path, scheduler=f"system:serviceaccount:hami:{SCHEDULER}"):
        prepare(control_plane, admin, namespace)
        bind(may_bind(SCHEDULER), namespace, "train")
    node, annotations = stored(admin, namespace, "train")
    assert node == NODE
    assert "gpu.topology/link" not in annotations


def test_while_we_are_away_only_the_bindings_of_the_scheduler_wait(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, webhook: RunningServer, may_bind: MayBind
) -> None:
    prepare(control_plane, admin, namespace)
    scheduler, other = may_bind(SCHEDULER), may_bind("other-scheduler")
    webhook.process.kill()
    webhook.process.wait()
    with pytest.raises(ApiException, match=r'failed calling webhook \\"bindings\.gpu\.topology\\"') as info:
        bind(scheduler, namespace, "train")
    assert info.value.status == 500
    assert stored(admin, namespace, "train")[0] is None
    bind(other, namespace, "train")
    assert stored(admin, namespace, "train")[0] == NODE
