"""Kueue's real manager and the planner: whose gate goes first, what counts as not ready, and who chooses nodes."""

import os
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.controller_manager import running_controller_manager
from tests.control_plane.hami.cluster import BRIDGED, Cluster, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.kueue import ADMISSION, QUEUE_NAME, TOPOLOGY, Kueue, running_kueue
from tests.control_plane.hami.nodes import node_manifest
from tests.control_plane.hami.placed import (
    DENY,
    given,
    is_gated,
    label,
    pinned,
    placed_as,
    reason,
    splits_both_pairs,
    train,
)
from tests.control_plane.hami.planning import Planner
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team
from tests.control_plane.manifests import request as ask
from tests.go_programs.build import sources
from tests.go_programs.catalogue import KUBE_CONTROLLER_MANAGER, KUEUE
from tests.go_programs.left_out import GetProgram
from tests.programs.server.conftest import until

# Kueue sees nothing of HAMi but the resources of pods, so one release will do.
pytestmark = [pytest.mark.cluster, pytest.mark.parametrize("release", ["2.10.0"]), pytest.mark.long]

PLACE = "gpu.topology/place"
CARDS = 4
"""Of the node whose cards are linked in pairs."""
PRODUCT = "nvidia.com/gpu.product"
BY_HOST = {"kueue.x-k8s.io/podset-required-topology": "kubernetes.io/hostname"}


@pytest.fixture
def kueue(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    planner: Planner,  # noqa: ARG001 - it outlives the pods
    go_program: GetProgram,
    tmp_path: Path,
) -> Iterator[Kueue]:
    """Kueue's manager, with the settings of the test, and the controller that makes the pods of Jobs."""
    plane, manager = cluster.control_plane, go_program(KUEUE)
    settings: dict[str, Any] = getattr(request, "param", {})
    controllers = go_program(KUBE_CONTROLLER_MANAGER)
    with (
        running_controller_manager(plane, controllers, tmp_path / "controllers.log", only=["job-controller"]),
        running_kueue(plane, manager, sources(KUEUE, os.environ), tmp_path, **settings) as kueue,
    ):
        yield kueue


@pytest.fixture
def team(kueue: Kueue, new_team: NewTeam) -> Iterator[Team]:
    """A namespace whose pods wait for Kueue and for the planner."""
    team = new_team(injection="enabled")
    team.changed = True  # queues and workloads stay there
    yield team
    path = jobs_path(team)
    ask(team.control_plane, "DELETE", path, params={"propagationPolicy": "Background"})
    until(lambda: not ask(team.control_plane, "GET", path).json()["items"], "no Job")
    assert kueue.program.process.poll() is None


def jobs_path(team: Team) -> str:
    return f"/apis/batch/v1/namespaces/{team.namespace}/jobs"


def gates(stored: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in stored["spec"].get("schedulingGates", ())]


