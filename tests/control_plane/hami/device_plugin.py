"""Does what HAMi's device plugin does when the kubelet starts a bound pod: it takes note, and unlocks the node.

It does so as the service account of HAMi's chart, with its permissions (charts/hami/templates/device-plugin/
monitorrole.yaml and monitorrolebinding.yaml; the same from 2.5 to 2.10).

Allocate consumes the list of devices container by container, sets the phase and releases the lock (plugin/server.go,
plugin/util.go). The pod's status is the kubelet's; ``Team.started`` writes it where a test needs it.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kubernetes.client import (
    ApiException,
    CoreV1Api,
    RbacAuthorizationV1Api,
    RbacV1Subject,
    V1ClusterRole,
    V1ClusterRoleBinding,
    V1ObjectMeta,
    V1PolicyRule,
    V1RoleRef,
    V1ServiceAccount,
)
from urllib3.exceptions import HTTPError

from tests.control_plane.accounts import RBAC
from tests.control_plane.control_plane import ControlPlane, wait_until_allowed
from tests.control_plane.hami.scheduler import NAMESPACE

ACCOUNT, ROLE_NAME = "hami-device-plugin", "hami-device-plugin-monitor"
ROLE = V1ClusterRole(
    metadata=V1ObjectMeta(name=ROLE_NAME),
    rules=[
        V1PolicyRule(api_groups=[""], resources=[resource], verbs=verbs)
        for resource, verbs in (
            ("pods", ["get", "create", "watch", "list", "update", "patch"]),
            ("nodes", ["get", "update", "list", "patch"]),
        )
    ],
)
REAL_NODE = "real-plugin"
"""The node that HAMi's real plugin serves, in tests of it."""
POLL_S = 0.1
LOCK = "hami.io/mutex.lock"
PHASE = "hami.io/bind-phase"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"


@contextmanager
def running_device_plugin(control_plane: ControlPlane) -> Iterator[None]:
    """Serves all nodes until the end, in a cluster that has HAMi's namespace."""
    kubeconfig = _account(control_plane)
    stop = threading.Event()
    thread = threading.Thread(target=_serve, args=(control_plane, kubeconfig, stop), name="device-plugin")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _account(control_plane: ControlPlane) -> Path:
    """A kubeconfig for the service account."""
    with control_plane.client() as client:
        core, rbac = CoreV1Api(client), RbacAuthorizationV1Api(client)
        core.create_namespaced_service_account(NAMESPACE, V1ServiceAccount(metadata=V1ObjectMeta(name=ACCOUNT)))
        rbac.create_cluster_role(ROLE)
        subjects = [RbacV1Subject(kind="ServiceAccount", name=ACCOUNT, namespace=NAMESPACE)]
        reference = V1RoleRef(api_group=RBAC, kind="ClusterRole", name=ROLE_NAME)
        metadata = V1ObjectMeta(name=ACCOUNT)
        rbac.create_cluster_role_binding(V1ClusterRoleBinding(metadata=metadata, role_ref=reference, subjects=subjects))
    kubeconfig = control_plane.kubeconfig_for(NAMESPACE, ACCOUNT)
    with control_plane.client(kubeconfig) as client:
        wait_until_allowed(client, "", "patch", "nodes")
    return kubeconfig


def _serve(control_plane: ControlPlane, kubeconfig: Path, stop: threading.Event) -> None:
    with control_plane.client(kubeconfig) as client:
        api = CoreV1Api(client)
        while not stop.wait(POLL_S):
            with suppress(ApiException, HTTPError):  # what could not be done the next look does
                _look(api)


def _look(api: CoreV1Api) -> None:
    answer: Any = api.list_pod_for_all_namespaces(resource_version="0", _preload_content=False)
    for pod in json.loads(answer.data)["items"]:
        annotations = pod["metadata"].get("annotations", {})
        if pod["spec"].get("nodeName") not in (None, REAL_NODE) and annotations.get(PHASE) == "allocating":
            _allocate(api, pod, annotations)


def _allocate(api: CoreV1Api, pod: dict[str, Any], annotations: dict[str, str]) -> None:
    # Consumed segments stay empty, and for each container one ";" more is written behind them.
    segments = annotations.get(TO_ALLOCATE, "").split(";")
    consumed = ";" * (len(segments) - 1 + sum(map(bool, segments)))
    metadata = pod["metadata"]
    done: Any = {"metadata": {"annotations": {TO_ALLOCATE: consumed, PHASE: "success"}}}
    unlocked: Any = {"metadata": {"annotations": {LOCK: None}}}
    try:
        api.patch_namespaced_pod(metadata["name"], metadata["namespace"], done)
    except ApiException as error:
        if error.status != 404:  # a test may have deleted it
            raise
    api.patch_node(pod["spec"]["nodeName"], unlocked)
