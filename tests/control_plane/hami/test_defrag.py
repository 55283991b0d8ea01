"""``gpu-topology defrag`` with the real HAMi and controllers of Kubernetes: what is planned happens, or it stops."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import AppsV1Api, PolicyV1Api

from tests.cli.command import gpu_topology
from tests.control_plane.controller_manager import running_controller_manager
from tests.control_plane.hami.cluster import BRIDGED, Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import given, slice_of, train
from tests.control_plane.hami.planning import placing
from tests.control_plane.hami.team import Team
from tests.go_programs.catalogue import KUBE_CONTROLLER_MANAGER
from tests.go_programs.left_out import GetProgram
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]
CONTROLLERS = ("deployment", "replicaset", "statefulset", "disruption")
LABELS = {"app": "serve"}


@pytest.fixture
def team(
    cluster: Cluster,
    tmp_path: Path,
    new_team: NewTeam,
    go_program: GetProgram,
    registration: None,  # noqa: ARG001 - comes first
) -> Iterator[Team]:
    """A namespace whose pods the planner places, and whose Deployments and StatefulSets have pods."""
    program, log = go_program(KUBE_CONTROLLER_MANAGER), tmp_path / "controllers.log"
    with (
        placing(cluster.ours, tmp_path),
        running_controller_manager(cluster.control_plane, program, log, only=CONTROLLERS),
    ):
        team = new_team(injection="enabled")
        yield team
        apps = AppsV1Api(team.admin.api_client)
        apps.delete_collection_namespaced_deployment(team.namespace)
        apps.delete_collection_namespaced_replica_set(team.namespace)
        apps.delete_collection_namespaced_stateful_set(team.namespace)
        PolicyV1Api(team.admin.api_client).delete_collection_namespaced_pod_disruption_budget(team.namespace)
        team.ends()


def workload(kind: str, **options: str) -> dict[str, Any]:
    """One pod with one card, whose end takes no time."""
    pod = train("serve", gpus=1, options={"inject": "true", **options}, terminationGracePeriodSeconds=0)
    template = {"metadata": {"labels": LABELS, "annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "serve"}, "spec": spec}


def runs(team: Team, kind: str, beside: int, free: tuple[int, ...], **options: str) -> str:
    """A pod of a workload runs on the one card that was left; others go afterwards. Returns its name.

    Args:
        team: The namespace.
        kind: The kind of the workload.
        beside: The card that another pod keeps.
        free: The cards that become free when the pod runs.
        options: The options of the workload.
    """
    for card in (beside, *free):
        team.creates(slice_of(card))
        team.bound(f"slice-{card}")
    apps = AppsV1Api(team.admin.api_client)
    manifest: Any = workload(kind, **options)
    if kind == "Deployment":
        apps.create_namespaced_deployment(team.namespace, manifest)
    else:
        apps.create_namespaced_stateful_set(team.namespace, manifest)
    name = is_created(team)
    team.bound(name)
    team.started(name)
    ready: Any = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-25T00:00:00Z"}
    body: Any = {"status": {"startTime": "2026-11-25T00:00:00Z", "conditions": [ready]}}
    team.admin.patch_namespaced_pod_status(name, team.namespace, body)
    for card in free:
        team.deletes(f"slice-{card}")
    return name


def pods_of(team: Team) -> list[str]:
    answer: Any = team.admin.list_namespaced_pod(team.namespace, label_selector="app=serve", _preload_content=False)
    return [pod["metadata"]["name"] for pod in json.loads(answer.data)["items"]]


def is_created(team: Team) -> str:
    until(lambda: bool(pods_of(team)), "a pod of the workload")
    (name,) = pods_of(team)
    return name


def defrag(cluster: Cluster, *options: str) -> tuple[int, str]:
    kubeconfig = cluster.control_plane.kubeconfig
    done = gpu_topology(
        "defrag",
        "--kubeconfig",
        kubeconfig,
        "--config",
        cluster.ours.directory / "config.yaml",
        "--min-age",
        "0",
        *options,
    )
    return done.code, done.out + done.err


@pytest.mark.parametrize(("kind", "beside", "card", "to"), [("Deployment", 0, 2, 1), ("StatefulSet", 2, 0, 3)])
def test_a_pod_is_moved_so_that_a_pair_comes_back(
    cluster: Cluster, team: Team, kind: str, beside: int, card: int, to: int
) -> None:
    free = tuple({0, 1, 2, 3} - {beside, card})
    name = runs(team, kind, beside, free)
    assert given(team.pod(name)) == [card]
    uid = team.pod(name)["metadata"]["uid"]
    code, said = defrag(cluster)
    assert code == 0
    assert f"{team.namespace}/{name}" in said
    assert f"{BRIDGED} GPU{to}" in said
    assert "+1 pair" in said
    assert team.pod(name)["metadata"]["uid"] == uid, "nothing is changed without --apply"

    code, said = defrag(cluster, "--apply", "--yes")
    assert code == 0, said
    (again,) = pods_of(team)
    assert team.pod(again)["metadata"]["uid"] != uid
    assert given(team.pod(again)) == [to]