def queued(written: dict[str, Any], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """The pod or Job, in the queue of its namespace."""
    written["metadata"].setdefault("labels", {})[QUEUE_NAME] = "team"
    written["metadata"].setdefault("annotations", {}).update(annotations or {})
    return written


def runs_job(team: Team, template: dict[str, Any]) -> None:
    """A Job of one such pod, in the queue."""
    spec = template["spec"] | {"restartPolicy": "Never"}
    body = {"template": {"metadata": {"annotations": template["metadata"]["annotations"]}, "spec": spec}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": body}
    answer = ask(team.control_plane, "POST", jobs_path(team), json=queued(job))
    assert answer.status_code == HTTPStatus.CREATED, answer.text


def pods_of_job(team: Team) -> list[str]:
    """The names of the pods of the Job that are there."""
    path = f"/api/v1/namespaces/{team.namespace}/pods"
    found = ask(team.control_plane, "GET", path, params={"labelSelector": "job-name=job"}).json()["items"]
    return [each["metadata"]["name"] for each in found]


def pod_of_job(team: Team) -> str:
    """The name of its only pod, once it is there."""
    until(lambda: bool(pods_of_job(team)), "a pod of the Job")
    (name,) = pods_of_job(team)
    return name


def test_the_planner_chooses_when_kueue_has_admitted_the_pod(kueue: Kueue, team: Team) -> None:
    kueue.queue(team.namespace, cards=CARDS, stopped=True)
    created = team.creates(queued(train()))
    assert gates(created) == [PLACE, ADMISSION, TOPOLOGY]
    until(placed_as(team, "train", "OtherGates"), "a pod that waits for Kueue")
    until(lambda: bool(kueue.workload(team.namespace)), "a Workload")
    waiting = team.pod("train")
    assert (gates(waiting), pinned(waiting)) == ([PLACE, ADMISSION, TOPOLOGY], [])
    kueue.queue(team.namespace, cards=CARDS)
    assert given(team.bound("train")) in ([0, 1], [2, 3])
    assert kueue.condition(team.namespace, "Admitted")["status"] == "True"


@pytest.mark.parametrize("kueue", [{"excluded": ()}], indirect=True)
def test_kueue_admits_no_injected_pod_unless_what_hami_counts_beside_cards_needs_no_quota(
    kueue: Kueue, team: Team
) -> None:
    kueue.queue(team.namespace, cards=CARDS)
    team.creates(queued(train()))
    until(lambda: "in ClusterQueue" in kueue.condition(team.namespace, "QuotaReserved").get("message", ""), "a refusal")
    refusal = kueue.condition(team.namespace, "QuotaReserved")["message"]
    assert "resource nvidia.com/gpu" in refusal
    assert reason(team.pod("train")) == "OtherGates"


def test_a_job_that_waits_for_cards_counts_as_admitted_and_runs_when_they_are_free(kueue: Kueue, team: Team) -> None:
    kueue.queue(team.namespace, cards=CARDS)
    splits_both_pairs(team)
    runs_job(team, train(options=DENY))
    name = pod_of_job(team)
    until(placed_as(team, name, "RequirementNotMet"), "a pod that waits for a pair")
    assert gates(team.pod(name)) == [PLACE]
    assert kueue.condition(team.namespace, "Admitted")["status"] == "True"
    team.deletes("slice-1")
    assert given(team.bound(name)) == [0, 1]
    assert not kueue.condition(team.namespace, "Evicted")


@pytest.mark.parametrize("kueue", [{"ready_within": "5s"}], indirect=True)
def test_with_wait_for_pods_ready_kueue_evicts_a_job_whose_pod_waits_for_cards(kueue: Kueue, team: Team) -> None:
    kueue.queue(team.namespace, cards=CARDS)
    splits_both_pairs(team)
    runs_job(team, train(options=DENY))
    name = pod_of_job(team)
    assert is_gated(team.pod(name))
    until(lambda: kueue.condition(team.namespace, "Evicted").get("status") == "True", "an eviction")
    assert kueue.condition(team.namespace, "Evicted")["reason"] == "PodsReadyTimeout"
    until(lambda: not pods_of_job(team), "a Job without pods")


def places_by_host(kueue: Kueue, team: Team) -> dict[str, Any]:
    """A pod of two cards for whose queue Kueue names the node; labels of its flavor."""
    labels = {PRODUCT: node_manifest(topologies()[1])["metadata"]["labels"][PRODUCT]}
    kueue.queue(team.namespace, cards=CARDS, on=labels)
    return labels


def test_where_kueue_names_the_node_the_planner_chooses_among_its_cards(kueue: Kueue, team: Team) -> None:
    labels = places_by_host(kueue, team)
    runs_job(team, pod("train", container(gpus=2), annotations=BY_HOST))
    name = pod_of_job(team)
    bound = team.bound(name)
    assert bound["spec"]["nodeSelector"] == labels | {"kubernetes.io/hostname": BRIDGED}
    assert label(bound) == "pinned"
    assert given(bound) in ([0, 1], [2, 3])


def test_kueue_names_no_node_for_a_plain_pod_because_none_has_what_hami_counts_beside_cards(
    kueue: Kueue, team: Team
) -> None:
    places_by_host(kueue, team)
    team.creates(queued(pod("train", container(gpus=2), annotations=BY_HOST)))
    until(lambda: "excluded" in kueue.condition(team.namespace, "QuotaReserved").get("message", ""), "a refusal")
    assert 'resource "nvidia.com/gpu' in kueue.condition(team.namespace, "QuotaReserved")["message"]
    assert gates(team.pod("train")) == [PLACE, ADMISSION, TOPOLOGY]
