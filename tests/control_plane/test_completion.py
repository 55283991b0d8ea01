"""Completion of the command line at a real API server, which answers with names alone."""

import pytest
from kubernetes.client import CoreV1Api, V1Node, V1ObjectMeta

from tests.cli.test_candidates import complete
from tests.control_plane.accounts import permitted
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import created, gpu_pod

pytestmark = pytest.mark.cluster


def test_names_come_from_the_api_server(
    admin: CoreV1Api, control_plane: ControlPlane, namespace: str, request: pytest.FixtureRequest
) -> None:
    created(control_plane, namespace, gpu_pod("train", {}))
    node = f"node-of-{namespace}"
    admin.create_node(V1Node(metadata=V1ObjectMeta(name=node)))
    request.addfinalizer(lambda: admin.delete_node(node))
    kubeconfig = control_plane.kubeconfig
    assert complete(kubeconfig, f"explain -n {namespace} tr") == ["train"]
    assert complete(kubeconfig, f"explain {namespace}/tr") == [f"{namespace}/train"]
    assert namespace in complete(kubeconfig, f"explain -n {namespace}")
    assert node in complete(kubeconfig, f"explain --node {node}")


def test_a_person_without_permissions_gets_none(admin: CoreV1Api, control_plane: ControlPlane, namespace: str) -> None:
    created(control_plane, namespace, gpu_pod("train", {}))
    kubeconfig = permitted(admin, control_plane, namespace, "person", ())
    assert complete(kubeconfig, f"explain -n {namespace} tr") == []
