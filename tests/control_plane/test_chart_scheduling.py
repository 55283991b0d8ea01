"""Replicas of the webhook at a real kube-scheduler: with ports of nodes, a node has one of them at most."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from tests.chart.helm import Helm, pick
from tests.chart.rendered import WEBHOOK
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.kube_scheduler import create_node_for, running_kube_scheduler
from tests.control_plane.manifests import apply
from tests.go_programs.catalogue import KUBE_SCHEDULER
from tests.go_programs.left_out import GetProgram
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SCHEDULER = "of-the-chart"
"""Looks at no other pods that the control plane has."""
NODES = ("chart-node-1", "chart-node-2")
REPLICAS = 3


@pytest.fixture
def scheduler(control_plane: ControlPlane, go_program: GetProgram, tmp_path: Path) -> Iterator[None]:
    program = go_program(KUBE_SCHEDULER)
    with running_kube_scheduler(program, control_plane.kubeconfig, tmp_path, name=SCHEDULER):
        yield


@pytest.fixture
def nodes(admin: CoreV1Api) -> Iterator[None]:
    for name in NODES:
        create_node_for(admin, SCHEDULER, name)
    yield
    for name in NODES:
        admin.delete_node(name)


@pytest.mark.usefixtures("nodes", "scheduler")  # the scheduler knows all nodes before it looks at a pod
@pytest.mark.parametrize("case", ["host-network", ""])
def test_a_node_has_one_replica_at_most_if_its_ports_are_taken(
    helm: Helm, control_plane: ControlPlane, admin: CoreV1Api, namespace: str, case: str
) -> None:
    objects = helm.objects(*([case] if case else []), namespace=namespace)
    assert apply(control_plane, pick(objects, "ServiceAccount", "gpu-topology-webhook")).status_code == 201
    template = pick(objects, *WEBHOOK)["spec"]["template"]
    spec = template["spec"] | {"schedulerName": SCHEDULER, "nodeSelector": {"for": SCHEDULER}}
    for number in range(REPLICAS):
        pod: Any = {"metadata": template["metadata"] | {"name": f"webhook-{number}"}, "spec": spec}
        admin.create_namespaced_pod(namespace, pod)

    def pods() -> list[Any]:
        found: list[Any] = admin.list_namespaced_pod(namespace).items
        return found

    until(lambda: all(pod.spec.node_name or pod.status.conditions for pod in pods()), "kube-scheduler has looked")
    placed = sorted(pod.spec.node_name for pod in pods() if pod.spec.node_name)
    waiting = [pod.status.conditions[0].message for pod in pods() if not pod.spec.node_name]
    if case:
        assert placed == list(NODES)
        assert len(waiting) == 1
        assert "didn't have free ports for the requested pod ports" in waiting[0]
    else:
        assert (len(placed), set(placed)) == (REPLICAS, set(NODES))
    for pod in pods():
        admin.delete_namespaced_pod(pod.metadata.name, namespace, grace_period_seconds=0)
