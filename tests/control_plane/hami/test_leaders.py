"""A LeaderWorkerSet whose leader has one card and whose workers have four, with the real HAMi.

Its own controller does not run: pods are written as it and its webhook write them (sigs.k8s.io/lws
pkg/controllers/pod_controller.go, pkg/webhooks/pod_webhook.go).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.custom_resources import serve
from tests.control_plane.hami.cluster import BRIDGED, H20, Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import choice, is_gated, placed_as
from tests.control_plane.hami.planning import Planner, placing
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, cards_of
from tests.control_plane.manifests import apply, request
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]

LWS, API = "leaderworkerset.sigs.k8s.io", "leaderworkerset.x-k8s.io/v1"
DENY = {"on-violation": "deny"}
SIZE, CARDS = 3, 4
FULL_SECONDS = 600
"""So long that no pod of these tests goes on because its time is over."""


@pytest.fixture
def planner(cluster: Cluster, tmp_path: Path, registration: None) -> Iterator[Planner]:  # noqa: ARG001 - comes first
    serve(cluster.control_plane, API, "LeaderWorkerSet", "leaderworkersets")
    with placing(cluster.ours, tmp_path, settings={"fullSeconds": FULL_SECONDS}) as planner:
        yield planner


@pytest.fixture
def team(planner: Planner, new_team: NewTeam) -> Iterator[Team]:  # noqa: ARG001 - stays until its pods are gone
    team = new_team(injection="enabled")
    yield team
    for path in (f"/apis/apps/v1/namespaces/{team.namespace}/statefulsets", set_path(team)):
        request(team.control_plane, "DELETE", path)


def set_path(team: Team) -> str:
    return f"/apis/{API}/namespaces/{team.namespace}/leaderworkersets"


def created(control_plane: ControlPlane, manifest: dict[str, Any]) -> dict[str, Any]:
    """The object, as an owner of others."""
    answer = apply(control_plane, manifest)
    assert answer.status_code in {httpx.codes.OK, httpx.codes.CREATED}, answer.text
    metadata = answer.json()["metadata"]
    of = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}
    return of | {"name": metadata["name"], "uid": metadata["uid"], "controller": True}


def worker_template() -> dict[str, Any]:
    return {
        "metadata": {"annotations": {"gpu.topology/inject": "true"}},
        "spec": {"containers": [container(gpus=CARDS)]},
    }


def deploys(team: Team, *, startup: str = "LeaderReady", revision: str = "r1") -> dict[str, Any]:
    """The LeaderWorkerSet, and the StatefulSet of its leaders, which is returned as their owner."""
    metadata: dict[str, Any] = {"name": "serve", "namespace": team.namespace}
    spec = {"startupPolicy": startup, "leaderWorkerTemplate": {"size": SIZE, "workerTemplate": worker_template()}}
    owner = created(
        team.control_plane, {"apiVersion": API, "kind": "LeaderWorkerSet", "metadata": metadata, "spec": spec}
    )
    labels = {f"{LWS}/name": "serve"}
    leaders = {
        "replicas": 1,
        "podManagementPolicy": "Parallel",
        "serviceName": "serve",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container(gpus=1)]}},
    }
    metadata = metadata | {"labels": {f"{LWS}/template-revision-hash": revision}, "ownerReferences": [owner]}
    return created(
        team.control_plane, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": leaders}
    )


def written(team: Team, name: str, index: int, cards: int, owner: dict[str, Any], options: Mapping[str, str]) -> None:
    """A pod of the one group."""
    found = pod(name, container(gpus=cards), annotations={"inject": "true", f"{LWS}/size": str(SIZE), **options})
    found["metadata"]["ownerReferences"] = [owner]
    found["metadata"]["labels"] = {
        f"{LWS}/name": "serve",
        f"{LWS}/group-index": "0",
        f"{LWS}/group-key": "8bb1f4e5",
        f"{LWS}/worker-index": str(index),
        f"{LWS}/template-revision-hash": "r1",
    }
    assert is_gated(team.creates(found))


def leader(team: Team, owner: dict[str, Any], options: Mapping[str, str] | None = None) -> None:
    written(team, "serve-0", 0, 1, owner, options or {})


def workers(team: Team) -> list[str]:
    """As their controller creates them when the leader is ready: all at once."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "serve-0", "uid": "11f5", "controller": True}
    names = [f"serve-0-{index}" for index in range(1, SIZE)]
    for index, name in enumerate(names, 1):
        written(team, name, index, CARDS, owner, {})
    return names


def takes_one_card_of_the_small_node(team: Team) -> None:
    """So that it cannot serve a worker."""
    team.creates(pod("small", container(gpus=1), node=BRIDGED, annotations={"place": "off"}))
    team.bound("small")


def test_a_leader_goes_first_and_its_workers_get_what_nobody_else_got(team: Team) -> None:
    takes_one_card_of_the_small_node(team)
    leader(team, deploys(team))
    bound = team.bound("serve-0")
    sets = choice(bound)["later"]["sets"]
    assert [(held["node"], len(held["cards"])) for held in sets] == [(H20, CARDS), (H20, CARDS)]
    assert bound["spec"]["nodeName"] == BRIDGED
    team.told("serve-0", "GT638")
    team.creates(pod("stranger", container(gpus=CARDS), annotations=DENY))
    until(placed_as(team, "stranger", "NoFreeCards"), "a stranger without cards")
    names = workers(team)
    given = [card for name in names for cards in cards_of(team.bound(name)) for card in cards]
    assert sorted(given) == sorted(card for held in sets for card in held["cards"])
    for name in names:
        team.deletes(name)
    team.deletes("serve-0")
    assert team.bound("stranger")["spec"]["nodeName"] == H20


@pytest.mark.parametrize("denies", [True, False])
def test_without_room_for_its_workers_a_leader_that_denies_waits_and_one_that_warns_goes_on(
    team: Team, *, denies: bool
) -> None:
    takes_one_card_of_the_small_node(team)
    team.creates(pod("busy", container(gpus=1), node=H20, annotations={"place": "off"}))
    team.bound("busy")
    leader(team, deploys(team), DENY if denies else {})
    if not denies:
        assert "later" not in choice(team.bound("serve-0"))
        team.told("serve-0", "GT635")
        return
    until(placed_as(team, "serve-0", "NoFreeCards"), "a leader that waits for the cards of its workers")
    team.told("serve-0", "GT676")
    assert is_gated(team.pod("serve-0"))
    team.deletes("busy")
    assert len(choice(team.bound("serve-0"))["later"]["sets"]) == SIZE - 1


def test_a_leader_whose_workers_are_created_beside_it_gets_cards_together_with_them(team: Team) -> None:
    leader(team, deploys(team, startup="LeaderCreated"))
    until(placed_as(team, "serve-0", "GroupIncomplete"), "a leader that waits for its workers")
    names = ["serve-0", *workers(team)]
    bound = [team.bound(name) for name in names]
    assert [len(cards) for each in bound for cards in cards_of(each)] == [1, CARDS, CARDS]
    assert {choice(each)["together"] for each in bound} == {SIZE}
