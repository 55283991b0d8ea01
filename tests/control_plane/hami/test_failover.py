"""Replicas die and come back while pods are created and bound: all wait at most, and none runs without its values."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pytest
from kubernetes.client import ApiException, CoordinationV1Api, CoreV1Api
from kubernetes.client.exceptions import NotFoundException

from tests.control_plane.api_metrics import asked
from tests.control_plane.hami.cluster import Cluster, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.nodes import untaint
from tests.control_plane.hami.pods import CUDA, container, pod
from tests.control_plane.hami.scheduler import USER
from tests.control_plane.hami.team import PERMISSIONS, Team, annotations_of, cards_of
from tests.control_plane.installation import NAMESPACE, registered
from tests.control_plane.load.nodes import create_nodes, known_nodes, machines
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


CREATORS = 4
IN_FLIGHT = 20
"""Pods that are wanted and have not ended."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
"""Between two attempts, doubled each time. A ReplicaSet begins at 5 ms and goes up to minutes (client-go,
DefaultTypedControllerRateLimiter)."""
LOOK_S = 0.1
PATIENCE_S = 60.0

Pod = dict[str, Any]


@dataclass
class Life:
    """What became of one pod; times are of ``time.monotonic``.

    Attributes:
        asked: When it was first sent.
        refusals: What the API server said before it took it.
        accepted: When it was stored.
        bound: When it was first seen with a node.
    """

    asked: float
    refusals: list[str] = field(default_factory=list)
    accepted: float = 0.0
    bound: float = 0.0


@dataclass
class Rush:
    """Pods of one namespace that come and go.

    Attributes:
        lives: Of all pods so far, by their names.
        faults: What was wrong with pods that have a node.
        ended: Names of those that have been bound, and are gone.
    """

    team: Team
    fault_of: Callable[[Pod], str]
    lives: dict[str, Life] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(IN_FLIGHT))
    _over: threading.Event = field(default_factory=threading.Event)

    def goes_on_until(self, reached: Callable[[], bool], what: str) -> None:
        """Look at the pods until ``reached()`` holds.

        Raises:
            AssertionError: no pod ends for a minute.
        """
        ended, deadline = len(self.ended), time.monotonic() + PATIENCE_S
        while not reached():
            self.look()
            if len(self.ended) > ended:
                ended, deadline = len(self.ended), time.monotonic() + PATIENCE_S
            assert time.monotonic() < deadline, f"{what}: no pod has ended for {PATIENCE_S:.0f} s"
            time.sleep(LOOK_S)

    def wants_more(self, pods: int) -> None:
        """So many pods more at once, as when somebody scales a Deployment up."""
        self._room.release(pods)

    def look(self) -> None:
        """Judge every pod that has a node; those whose cards were handed over end."""
        answer: Any = self.team.admin.list_namespaced_pod(self.team.namespace, _preload_content=False)
        for one in json.loads(answer.data)["items"]:
            name = one["metadata"]["name"]
            if not one["spec"].get("nodeName") or name in self.ended:
                continue
            life = self.lives[name]
            life.bound = life.bound or time.monotonic()
            if fault := self.fault_of(one):
                self.faults.append(f"{name}: {fault}")
            if annotations_of(one).get("hami.io/bind-phase") == "success":
                self.team.deletes(name)
                self.ended.add(name)
                self._room.release()

    def create(self, wanted: Iterator[Pod], turn: threading.Lock) -> None:
        """Send one pod after the other; each again until it is stored."""
        while True:
            if not self._room.acquire(timeout=LOOK_S):
                if self._over.is_set():
                    return
                continue
            with turn:
                written = next(wanted, None)
            if written is None or self._over.is_set():
                return
            life = self.lives[written["metadata"]["name"]] = Life(time.monotonic())
            pause = FIRST_PAUSE_S
            while refusal := self._refused(written):
                life.refusals.append(refusal)
                if self._over.wait(pause):
                    return
                pause = min(2 * pause, LONGEST_PAUSE_S)
            life.accepted = time.monotonic()

    def _refused(self, written: Pod) -> str:
        """Why; empty if the pod is stored."""
        try:
            self.team.admin.create_namespaced_pod(
                self.team.namespace,
                written,  # type: ignore[arg-type]  # a model, says its annotation
                _preload_content=False,
            )
        except ApiException as error:
            said: Mapping[str, Any] = json.loads(error.body or "{}")
            return str(said.get("message", error.reason))
        return ""

    def end(self) -> None:
        """No pod is sent any more."""
        self._over.set()


@contextmanager
def rush_of(team: Team, pods: Iterator[Pod], fault_of: Callable[[Pod], str]) -> Iterator[Rush]:
    """Begins to create the pods; at the end no more are sent.

    Args:
        team: Whose pods they are.
        pods: As they are written.
        fault_of: What is wrong with a pod that has a node; empty if nothing is.
    """
    rush = Rush(team, fault_of)
    turn = threading.Lock()
    creators = [threading.Thread(target=rush.create, args=(pods, turn), name="creator") for _ in range(CREATORS)]
    for creator in creators:
        creator.start()
    try:
        yield rush
    finally:
        rush.end()
        for creator in creators:
            creator.join()


VALUES = {"exclusive": "gpu.topology/ring-order", "node-peers": f"{CUDA}.0"}
"""The annotation whose numbers are the cards of the container."""


def fault_of(bound: dict[str, Any], machine: NodeTopology) -> str:
    """What is wrong with the values of a pod that has a node with these GPUs."""
    annotations = annotations_of(bound)
    (cards,) = cards_of(bound)
    value = annotations.get(VALUES[annotations["gpu.topology/profile"]], "none")
    named = sorted(int(number) for number in value.split(",")) if value != "none" else []
    wanted = sorted(gpu.index for gpu in machine.gpus if gpu.uuid in cards)
    if named != wanted or len(wanted) != 2:
        return f"has GPUs {wanted} of {machine.node}, and its values name {value}"
    return "" if "gpu.topology/link" in annotations else "has no link class"


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
