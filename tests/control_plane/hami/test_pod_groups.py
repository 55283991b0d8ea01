"""Groups that other projects name, with the real HAMi: pods and objects as their controllers write them.

mpi-operator and training-operator write the label of scheduler-plugins, Volcano's controller of jobs its annotation
(volcano.sh/apis pkg/apis/scheduling/v1beta1), and users of Kueue the labels of a group of plain pods.
"""

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.custom_resources import serve
from tests.control_plane.hami.cluster import H20, Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import choice, is_gated, placed_as
from tests.control_plane.hami.planning import Planner, placing
from tests.control_plane.hami.pods import container, owned_by, pod
from tests.control_plane.hami.team import Team, cards_of
from tests.control_plane.manifests import apply, request
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]

GROUPS = {"scheduler-plugins": "scheduling.x-k8s.io/v1alpha1", "volcano": "scheduling.volcano.sh/v1beta1"}
KUEUE_GATE = "kueue.x-k8s.io/admission"
SHAPE = {"gang-0": 2, "gang-1": 4}
FULL_SECONDS = 600


@pytest.fixture
def planner(cluster: Cluster, tmp_path: Path, registration: None) -> Iterator[Planner]:  # noqa: ARG001 - comes first
    for api in GROUPS.values():
        serve(cluster.control_plane, api, "PodGroup", "podgroups")
    with placing(cluster.ours, tmp_path, settings={"fullSeconds": FULL_SECONDS}) as planner:
        yield planner


@pytest.fixture
def team(planner: Planner, new_team: NewTeam) -> Iterator[Team]:  # noqa: ARG001 - stays until its pods are gone
    team = new_team(injection="enabled")
    yield team
    for api in GROUPS.values():
        request(team.control_plane, "DELETE", f"/apis/{api}/namespaces/{team.namespace}/podgroups")


def group(team: Team, project: str, least: int) -> None:
    """The PodGroup of the pods."""
    manifest = {
        "apiVersion": GROUPS[project],
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": team.namespace},
        "spec": {"minMember": least},
    }
    assert apply(team.control_plane, manifest).status_code == HTTPStatus.CREATED


def of_scheduler_plugins(name: str, cards: int) -> dict[str, Any]:
    """A worker of an MPIJob."""
    written = _pod(name, cards)
    written["metadata"]["labels"] = {
        "scheduling.x-k8s.io/pod-group": "gang",
        "training.kubeflow.org/job-name": "gang",
        "training.kubeflow.org/job-role": "worker",
    }
    return owned_by("Job", "gang", written)


def of_volcano(name: str, cards: int) -> dict[str, Any]:
    """A pod of a Job of Volcano that names HAMi's scheduler."""
    annotations = {
        "scheduling.k8s.io/group-name": "gang",
        "volcano.sh/job-name": "gang",
        "volcano.sh/task-spec": "worker",
    }
    written = _pod(name, cards, annotations)
    written["metadata"]["labels"] = {"volcano.sh/job-name": "gang", "volcano.sh/job-namespace": "team"}
    return owned_by("Job", "gang", written)


def _pod(name: str, cards: int, annotations: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    options = {"inject": "true", "on-violation": "deny", **(annotations or {})}
    return pod(name, container(gpus=cards), node=H20, annotations=options, **spec)


PODS: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "scheduler-plugins": of_scheduler_plugins,
    "volcano": of_volcano,
}


@pytest.mark.parametrize("project", list(GROUPS))
def test_the_pods_of_a_group_get_cards_together_when_all_are_there(team: Team, project: str) -> None:
    group(team, project, len(SHAPE))
    first, last = SHAPE
    assert is_gated(team.creates(PODS[project](first, SHAPE[first])))
    until(placed_as(team, first, "GroupIncomplete"), "a pod that waits for the rest of its group")
    team.creates(PODS[project](last, SHAPE[last]))
    have_cards_together(team)


@pytest.mark.parametrize("project", list(GROUPS))
def test_pods_that_are_created_before_their_group_wait_for_it(team: Team, project: str) -> None:
    for name, cards in SHAPE.items():
        assert is_gated(team.creates(PODS[project](name, cards)))
    for name in SHAPE:
        team.told(name, "GT677")
    group(team, project, len(SHAPE))
    have_cards_together(team)


def test_a_group_without_room_for_all_gets_nothing(team: Team) -> None:
    team.creates(pod("busy", container(gpus=3), node=H20, annotations={"place": "off"}))
    team.bound("busy")
    group(team, "volcano", len(SHAPE))
    for name, cards in SHAPE.items():
        team.creates(of_volcano(name, cards))
    for name in SHAPE:
        until(placed_as(team, name, "NoFreeCards"), f"{name} without cards")
    team.deletes("busy")
    have_cards_together(team)


def test_plain_pods_of_kueue_get_cards_together_when_it_has_let_them_go(team: Team) -> None:
    for name, cards in SHAPE.items():
        count = {"kueue.x-k8s.io/pod-group-total-count": str(len(SHAPE))}
        written = _pod(name, cards, count, schedulingGates=[{"name": KUEUE_GATE}])
        written["metadata"]["labels"] = {"kueue.x-k8s.io/pod-group-name": "gang", "kueue.x-k8s.io/managed": "true"}
        team.creates(written)
    for name in SHAPE:
        until(placed_as(team, name, "OtherGates"), f"{name} waits for Kueue")
        opens(team, name)
    have_cards_together(team)


def opens(team: Team, name: str) -> None:
    """As Kueue does it when it has admitted the group."""
    gates = [gate for gate in team.pod(name)["spec"]["schedulingGates"] if gate["name"] != KUEUE_GATE]
    body: Any = [{"op": "replace", "path": "/spec/schedulingGates", "value": gates}]
    team.admin.patch_namespaced_pod(name, team.namespace, body)


def have_cards_together(team: Team) -> None:
    bound = [team.bound(name) for name in SHAPE]
    assert [len(cards) for each in bound for cards in cards_of(each)] == list(SHAPE.values())
    assert {choice(each)["together"] for each in bound} == {len(SHAPE)}
