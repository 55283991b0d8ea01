"""The scheduler extender with a real kube-scheduler: beside a plain device plugin, and before HAMi's extender."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.hami.cluster import BRIDGED, H20, Cluster, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.extending import (
    PLAIN,
    ExtenderFiles,
    answered,
    extender_files,
    extending,
    plain_nodes,
    scheduling,
)
from tests.control_plane.hami.planning import Planner
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.scheduler import extender_of
from tests.control_plane.hami.team import Team, annotations_of
from tests.decisions.place.cluster import named
from tests.go_programs.catalogue import KUBE_SCHEDULER
from tests.go_programs.left_out import GetProgram
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from tests.programs.server.conftest import until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.usefixtures("registration"),
    pytest.mark.parametrize("release", ["2.10.0"]),
]

DENY = {"require-nvlink": "true", "on-violation": "deny"}
ALONE, ASKING = "plain-scheduler", "asking-scheduler"
LINKED, UNLINKED = "plain-linked", "plain-unlinked"
PCIE = replace(a100_pcie_bridged(), gpus=tuple(replace(gpu, nvlinks=()) for gpu in a100_pcie_bridged().gpus))


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ExtenderFiles]:
    with extender_files(tmp_path) as found:
        yield found


@pytest.fixture
def kube_scheduler(go_program: GetProgram) -> Path:
    return go_program(KUBE_SCHEDULER)


@pytest.fixture
def nodes(cluster: Cluster) -> Iterator[None]:
    with plain_nodes(cluster.control_plane, named(PCIE, UNLINKED), named(h20(), LINKED)):
        yield


def job(
    name: str,
    scheduler: str,
    gpus: int = 2,
    *,
    prefers: str = "",
    nodes: Mapping[str, str] = PLAIN,
    options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A pod for another scheduler than HAMi's, whose webhook leaves it alone."""
    wish = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [prefers]}]}
    term = {"weight": 100, "preference": wish}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}} if prefers else {}
    spec: dict[str, Any] = {"schedulerName": scheduler, "affinity": affinity, "nodeSelector": dict(nodes)}
    found = pod(name, container(gpus=gpus), annotations=options, **spec)
    found["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    return found


def placed(team: Team, name: str) -> str:
    """The node of a pod, once it has one."""
    until(lambda: bool(team.pod(name)["spec"].get("nodeName")), f"{name} on a node")
    return str(team.pod(name)["spec"]["nodeName"])


@contextmanager
def beside_a_plain_plugin(cluster: Cluster, files: ExtenderFiles, kube_scheduler: Path) -> Iterator[Planner]:
    """A planner, a scheduler that asks it, and one that does not."""
    with (
        extending(cluster, files) as planner,
        scheduling(cluster.control_plane, kube_scheduler, files.directory, ALONE, [files.silent]),
        scheduling(cluster.control_plane, kube_scheduler, files.directory, ASKING, [files.plain]),
    ):
        yield planner


@pytest.mark.usefixtures("nodes")
def test_with_a_plain_device_plugin_a_pod_gets_the_node_that_meets_its_requirement(
    cluster: Cluster, files: ExtenderFiles, kube_scheduler: Path, new_team: NewTeam
) -> None:
    team = new_team(injection="enabled")
    with beside_a_plain_plugin(cluster, files, kube_scheduler) as planner:
        created = team.creates(job("alone", ALONE, prefers=UNLINKED, options=DENY))
        assert "gpu.topology/injected" in annotations_of(created)
        assert "schedulingGates" not in created["spec"]
        assert placed(team, "alone") == UNLINKED
        team.creates(job("asking", ASKING, prefers=UNLINKED, options=DENY))
        assert placed(team, "asking") == LINKED
        assert answered(planner, "filter") > 0
        team.creates(job("too-many", ASKING, 9, options=DENY))
        team.told("too-many", "Insufficient nvidia.com/gpu")


@pytest.mark.long
@pytest.mark.usefixtures("nodes")
def test_with_a_plain_device_plugin_nodes_are_ranked_by_their_links(
    cluster: Cluster, files: ExtenderFiles, kube_scheduler: Path, new_team: NewTeam
) -> None:
    team = new_team(injection="enabled")
    with beside_a_plain_plugin(cluster, files, kube_scheduler) as planner:
        team.creates(job("alone", ALONE, prefers=UNLINKED))
        assert placed(team, "alone") == UNLINKED
        team.creates(job("asking", ASKING, prefers=UNLINKED))
        assert placed(team, "asking") == LINKED
        assert answered(planner, "prioritize") > 0


@pytest.mark.long
@pytest.mark.usefixtures("nodes")
def test_the_scheduler_says_why_no_node_is_left_and_takes_the_pod_up_again(
    cluster: Cluster, files: ExtenderFiles, kube_scheduler: Path, new_team: NewTeam
) -> None:
    team = new_team(injection="enabled")
    with (
        extending(cluster, files),
        scheduling(cluster.control_plane, kube_scheduler, files.directory, ASKING, [files.plain]),
    ):
        for number in range(4):
            team.creates(job(f"pair-{number}", ASKING, options=DENY))
            assert placed(team, f"pair-{number}") == LINKED
        team.creates(job("late", ASKING, options=DENY))
        said = team.told("late", "GT693")
        assert "1 GT693: the node has no 2 cards with NVLink between every pair" in said
        team.deletes("pair-0")
        assert placed(team, "late") == LINKED


@pytest.mark.long
@pytest.mark.usefixtures("nodes")
def test_without_managed_resources_every_pod_of_the_scheduler_waits_for_the_extender(
    cluster: Cluster, files: ExtenderFiles, kube_scheduler: Path, new_team: NewTeam
) -> None:
    team = new_team(injection="enabled")
    with scheduling(cluster.control_plane, kube_scheduler, files.directory, ASKING, [files.before_hami]):
        team.creates(pod("ordinary", container(), schedulerName=ASKING))
        team.told("ordinary", "connection refused")
        with extending(cluster, files) as planner:
            assert placed(team, "ordinary")
            assert answered(planner, "filter", "left-alone") > 0


@pytest.mark.long
def test_before_hami_a_pod_is_not_given_cards_that_its_binding_would_refuse(
    cluster: Cluster, files: ExtenderFiles, kube_scheduler: Path, new_team: NewTeam
) -> None:
    team = new_team(injection="enabled")
    directory = files.directory
    hami = extender_of(cluster.hami.url)
    uuids = [gpu.uuid for gpu in topologies()[1].gpus]
    with (
        extending(cluster, files) as planner,
        scheduling(cluster.control_plane, kube_scheduler, directory, ALONE, [hami]),
        scheduling(cluster.control_plane, kube_scheduler, directory, ASKING, [files.before_hami, hami]),
    ):
        # HAMi packs: the node with the greater part in use comes first.
        part = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}}
        chosen = {"nvidia.com/use-gpuuuid": uuids[3]}
        team.creates(pod("slice", container(resources=part), node=BRIDGED, annotations=chosen))
        team.bound("slice")
        team.creates(job("alone", ALONE, 3, nodes={}, options=DENY))
        until(lambda: annotations_of(team.pod("alone")).get("hami.io/vgpu-node") == BRIDGED, "HAMi's choice")
        team.told("alone", "GT3")
        team.deletes("alone")
        team.creates(job("asking", ASKING, 3, nodes={}, options=DENY))
        assert placed(team, "asking") == H20
        assert answered(planner, "filter") > 0
        assert answered(planner, "prioritize") == 0
