"""Beside other webhooks and quotas, and gone without a trace."""

from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.hami.cluster import H20, Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.scheduler import USER
from tests.control_plane.hami.team import Team, annotations_of, cards_of, variables_of
from tests.control_plane.installation import registered
from tests.control_plane.other_webhook import ADDED, ADDED_INIT, running_other_webhook
from tests.programs.server.conftest import until

pytestmark = pytest.mark.cluster

SLICE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "20000", "nvidia.com/gpucores": "30"}


@pytest.fixture
def limited(new_team: NewTeam) -> Team:
    """A team that may have 90 per cent of one GPU, once HAMi knows."""
    team = new_team(
        injection="enabled", quota="cores"
    )  # one of its own: HAMi 2.9.0 may still count pods that have gone
    quota: Any = {"metadata": {"name": "cores"}, "spec": {"hard": {"limits.nvidia.com/gpucores": "90"}}}
    team.admin.create_namespaced_resource_quota(team.namespace, quota)
    team.changed = True
    whole = pod("whole", container(resources={"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}}))
    until(lambda: team.asks_for(whole, dry_run=True).status == 403, "HAMi's knowledge of the quota")
    return team


def test_hami_s_quota_counts_the_whole_cards_that_we_set(cluster: Cluster, limited: Team) -> None:
    asks = pod("slice", container(resources={"limits": SLICE}), annotations={"inject": "true"})
    assert limited.asks_for(asks, dry_run=True).status == 201  # 30 per cent without us
    with registered(cluster.ours, cluster.ours.registration(scheduler=USER)):
        answer = limited.asks_for(asks, dry_run=True)
    assert answer.status == 403
    assert answer.message.endswith('"vgpu.hami.io" denied the request: exceeding resource quota')


@pytest.mark.long
@pytest.mark.parametrize("release", ["2.10.0+overwriteEnv"], indirect=True)
@pytest.mark.parametrize("order", ["ours-first", "hami-first"])
def test_hami_s_overwritten_variable_does_not_blind_the_remap_container(
    cluster: Cluster, new_team: NewTeam, order: str
) -> None:
    name = {"ours-first": "gpu-topology-webhook", "hami-first": "z-gpu-topology-webhook"}[order]
    with registered(cluster.ours, cluster.ours.registration(name, scheduler=USER)):
        team = new_team(injection="enabled")
        stored = team.creates(pod("train", container(gpus=2), container("log"), node=H20))
        bound = team.bound("train")
    (remap,) = stored["spec"]["initContainers"]
    # HAMi appends none to every container without GPUs; the last one counts.
    assert variables_of(remap)["NVIDIA_VISIBLE_DEVICES"] == "metadata.annotations['gpu.topology/visible-uuids']"
    log = stored["spec"]["containers"][1]
    assert variables_of(log)["NVIDIA_VISIBLE_DEVICES"] == "none"
    assert set(annotations_of(bound)["gpu.topology/visible-uuids"].split(",")) == set(cards_of(bound)[0])


@pytest.mark.parametrize("again", ["IfNeeded", pytest.param("Never", marks=pytest.mark.long)])
def test_a_container_that_somebody_adds_after_us_is_prepared_too(
    cluster: Cluster, new_team: NewTeam, tmp_path: Path, again: str
) -> None:
    ours = cluster.ours.registration(scheduler=USER)
    ours["webhooks"][0]["reinvocationPolicy"] = again
    with running_other_webhook(tmp_path, "mesh") as other, registered(cluster.ours, ours, other):
        team = new_team(injection="enabled")
        until(lambda: has_both(team), "both webhooks")
        stored = team.creates(pod("train", container(gpus=2), node=H20))
        bound = team.bound("train")
    worker, added = stored["spec"]["containers"]
    assert variables_of(worker)["CUDA_DISABLE_CONTROL"] == "true"
    assert added["name"] == ADDED
    # Only because the API server asks us a second time.
    assert variables_of(added) == ({"CUDA_DISABLE_CONTROL": "true"} if again == "IfNeeded" else {})
    assert [each["name"] for each in stored["spec"]["initContainers"]] == ["gpu-topology-remap"]
    assert annotations_of(bound)["gpu.topology/link"] == "NVSwitch"


def has_both(team: Team) -> bool:
    answer = team.asks_for(pod("probe", container(gpus=2)), dry_run=True)
    if answer.status != 201:
        return False
    body = answer.body
    names = [each["name"] for field in ("initContainers", "containers") for each in body["spec"].get(field, ())]
    return not {ADDED, ADDED_INIT}.isdisjoint(names) and "gpu.topology/injected" in annotations_of(body)


REMAP = "gpu-topology-remap"


@pytest.mark.long
@pytest.mark.parametrize(
    ("release", "again", "order", "is_told"),
    [
        ("2.10.0", "IfNeeded", [REMAP, ADDED_INIT], False),
        ("2.10.0", "Never", [ADDED_INIT, REMAP], True),
        ("2.9.0", "IfNeeded", [ADDED_INIT, REMAP], False),  # our init container may stand anywhere
    ],
    indirect=["release"],
)
def test_our_sidecar_stands_first_if_we_are_asked_again_and_otherwise_an_event_says_that_it_does_not(
    cluster: Cluster, new_team: NewTeam, tmp_path: Path, again: str, order: list[str], is_told: bool
) -> None:
    ours = cluster.ours.registration(scheduler=USER)
    ours["webhooks"][0]["reinvocationPolicy"] = again
    mesh = running_other_webhook(tmp_path, "mesh", adds_init=True)
    with mesh as other, registered(cluster.ours, ours, other):
        team = new_team(injection="enabled")
        until(lambda: has_both(team), "both webhooks")
        stored = team.creates(pod("train", container(gpus=2), node=H20))
        bound = team.bound("train")
        assert [each["name"] for each in stored["spec"]["initContainers"]] == order
        assert annotations_of(bound)["gpu.topology/link"] == "NVSwitch"
        if is_told:
            assert f"init container {ADDED_INIT} stands ahead of the sidecar {REMAP}" in team.told("train", "GT248")
    assert is_told or not [text for text in team.events("train") if "GT248" in text]
