"""Pods and nodes as the API server may have them, drawn at random, and what a world says of them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st

from tests.control_plane.hami.nodes import node_manifest
from tests.decisions.place.cluster import named
from tests.hardware.topology.machines import a100_pcie_bridged, h20, l40s
from webhook.decisions.place.card_parts import PartAsked
from webhook.decisions.place.pod import PodRecord, read_pod
from webhook.decisions.place.world import World
from webhook.hardware.topology.model import NodeTopology
from webhook.words import names
from webhook.words.patch import Operation

Object = dict[str, Any]
NODES = ("a", "b", "c")
NAMES = ("one", "two", "three", "four")
MACHINES = {"bridged": a100_pcie_bridged(), "h20": h20(), "l40s": l40s()}


def encoded(value: Object) -> bytes:
    """As the API server sends it."""
    return msgspec.json.encode(value)


def record_of(pod: Object, before: PodRecord | None = None) -> PodRecord:
    """What the planner keeps of a pod."""
    return read_pod(encoded(pod), pod["metadata"]["name"], before)


def plain_pod(name: str = "train", **metadata: Any) -> Object:
    """A pod of one container without anything."""
    found = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1", **metadata}
    return {"metadata": found, "spec": {"containers": [{"name": "main"}]}, "status": {"phase": "Pending"}}


def as_json(patch: tuple[Operation, ...]) -> str:
    """The patch as it is sent."""
    return msgspec.json.encode(patch).decode()


def uuid(node: str, index: int) -> str:
    """Of a card."""
    return f"GPU-{node}.{index}"


cards = st.lists(st.builds(uuid, st.sampled_from(NODES), st.integers(0, 8)), min_size=1, max_size=4, unique=True)
of_card = st.sampled_from([0, 1, 60, 100, 40000])
amounts = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["1", "500m", "0"]), "memory": st.just("1Gi"), "nvidia.com/gpu": st.just(1)}
)


@st.composite
def pods(draw: st.DrawFn) -> Object:
    """A pod in any state, of one of a few names."""
    name = draw(st.sampled_from(NAMES))
    pod = plain_pod(name, uid=f"uid-{name}-{draw(st.integers(0, 1))}")
    annotations = {"gpu.topology/injected": "1/exclusive"} if draw(st.booleans()) else {}
    pod["spec"]["containers"][0]["resources"] = {"requests": draw(amounts)}
    if draw(st.booleans()):
        annotations["hami.io/vgpu-node"] = draw(st.sampled_from(NODES))
        given_cards = draw(cards)
        annotations["hami.io/vgpu-devices-allocated"] = (
            "".join(f"{card},NVIDIA,{draw(of_card)},{draw(of_card)}:" for card in given_cards) + ";"
        )
    if draw(st.booleans()):
        chosen = draw(cards)
        annotations["nvidia.com/use-gpuuuid"] = ",".join(chosen)
        annotations["gpu.topology/placed"] = msgspec.json.encode(
            {"node": "a", "cards": chosen, "link": "NVLink", "bandwidth": 1.0, "share": 1.0, "attempt": 1, "at": ""}
        ).decode()
    labels = draw(st.sampled_from([None, {}, {"gpu.topology/placement": "pinned"}, _RELEASED]))
    group = draw(st.sampled_from([None, "serving", "training"]))
    if labels is not None or group:
        pod["metadata"]["labels"] = {**(labels or {}), **({names.GROUP: group} if group else {})}
    has_map = draw(st.booleans())
    if annotations or has_map:
        pod["metadata"]["annotations"] = annotations
    if draw(st.booleans()):
        pod["spec"]["nodeName"] = draw(st.sampled_from(NODES))
    elif draw(st.booleans()):
        pod["spec"]["schedulingGates"] = [{"name": "gpu.topology/place"}]
    pod["status"]["phase"] = draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]))
    return pod


_RELEASED = {"gpu.topology/placement": "released"}


@st.composite
def nodes(draw: st.DrawFn) -> tuple[str, Object | None, NodeTopology | None]:
    """Name, Node and topology; each of the two may not be there."""
    name = draw(st.sampled_from(NODES))
    # Two nodes of the same UUIDs exist where disks of machines are copied.
    topology = named(draw(st.sampled_from(list(MACHINES.values()))), draw(st.sampled_from([name, name, "a"])))
    node = node_manifest(topology)
    node["metadata"]["name"] = name
    if draw(st.booleans()):
        node["metadata"]["annotations"]["hami.io/device-cordon"] = ",".join(draw(cards))
    return name, draw(st.sampled_from([node, node, None])), draw(st.sampled_from([topology, topology, None]))


def world_of(pods: Mapping[str, PodRecord], nodes: Mapping[str, tuple[Any, Any]], *, nodes_first: bool) -> World:
    """A world that hears of these once."""
    world = World()
    for what in ("nodes", "pods") if nodes_first else ("pods", "nodes"):
        if what == "nodes":
            for name, (record, topology) in nodes.items():
                world.node_changed(name, record, topology)
        else:
            for key, pod in pods.items():
                world.pod_changed(key, None, pod)
    return world


PARTS = (PartAsked(1, 0, 0), PartAsked(0, 50, 40), PartAsked(0, 100, 100))


def described(world: World) -> dict[str, Any]:
    """All that the world says."""
    every = [uuid(node, index) for node in NODES for index in range(9)]
    stocks = {name: world.free_of(name) for name in sorted(world.nodes)}
    return {
        "nodes": {
            name: (node.uuids, node.all, node.levels, node.record is None) for name, node in sorted(world.nodes.items())
        },
        "free": {name: (stock.build.topology.gpus[0].name, stock.free) for name, stock in stocks.items() if stock},
        "listed": sorted((sorted(stock.free), on) for stock, on in world.stocks.items()),
        "groups": {group: (sorted(found.keys), dict(found.nodes)) for group, found in world.groups.items()},
        "holders": {(card, node): world.holders(card, node) for card in every for node in NODES},
        "with": {card: getattr(world.node_with((card,)), "name", "") for card in every},
        "room": {
            part: sorted((sorted(stock.usable), on) for stock, on in world.stocks_of_parts(part).items())
            for part in PARTS
        },
        "unbound": sorted(world.unbound),
        "pods": sorted(world.pods),
    }
