"""Pods of the chart and pods that we inject, under the rules of OpenShift's SCC restricted-v2 at a real API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from tests.chart.generated import CHART
from tests.chart.helm import Helm
from tests.chart.rendered import AGENT, PLACES, PLANNER, RELEASE_JOB, WEBHOOK
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import apply, path_of, request
from tests.control_plane.openshift import ANNOTATIONS, FIRST, policies
from tests.control_plane.registration import Answer, create_pod, gpu_container, gpu_pod, registered
from tests.control_plane.test_chart import pod_of
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

OPENSHIFT = f"--values={CHART / 'values-openshift.yaml'}"
FIXED_USER = gpu_container("worker", securityContext={"runAsUser": 65532, "allowPrivilegeEscalation": False})
PLAIN = gpu_container("worker", securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}})
"""What OpenShift asks of a pod that brings nothing else of its own."""


@pytest.fixture
def project(control_plane: ControlPlane, admin: CoreV1Api, namespace: str) -> Iterator[str]:
    """A namespace as OpenShift makes them, in which the SCC is in force."""
    admin.patch_namespace(namespace, {"metadata": {"annotations": ANNOTATIONS}})
    rules = policies(namespace)
    try:
        for one in rules:
            answer = apply(control_plane, one)
            assert answer.status_code == 201, answer.text
        until(lambda: "restricted-v2" in created(control_plane, namespace, FIXED_USER).message, "the SCC in force")
        until(lambda: created(control_plane, namespace, PLAIN).status == 201, "an SCC that writes users")
        yield namespace
    finally:
        for one in rules:
            request(control_plane, "DELETE", path_of(one))


def created(control_plane: ControlPlane, namespace: str, container: dict[str, Any], **spec: Any) -> Answer:
    pod = gpu_pod("train", {}, container)
    pod["spec"] |= spec
    return create_pod(control_plane, namespace, pod, dry_run=True)


def answers(helm: Helm, control_plane: ControlPlane, project: str, *options: str) -> dict[tuple[str, str], Answer]:
    """What the API server says to the pods of the chart."""
    objects = helm.objects(namespace=project, options=[PLACES, *options])
    for account in (one for one in objects if one["kind"] == "ServiceAccount"):
        apply(control_plane, account)
    pods = {(one["kind"], one["metadata"]["name"]): pod_of(one) for one in objects if "template" in one.get("spec", {})}
    return {maker: create_pod(control_plane, project, pod, dry_run=True) for maker, pod in pods.items()}


@pytest.mark.parametrize(
    "options",
    [(OPENSHIFT,), ("--api-versions=security.openshift.io/v1",)],
    ids=["the values file", "seen from the API"],
)
def test_pods_of_the_chart_run_under_restricted_v2(
    helm: Helm, control_plane: ControlPlane, project: str, options: tuple[str, ...]
) -> None:
    found = answers(helm, control_plane, project, *options)
    assert found.keys() == {WEBHOOK, PLANNER, RELEASE_JOB, AGENT}
    assert [answer.message for answer in found.values() if answer.status != 201] == []
    for answer in found.values():
        (container,) = answer.body["spec"]["containers"]
        assert container["securityContext"]["runAsUser"] == FIRST


def test_elsewhere_they_name_a_user_that_restricted_v2_refuses(
    helm: Helm, control_plane: ControlPlane, project: str
) -> None:
    found = answers(helm, control_plane, project)
    assert {answer.status for answer in found.values()} == {422}
    assert all("runAsUser must be in the range" in answer.message for answer in found.values())


@pytest.mark.parametrize(
    ("option", "maker", "said"),
    [
        ("agent.hostSysfs=true", AGENT, "a kind of volume is not allowed"),
        ("webhook.hostNetwork.enabled=true", WEBHOOK, "host namespaces are not allowed"),
    ],
)
def test_what_the_page_says_needs_another_scc_is_refused(
    helm: Helm, control_plane: ControlPlane, project: str, option: str, maker: tuple[str, str], said: str
) -> None:
    found = answers(helm, control_plane, project, OPENSHIFT, f"--set={option}")
    assert {one for one, answer in found.items() if answer.status != 201} == {maker}
    assert said in found[maker].message


@pytest.mark.parametrize(("profile", "carrier"), [("exclusive", "init"), ("pod-peers", "sidecar")])
def test_an_injected_pod_gets_its_users_from_the_namespace(
    control_plane: ControlPlane, project: str, tmp_path: Path, profile: str, carrier: str
) -> None:
    options = {"gpu.topology/profile": profile, "gpu.topology/remap": carrier}
    with registered(control_plane, project, tmp_path, annotations=ANNOTATIONS):
        answer = create_pod(control_plane, project, gpu_pod("train", options, PLAIN))
    assert (answer.status, answer.warnings) == (201, []), answer.message
    containers = answer.body["spec"]["initContainers"] + answer.body["spec"]["containers"]
    assert [one["name"] for one in containers] == ["gpu-topology-remap", "worker"]
    assert {one["securityContext"]["runAsUser"] for one in containers} == {FIRST}


def test_host_namespaces_need_another_scc(control_plane: ControlPlane, project: str, tmp_path: Path) -> None:
    with registered(control_plane, project, tmp_path, annotations=ANNOTATIONS):
        answer = create_pod(control_plane, project, gpu_pod("train", {"gpu.topology/profile": "node-peers"}, PLAIN))
    assert answer.status == 422
    assert "restricted-v2: host namespaces are not allowed" in answer.message
