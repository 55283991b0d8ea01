"""Faults of HAMi that our webhook steers around: shown without us, and gone with us."""

from typing import Any

import pytest

from tests.control_plane.hami.cluster import BRIDGED, H20
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, annotations_of, cards_of

pytestmark = pytest.mark.cluster

POLICY = {"hami.io/gpu-scheduler-policy": "topology-aware"}


def takes_four_and_runs(team: Team, written: dict[str, Any]) -> set[str]:
    """The cards of the pod ``first``, which has the whole node, once it runs."""
    team.creates(written)
    bound = team.bound("first")
    team.started("first")
    return set(cards_of(bound)[0])


def cards_of_the_next(team: Team) -> set[str]:
    """The cards of another exclusive pod for the same node."""
    team.creates(pod("second", container(gpus=4), node=BRIDGED))
    return set(cards_of(team.bound("second"))[0])


@pytest.mark.parametrize("release", ["2.10.0"], indirect=True)
def test_hami_2_10_0_gives_the_cards_of_a_running_pod_with_an_init_container_away(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    ours = takes_four_and_runs(team, pod("first", container(gpus=4), node=BRIDGED, initContainers=[container("fetch")]))
    assert cards_of_the_next(team) == ours


@pytest.mark.long
@pytest.mark.usefixtures("registration")
@pytest.mark.parametrize("release", ["2.10.0"], indirect=True)
def test_so_it_does_where_somebody_wants_our_remap_container_as_an_ordinary_one(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    ours = takes_four_and_runs(team, pod("first", container(gpus=4), node=BRIDGED, annotations={"remap": "init"}))
    assert cards_of_the_next(team) == ours


@pytest.mark.usefixtures("registration")
def test_with_our_remap_container_a_running_pod_keeps_its_cards(new_team: NewTeam, release: str) -> None:
    team = new_team(injection="enabled")
    takes_four_and_runs(team, pod("first", container(gpus=4), node=BRIDGED))
    (remap,) = team.pod("first")["spec"]["initContainers"]
    assert remap.get("restartPolicy") == {"2.9.0": None, "2.10.0": "Always"}[release]
    team.creates(pod("second", container(gpus=4), node=BRIDGED))
    assert "no available node" in team.told("second", "no available node")
    assert "nodeName" not in team.pod("second")["spec"]


def ends_and_runs_again(team: Team, code: int) -> None:
    """The kubelet ends the sidecar of ``first``, because its probe failed, and starts it again."""
    name = team.pod("first")["spec"]["initContainers"][0]["name"]
    for state in ({"terminated": {"exitCode": code}}, {"running": {"startedAt": "2026-11-20T21:55:20Z"}}):
        about = {"name": name, "image": "x", "imageID": "", "ready": True, "restartCount": 1, "state": state}
        body: Any = {"status": {"initContainerStatuses": [about]}}
        team.admin.patch_namespaced_pod_status("first", team.namespace, body)


@pytest.mark.long
@pytest.mark.usefixtures("registration")
@pytest.mark.parametrize("release", ["2.10.0"], indirect=True)
@pytest.mark.parametrize(("code", "is_kept"), [(143, True), (0, False)])
def test_a_sidecar_that_is_started_again_keeps_the_cards_because_it_ends_with_143(
    new_team: NewTeam, *, code: int, is_kept: bool
) -> None:
    team = new_team(injection="enabled")
    ours = takes_four_and_runs(team, pod("first", container(gpus=4), node=BRIDGED))
    ends_and_runs_again(team, code)
    if is_kept:
        team.creates(pod("second", container(gpus=4), node=BRIDGED))
        assert "no available node" in team.told("second", "no available node")
    else:
        assert cards_of_the_next(team) == ours


@pytest.mark.long
@pytest.mark.usefixtures("registration")
@pytest.mark.parametrize("release", ["2.10.0"], indirect=True)
def test_our_sidecar_also_keeps_the_cards_of_a_pod_with_an_init_container_of_its_own(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    takes_four_and_runs(team, pod("first", container(gpus=4), node=BRIDGED, initContainers=[container("fetch")]))
    team.creates(pod("second", container(gpus=4), node=BRIDGED))
    team.told("second", "no available node")
    assert "nodeName" not in team.pod("second")["spec"]


@pytest.mark.long
@pytest.mark.parametrize("release", ["2.9.0"], indirect=True)
def test_hami_2_9_0_binds_without_a_gpu_what_asks_for_its_policy_where_there_are_no_scores(new_team: NewTeam) -> None:
    team = new_team()
    team.creates(pod("train", container(gpus=4), node=H20, annotations=POLICY))
    bound = team.bound("train")
    assert bound["spec"]["nodeName"] == H20
    assert cards_of(bound) == []


@pytest.mark.long
@pytest.mark.usefixtures("registration")
@pytest.mark.parametrize("release", ["2.9.0"], indirect=True)
def test_our_webhook_does_not_ask_hami_2_9_0_for_it_and_warns_who_does(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    answer = team.asks_for(pod("asks", container(gpus=4), node=H20, annotations=POLICY), dry_run=True)
    assert any("topology-aware: HAMi before 2.10 gives the pod no GPUs" in warning for warning in answer.warnings)
    team.creates(pod("train", container(gpus=4), node=H20))
    bound = team.bound("train")
    assert "hami.io/gpu-scheduler-policy" not in annotations_of(bound)
    assert len(cards_of(bound)[0]) == 4


@pytest.mark.long
@pytest.mark.parametrize("release", ["2.10.0"], indirect=True)
def test_hami_2_10_0_takes_the_first_cards_where_there_are_no_scores(new_team: NewTeam) -> None:
    team = new_team()
    team.creates(pod("train", container(gpus=4), node=H20, annotations=POLICY))
    assert len(cards_of(team.bound("train"))[0]) == 4
