"""What whoever decides hears of: it has what the mirrors have, and topologies that can be relied on."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.control_plane.hami.nodes import node_manifest
from tests.hardware.topology import machines
from tests.programs.planner.server import pod
from tests.programs.planner.site import ByHand, nothing
from webhook.cluster.api.object_version import VersionedObject, read_versioned
from webhook.cluster.state.cache import FAILING_SECONDS, SILENT_SECONDS
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.lease import micro_time
from webhook.programs.planner.mirrors import Mirrors

MAX_AGE = 600.0
EPOCH = 1_768_469_400.0


def machine(name: str = "n1", *, links: bool = True) -> NodeTopology:
    found = replace(machines.a100_pcie_bridged(), node=name)
    return found if links else replace(found, gpus=tuple(replace(gpu, nvlinks=()) for gpu in found.gpus))


@dataclass
class Told:
    """Mirrors that a test tells things, and the time."""

    now: float = 1000.0
    version: int = 0
    woken: int = 0
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mirrors = Mirrors(
            max_age=MAX_AGE,
            wake=self.wake,
            tell=self.said.append,
            clock=lambda: self.now,
            wall=lambda: EPOCH + self.now,
        )
        self.follower = ByHand(nothing)

    def wake(self) -> None:
        self.woken += 1

    def versioned(self, name: str, manifest: dict[str, Any]) -> VersionedObject:
        self.version += 1
        namespace, _, own = name.rpartition("/")
        metadata = {**manifest.get("metadata", {}), "name": own, "resourceVersion": str(self.version)}
        if namespace:
            metadata["namespace"] = namespace
        document = json.dumps({**manifest, "metadata": metadata}).encode()
        return read_versioned(document, all_namespaces=bool(namespace))

    def node(self, topology: NodeTopology) -> None:
        self.mirrors.nodes.put(self.versioned(topology.node, node_manifest(topology)))

    def publish(self, topology: NodeTopology) -> None:
        manifest = {"data": {"topology.json": format_topology(topology)}}
        self.mirrors.topologies.put(self.versioned(f"gpu-topology-{topology.node}", manifest))

    def renew(self, node: str) -> None:
        at = micro_time(datetime.fromtimestamp(EPOCH + self.now, UTC))
        self.mirrors.leases.confirm()
        spec = {"renewTime": at, "leaseDurationSeconds": 60}
        self.mirrors.leases.put(self.versioned(f"gpu-topology-{node}", {"spec": spec}))

    def fill(self) -> None:
        for cache in self.mirrors.keeper.caches:
            cache.confirm()
            cache.listed(self.version, set(cache.values()))

    def topology(self, node: str = "n1") -> NodeTopology | None:
        self.mirrors.refresh()
        return self.follower.nodes[node][1]


def published() -> Told:
    """A node with HAMi's annotations and an agent, and somebody who follows."""
    told = Told()
    told.node(machine())
    told.publish(machine())
    told.renew("n1")
    told.mirrors.refresh()
    told.mirrors.follow(told.follower)
    return told


def test_a_follower_hears_of_all_nodes_before_all_pods() -> None:
    told = Told()
    told.mirrors.pods.put(told.versioned("a/p1", pod("p1")))
    told.node(machine("n1"))
    told.mirrors.pods.put(told.versioned("a/p2", pod("p2")))
    told.node(machine("n2"))
    told.mirrors.refresh()
    told.mirrors.follow(told.follower)
    assert (sorted(told.follower.heard[:2]), sorted(told.follower.heard[2:])) == (["n1", "n2"], ["a/p1", "a/p2"])


def test_a_pod_is_read_however_deep_what_a_client_wrote_there_is_nested() -> None:
    """How deep a decoder goes depends on who calls it: a reader that fails would hide the pod, or all pods."""
    told = Told()
    for levels in range(850, 1010):
        text = json.dumps({"metadata": {"name": "p", "namespace": "a", "resourceVersion": str(levels)}, "x": "HERE"})
        manifest = {**pod("p"), **json.loads(text)}
        manifest["metadata"] = {**pod("p").get("metadata", {}), **manifest["metadata"]}
        document = json.dumps(manifest).replace('"HERE"', '{"f:a":' * levels + "{}" + "}" * levels)
        told.mirrors.pods.put(read_versioned(document.encode(), all_namespaces=True))
        assert "a/p" in told.mirrors.pods.values(), levels
    assert told.said == []


def test_the_topology_of_a_node_is_what_its_agent_publishes() -> None:
    topology = published().topology()
    assert topology is not None
    assert (topology.source, len(topology.gpus)) == (machine().source, 4)


def test_without_an_agent_it_is_what_hami_says() -> None:
    told = Told()
    told.node(machine())
    told.mirrors.follow(told.follower)
    topology = told.topology()
    assert topology is not None
    assert topology.source == "hami"


def test_an_agent_that_falls_silent_is_believed_no_more_and_again_when_it_is_heard_of() -> None:
    told = published()
    before = told.topology()
    told.now += MAX_AGE + 1
    silent = told.topology()
    assert silent is not None
    assert silent.source == "hami"
    told.renew("n1")
    assert told.topology() is before


def test_what_does_not_change_is_not_told_again() -> None:
    told = published()
    told.topology()
    heard = list(told.follower.heard)
    told.node(machine())
    told.publish(machine())
    told.now += 60
    told.renew("n1")
    told.mirrors.refresh()
    assert told.follower.heard == heard


