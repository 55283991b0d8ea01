"""What the webhook and HAMi wrote on a pod, with HAMi's real scheduler: who can change it, and who can forge it."""

import pytest

from tests.control_plane.hami.cluster import Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, annotations_of, cards_of
from tests.control_plane.protection import Tenant, tenant, unprotected

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration")]

OPTED_IN = {"injection": "enabled", "allow_node_gpus": "true"}
UUIDS, ALLOCATED = "gpu.topology/visible-uuids", "hami.io/vgpu-devices-allocated"


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
