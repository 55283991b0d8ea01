"""What ``kubectl apply --dry-run=server`` shows before anything is done, with HAMi's webhook and ours."""

from typing import Any

import pytest
import yaml

from tests.control_plane.hami.cluster import H20, Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, annotations_of, variables_of
from tests.control_plane.installation import Installation
from tests.control_plane.kubectl import Kubectl

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration")]

DRY_RUN = ("--dry-run=server", "-o", "yaml")
COUNTS = tuple(
    f"gpu_topology_{name}" for name in ("admission", "binding", "events_lost", "pod_read", "rejected_requests")
)
"""Metrics begin so that count what has been done, and how long it took."""


def four_gpus(name: str, **options: str) -> dict[str, Any]:
    return pod(name, container(gpus=4), node=H20, annotations=options)


def applied(kubectl: Kubectl, team: Team, written: dict[str, Any], *arguments: str) -> Any:
    """What ``kubectl apply`` prints, as YAML."""
    done = kubectl("apply", f"--namespace={team.namespace}", *arguments, "-f", "-", manifest=written)
    assert (done.returncode, done.stderr) == (0, "")
    return yaml.safe_load(done.stdout)


def counted(ours: Installation) -> list[list[str]]:
    return [[line for line in lines if line.startswith(COUNTS)] for lines in ours.metrics()]


def test_a_dry_run_shows_the_changed_pod_and_changes_nothing(
    cluster: Cluster, new_team: NewTeam, kubectl: Kubectl
) -> None:
    team = new_team(injection="enabled")
    before = counted(cluster.ours)
    shown = applied(kubectl, team, four_gpus("shown"), *DRY_RUN)
    (worker,) = shown["spec"]["containers"]
    assert annotations_of(shown)["gpu.topology/injected"].endswith(" exclusive")
    assert worker["resources"]["limits"] == {
        "nvidia.com/gpu": "4",
        "nvidia.com/gpucores": "100",
        "nvidia.com/gpumem-percentage": "100",
    }
    assert variables_of(worker)["CUDA_DISABLE_CONTROL"] == "true"
    assert variables_of(worker)["NCCL_P2P_LEVEL"] == "metadata.annotations['gpu.topology/nccl-p2p-level']"
    assert [each["name"] for each in shown["spec"]["initContainers"]] == ["gpu-topology-remap"]
    assert shown["spec"]["schedulerName"] == "hami-scheduler"  # HAMi's webhook was asked too
    assert kubectl("get", "pods", f"--namespace={team.namespace}", "--output=name").stdout == ""
    assert team.events("shown") == []
    assert counted(cluster.ours) == before
