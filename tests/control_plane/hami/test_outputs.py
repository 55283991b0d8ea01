"""What the webhook and HAMi wrote on a pod, with HAMi's real scheduler: who can change it, and who can forge it."""

from typing import Any

import pytest

from tests.control_plane.hami.cluster import Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, annotations_of, cards_of
from tests.control_plane.protection import Tenant, tenant, unprotected
from webhook.decisions.options import is_output

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration")]

OPTED_IN = {"injection": "enabled", "allow_node_gpus": "true"}
UUIDS, ALLOCATED = "gpu.topology/visible-uuids", "hami.io/vgpu-devices-allocated"
FORGED = {
    "gpu.topology/injected": "0.1.0 pod-peers",
    UUIDS: "GPU-of-another",
    "gpu.topology/link": "NVSwitch",
    "gpu.topology/cuda-visible-devices.0": "6,7",
}
MIRROR = {"kubernetes.io/config.mirror": "abc", "kubernetes.io/config.source": "file"}


def outputs_of(found: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in annotations_of(found).items() if is_output(key)}


def tenant_of(cluster: Cluster, team: Team, name: str) -> Tenant:
    status = ("patch", "pods/status")
    return tenant(cluster.control_plane, team.admin, team.namespace, name, f"tenant-of-{name}", status)


def test_hami_binds_and_serves_a_pod_whose_annotations_a_tenant_cannot_change(
    cluster: Cluster, new_team: NewTeam
) -> None:
    team = new_team(**OPTED_IN)
    team.creates(pod("train", container(gpus=2), annotations={"profile": "pod-peers"}))
    bound = team.bound("train")  # HAMi's scheduler and device plugin have changed annotations, each as its account
    (cards,) = cards_of(bound)
    assert set(annotations_of(bound)[UUIDS].split(",")) == set(cards)
    assert set(annotations_of(bound)["hami.io/vgpu-devices-to-allocate"]) == {";"}
    one = tenant_of(cluster, team, "train")
    for key in (UUIDS, ALLOCATED, "hami.io/vgpu-devices-to-allocate", "hami.io/bind-phase", "gpu.topology/injected"):
        for value in ("forged", None):
            assert one.patches({key: value}).status_code == 422, key
            assert one.patches({key: value}, through="status").status_code == 422, key
    assert annotations_of(team.pod("train")) == annotations_of(bound)
    team.started("train")
    with unprotected(cluster.control_plane, one):
        assert one.patches({UUIDS: "GPU-of-another", ALLOCATED: "GPU-of-another,NVIDIA,97871,100:;"}).status_code == 200
        assert one.annotation(UUIDS) == "GPU-of-another"


@pytest.mark.long
@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(pod("plain", container(), annotations=FORGED), id="no GPU"),
        pytest.param(pod("one", container(gpus=1), annotations=FORGED), id="one GPU"),
        pytest.param(pod("not", container(gpus=2), annotations=FORGED | {"inject": "false"}), id="inject: false"),
    ],
)
def test_a_pod_that_is_left_alone_keeps_no_forged_output_and_gets_none_when_it_is_bound(
    new_team: NewTeam, manifest: dict[str, Any]
) -> None:
    team = new_team(**OPTED_IN)
    stored = team.creates(manifest)
    assert outputs_of(stored) == {}
    assert "initContainers" not in stored["spec"]


@pytest.mark.long
def test_where_nobody_opted_in_they_stay(new_team: NewTeam) -> None:
    team = new_team()
    assert outputs_of(team.creates(pod("plain", container(), annotations=FORGED))) == FORGED


@pytest.mark.long
def test_a_mirror_pod_is_left_as_the_kubelet_shows_it(new_team: NewTeam) -> None:
    team = new_team(**OPTED_IN)
    static = pod("static", container(gpus=2), annotations=MIRROR | FORGED, nodeName="h20-node-1")
    static["metadata"]["labels"] = {"hami.io/webhook": "ignore"}  # HAMi's refuses every pod that has a node
    stored = team.asks_for(static, dry_run=True)
    assert stored.status == 201, stored.message
    assert outputs_of(stored.body) == {}
    assert "initContainers" not in stored.body["spec"]
    assert "env" not in stored.body["spec"]["containers"][0]


@pytest.mark.long
def test_the_same_pod_that_no_kubelet_shows_is_injected(new_team: NewTeam) -> None:
    team = new_team(**OPTED_IN)
    stored = team.asks_for(pod("train", container(gpus=2), annotations=FORGED), dry_run=True)
    assert stored.status == 201, stored.message
    assert outputs_of(stored.body)["gpu.topology/injected"].endswith(" exclusive")
    assert outputs_of(stored.body).get(UUIDS) in {None, "none"}
