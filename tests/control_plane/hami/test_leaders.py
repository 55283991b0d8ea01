"""A LeaderWorkerSet whose leader has one card and whose workers have four, with the real HAMi.

Its own controller does not run: pods are written as it and its webhook write them (sigs.k8s.io/lws
pkg/controllers/pod_controller.go, pkg/webhooks/pod_webhook.go).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.control_plane.hami.cluster import Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import choice, is_gated
from tests.control_plane.hami.planning import Planner, placing
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, cards_of

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]

LWS = "leaderworkerset.sigs.k8s.io"
DENY = {"on-violation": "deny"}
SIZE, CARDS = 3, 4
FULL_SECONDS = 600
"""So long that no pod of these tests goes on because its time is over."""


@pytest.fixture
def planner(cluster: Cluster, tmp_path: Path, registration: None) -> Iterator[Planner]:  # noqa: ARG001 - comes first
    with placing(cluster.ours, tmp_path, settings={"fullSeconds": FULL_SECONDS}) as planner:
        yield planner


@pytest.fixture
def team(planner: Planner, new_team: NewTeam) -> Team:  # noqa: ARG001 - stays until its pods are gone
    return new_team(injection="enabled")


def written(team: Team, name: str, index: int, cards: int, maker: str, options: Mapping[str, str]) -> None:
    """A pod of the one group."""
    found = pod(name, container(gpus=cards), annotations={"inject": "true", f"{LWS}/size": str(SIZE), **options})
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": maker, "uid": "11f5", "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    found["metadata"]["labels"] = {
        f"{LWS}/name": "serve",
        f"{LWS}/group-index": "0",
        f"{LWS}/group-key": "8bb1f4e5",
        f"{LWS}/worker-index": str(index),
    }
    assert is_gated(team.creates(found))


def leader(team: Team, options: Mapping[str, str] | None = None) -> None:
    written(team, "serve-0", 0, 1, "serve", options or {})


def workers(team: Team) -> list[str]:
    """As their controller creates them: all at once, beside the leader or when it is ready."""
    names = [f"serve-0-{index}" for index in range(1, SIZE)]
    for index, name in enumerate(names, 1):
        written(team, name, index, CARDS, "serve-0", {})
    return names


@pytest.mark.parametrize("options", [{}, DENY])
def test_a_leader_goes_first_holds_nothing_for_its_workers_and_says_so(team: Team, options: Mapping[str, str]) -> None:
    leader(team, options)
    assert "later" not in choice(team.bound("serve-0"))
    team.told("serve-0", "GT635")
    names = workers(team)
    bound = [team.bound(name) for name in names]
    assert [len(cards) for each in bound for cards in cards_of(each)] == [CARDS, CARDS]


def test_a_leader_whose_workers_are_created_beside_it_gets_cards_together_with_them(team: Team) -> None:
    leader(team)
    names = ["serve-0", *workers(team)]
    bound = [team.bound(name) for name in names]
    assert [len(cards) for each in bound for cards in cards_of(each)] == [1, CARDS, CARDS]
    assert {choice(each)["together"] for each in bound} == {SIZE}
