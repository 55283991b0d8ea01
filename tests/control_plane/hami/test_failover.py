"""Replicas die and come back while pods are created and bound: all wait at most, and none runs without its values."""

import os
from collections.abc import Iterator
from contextlib import suppress
from statistics import median
from typing import Any

import pytest
from kubernetes.client import CoordinationV1Api, CoreV1Api
from kubernetes.client.exceptions import NotFoundException

from tests.control_plane.api_metrics import asked
from tests.control_plane.hami.cluster import Cluster, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.nodes import untaint
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.rush import CREATORS, Rush, rush_of
from tests.control_plane.hami.scheduler import USER
from tests.control_plane.hami.team import PERMISSIONS, Team, annotations_of
from tests.control_plane.hami.values import fault_of
from tests.control_plane.installation import NAMESPACE, registered
from tests.control_plane.load.cluster import known_nodes
from tests.control_plane.load.nodes import create_nodes, machines
from tests.figures import ShowFigures
from tests.programs.server.conftest import until
from webhook.hardware.topology.model import NodeTopology
from webhook.words.node_names import config_map_name

pytestmark = [pytest.mark.cluster, pytest.mark.parametrize("release", ["2.10.0"], indirect=True), pytest.mark.long]

PODS = int(os.environ.get("FAILOVER_PODS", "500"))
"""They take a minute on two cores; 60 are enough to see something."""
PODS_WEBHOOK, BINDINGS_WEBHOOK = "pods.gpu.topology", "bindings.gpu.topology"
MORE_NODES = 10
PROFILES = ("exclusive", "node-peers")
SPREAD = {"hami.io/node-scheduler-policy": "spread"}
"""Both nodes, each of which binds one pod at a time."""


def written(profile: str, name: str, **spec: Any) -> dict[str, Any]:
    return pod(name, container(gpus=2), annotations={"profile": profile, **SPREAD}, **spec)


@pytest.fixture
def machines_of(cluster: Cluster) -> Iterator[dict[str, NodeTopology]]:
    """What is on each node: more nodes than there are otherwise, because HAMi binds one pod of a node at a time."""
    plane, more = cluster.control_plane, machines(MORE_NODES)
    with plane.client() as client:
        admin, leases = CoreV1Api(client), CoordinationV1Api(client)
        try:
            before = known_nodes(cluster.ours)  # other tests share the cluster, and may have left something behind
            create_nodes(plane, more)
            for topology in more:
                untaint(admin, topology.node)
            every = [known + MORE_NODES for known in before]
            until(lambda: known_nodes(cluster.ours) == every, f"replicas that know {every} nodes")
            yield {topology.node: topology for topology in (*topologies(), *more)}
        finally:
            # In a whole cluster the garbage collector takes what belongs to a Node.
            for topology in more:
                with suppress(NotFoundException):
                    admin.delete_node(topology.node)
                    admin.delete_namespaced_config_map(config_map_name(topology.node), NAMESPACE)
                    leases.delete_namespaced_lease(config_map_name(topology.node), NAMESPACE)


def test_no_pod_is_bound_without_its_values_while_replicas_die_and_come_back(
    cluster: Cluster,
    new_team: NewTeam,
    machines_of: dict[str, NodeTopology],
    show_figures: ShowFigures,
) -> None:
    team = new_team(injection="enabled", **PERMISSIONS)
    ours, plane = cluster.ours, cluster.control_plane
    webhooks = (PODS_WEBHOOK, BINDINGS_WEBHOOK)
    pods = (written(PROFILES[number % 2], f"pod-{number}") for number in range(PODS))

    def fault(bound: dict[str, Any]) -> str:
        return fault_of(bound, machines_of[bound["spec"]["nodeName"]])

    with registered(ours, ours.registration(scheduler=USER)), rush_of(team, pods, fault) as rush:
        before = [asked(plane, name).not_reached for name in webhooks]

        def lost() -> list[int]:
            """Calls of either kind that reached nobody."""
            return [asked(plane, name).not_reached - known for name, known in zip(webhooks, before, strict=True)]

        def have_ended(share: float) -> None:
            rush.goes_on_until(lambda: len(rush.ended) >= share * PODS, f"{share:.0%} of the pods")

        try:
            have_ended(0.15)
            ours.kill(0)
            have_ended(0.30)
            with_one = lost()
            ours.kill(1)
            rush.wants_more(CREATORS)
            rush.goes_on_until(lambda: min(lost()) > max(with_one), "a pod and a Binding that reach no replica")
            ours.start(0)
            have_ended(0.50)
            ours.start(1)
            have_ended(0.70)
            ours.kill(0)
            ours.start(0)
            have_ended(1.0)
        finally:
            ours.learn()
        in_all = lost()
    assert rush.faults == []
    refusals = [refusal for life in rush.lives.values() for refusal in life.refusals]
    assert [said for said in refusals if f'failed calling webhook "{PODS_WEBHOOK}"' not in said] == []
    assert refusals != []
    with show_figures():
        print(f"\nfailover: {report(rush)}; Bindings tried again: {in_all[1]}; with one replica away: {with_one}")


def report(rush: Rush) -> str:
    """Retries and latencies, in seconds."""
    lives = list(rush.lives.values())
    again = [len(life.refusals) for life in lives]
    stored = [life.accepted - life.asked for life in lives]
    bound = [life.bound - life.accepted for life in lives]
    return (
        f"{len(rush.ended)} pods bound with their values; "
        f"creations tried again: {sum(again)}, of one pod at most {max(again)}; "
        f"until stored p50 {median(stored):.3f} s, max {max(stored):.1f} s; "
        f"from there until bound, waiting for cards included, p50 {median(bound):.1f} s, max {max(bound):.1f} s"
    )


@pytest.fixture
def gated(cluster: Cluster, new_team: NewTeam) -> Iterator[Team]:
    """A team whose pods our webhook has seen, none of them scheduled yet; then both replicas are gone.

    The registration is not the chart's: it ignores that.
    """
    ours = cluster.ours
    ignoring = ours.registration(scheduler=USER)
    for webhook in ignoring["webhooks"]:
        assert webhook["failurePolicy"] == "Fail"
        webhook["failurePolicy"] = "Ignore"
    try:
        with registered(ours, ignoring):
            team = new_team(injection="enabled", **PERMISSIONS)
            for profile in PROFILES:
                team.creates(written(profile, profile, schedulingGates=[{"name": "example.com/later"}]))
            ours.stop()
            yield team
    finally:
        ours.learn()


def test_with_another_failure_policy_pods_are_bound_without_their_values(gated: Team) -> None:
    gated.creates(written("exclusive", "late"))
    assert "gpu.topology/injected" not in annotations_of(gated.bound("late"))
    for profile in PROFILES:
        open_gate: Any = {"spec": {"schedulingGates": None}}
        gated.admin.patch_namespaced_pod(profile, gated.namespace, open_gate)
        bound = gated.bound(profile)
        (machine,) = (each for each in topologies() if each.node == bound["spec"]["nodeName"])
        assert "its values name" in fault_of(bound, machine)