def test_a_topology_that_changes_is_told_once_however_often_the_node_was_written() -> None:
    told = published()
    heard = len(told.follower.heard)
    for number in range(5):
        manifest = node_manifest(machine())
        manifest["metadata"]["labels"] = {"number": str(number)}
        told.mirrors.nodes.put(told.versioned("n1", manifest))
        told.publish(machine(links=False))
    told.mirrors.refresh()
    assert told.follower.heard[heard:] == ["n1"]
    assert told.follower.nodes["n1"][0].labels == {"number": "4"}


def test_the_topology_of_another_node_of_that_name_is_not_believed() -> None:
    told = Told()
    told.node(machine())
    manifest = {"data": {"topology.json": format_topology(machine("n2"))}}
    told.mirrors.topologies.put(told.versioned("gpu-topology-n1", manifest))
    told.renew("n1")
    told.mirrors.follow(told.follower)
    topology = told.topology()
    assert topology is not None
    assert topology.source == "hami"


def test_a_topology_that_cannot_be_read_is_told_of_and_hami_believed() -> None:
    told = Told()
    told.node(machine())
    told.mirrors.topologies.put(told.versioned("gpu-topology-n1", {"data": {"topology.json": "{"}}))
    told.renew("n1")
    told.mirrors.follow(told.follower)
    topology = told.topology()
    assert topology is not None
    assert topology.source == "hami"
    assert any("gpu-topology-n1" in line for line in told.said)


def test_a_node_that_is_gone_is_told_of_and_its_topology_is_not_kept() -> None:
    told = published()
    told.mirrors.nodes.drop(VersionedObject("n1", 10_000, b"{}"))
    told.mirrors.refresh()
    assert told.follower.nodes == {}
    told.mirrors.leave(told.follower)
    told.mirrors.follow(told.follower)
    assert told.follower.nodes == {}


def test_a_pod_that_has_finished_is_not_kept() -> None:
    told = Told()
    told.mirrors.follow(told.follower)
    told.mirrors.take_pod(told.versioned("a/p", pod("p")))
    assert "a/p" in told.follower.pods
    told.mirrors.take_pod(told.versioned("a/p", {**pod("p"), "status": {"phase": "Succeeded"}}))
    assert told.follower.pods == {}


def test_nothing_is_decided_before_all_is_known() -> None:
    told = Told()
    assert told.mirrors.blindness == "waiting for namespaces, nodes, configmaps, leases, pods"
    told.mirrors.nodes.failed("list nodes: no (403)")
    assert told.mirrors.waiting_for.endswith("pods (list nodes: no (403))")
    told.fill()
    assert (told.mirrors.waiting_for, told.mirrors.blindness) == ("", "")


def test_nothing_is_decided_on_pods_that_were_not_heard_of_for_long() -> None:
    told = Told()
    told.fill()
    told.now += SILENT_SECONDS
    assert told.mirrors.blindness == ""
    told.now += 1
    assert told.mirrors.blindness == "pods: nothing was heard of them for 150 s"
    told.fill()
    told.mirrors.pods.failed("watch pods: no (403)")
    assert told.mirrors.blindness == ""
    told.now += FAILING_SECONDS + 1
    assert told.mirrors.blindness == "watch pods: no (403)"


def test_a_namespace_that_is_not_there_is_not_known() -> None:
    told = Told()
    assert not told.mirrors.namespace("nowhere").known
    told.mirrors.namespaces.put(told.versioned("somewhere", {}))
    assert told.mirrors.namespace("somewhere").known
    assert told.woken == 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("pod", "gone", "node", "no node", "publish", "unpublish", "renew", "later", "anew")),
        st.integers(0, 2),
        st.booleans(),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_a_follower_has_what_a_new_one_is_told(steps: list[tuple[str, int, bool]]) -> None:
    told = Told()
    told.mirrors.follow(told.follower)
    for step, number, flag in steps:
        _apply(told, step, number, flag=flag)
    told.mirrors.refresh()
    new = ByHand(nothing)
    told.mirrors.follow(new)
    assert (told.follower.pods, told.follower.nodes) == (new.pods, new.nodes)
    assert new.pods == dict(told.mirrors.pods.values())
    assert new.nodes.keys() == told.mirrors.nodes.values().keys()


def _apply(told: Told, step: str, number: int, *, flag: bool) -> None:
    name, node = f"a/p{number}", f"n{number}"
    end = VersionedObject("", told.version + 1, b"{}")
    if step == "pod":
        told.mirrors.pods.put(told.versioned(name, pod(f"p{number}", gates=("gpu.topology/place",) * flag)))
    elif step == "gone":
        told.mirrors.pods.drop(end._replace(name=name))
    elif step == "node":
        told.node(machine(node, links=flag))
    elif step == "no node":
        told.mirrors.nodes.drop(end._replace(name=node))
    elif step == "publish":
        told.publish(machine(node, links=flag))
    elif step == "unpublish":
        told.mirrors.topologies.drop(end._replace(name=f"gpu-topology-{node}"))
    elif step == "renew":
        told.renew(node)
    elif step == "later":
        told.now += MAX_AGE if flag else 60.0
    else:
        told.mirrors.refresh()
    told.version += 1
