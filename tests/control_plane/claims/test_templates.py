"""What ``gpu-topology claim`` prints, at the real scheduler: only linked GPUs are allocated, whatever is free."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command import gpu_topology
from tests.control_plane.agents import publish
from tests.control_plane.claims.cluster import ClaimsCluster, ClaimsNamespace, reserved_for, results
from tests.control_plane.claims.drivers import NVIDIA, Manifest, nvidia_devices, slices, with_partitions
from tests.control_plane.claims.objects import claim_pod, exactly, of_template, template
from tests.hardware.topology.machines import dgx1_v100, hgx_h100
from tests.programs.server.conftest import until
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.manifest.yaml_parser import parse_yaml

pytestmark = [pytest.mark.cluster, pytest.mark.long]

ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Of the devices in a slice, which decides which cards a plain count gets."""
ISLANDS = [{0, 1, 2, 3}, {4, 5, 6, 7}]
"""Of a DGX-1: all NVLinks between four GPUs; only some between these and the others."""


def renamed(topology: NodeTopology, node: str) -> NodeTopology:
    gpus = tuple(replace(gpu, uuid=f"GPU-{node}-{gpu.index}") for gpu in topology.gpus)
    return replace(topology, node=node, gpus=gpus)


NODES = [renamed(dgx1_v100(), "dgx1-a"), renamed(dgx1_v100(), "dgx1-b")]


def published(topology: NodeTopology) -> list[Manifest]:
    """What the driver publishes, in an order that mixes the islands."""
    devices = sorted(nvidia_devices(topology), key=lambda device: ORDER.index(_index(device["name"])))
    return slices(NVIDIA, topology.node, devices)


def _index(device: str) -> int:
    """Of the card: on these machines its minor number."""
    return int(device.removeprefix("gpu-"))


@pytest.fixture
def place(claims_cluster: ClaimsCluster) -> Iterator[ClaimsNamespace]:
    with claims_cluster.namespace() as found:
        yield found


@pytest.fixture
def nodes(claims_cluster: ClaimsCluster) -> Iterator[None]:
    with ExitStack() as stack:
        for topology in NODES:
            stack.enter_context(claims_cluster.node(topology.node, published(topology)))
        yield


def printed(directory: Path, topologies: list[NodeTopology], *options: str) -> Manifest:
    """The template that the command prints for these nodes."""
    (directory / "nodes").mkdir(exist_ok=True)
    for topology in topologies:
        (directory / "nodes" / f"{topology.node}.json").write_text(format_topology(topology))
    done = gpu_topology("claim", "--state", directory, *options)
    assert done.code == 0, done.err
    (found,) = parse_yaml(done.out, "claim")
    manifest: Manifest = found
    return manifest


def allocated(place: ClaimsNamespace, pod: str) -> Mapping[str, set[int]]:
    """The cards of a pod by their node, once it has some."""
    place.bound(pod)
    (one,) = [each for each in place.claims() if pod in reserved_for(each)]
    found: dict[str, set[int]] = {}
    for result in results(one):
        found.setdefault(result["pool"], set()).add(_index(result["device"]))
    return found


@pytest.mark.usefixtures("nodes")
def test_four_pods_fill_the_four_islands_and_the_fifth_waits_until_one_leaves(
    place: ClaimsNamespace, tmp_path: Path
) -> None:
    place.apply(printed(tmp_path, NODES, "--gpus", "4", "--require-nvlink", "--name", "linked"))
    first = [f"train-{number}" for number in range(4)]
    for name in first:
        place.creates(claim_pod(name, [of_template("g", "linked")]))
    islands = [(node, cards) for name in first for node, cards in allocated(place, name).items()]
    assert sorted(islands, key=str) == sorted(
        ((topology.node, island) for topology in NODES for island in ISLANDS), key=str
    )
    place.creates(claim_pod("late", [of_template("g", "linked")]))
    assert "cannot allocate all claims" in place.waits("late")
    left = allocated(place, first[2])
    place.removes(first[2])
    assert allocated(place, "late") == left


@pytest.mark.parametrize("order", [0, 1], ids=["bare-first", "bare-last"])
def test_devices_without_the_attributes_are_passed_over(
    claims_cluster: ClaimsCluster, place: ClaimsNamespace, tmp_path: Path, order: int
) -> None:
    # Without the guards of the selectors the scheduler gives up: "no such key".
    linked = NODES[0]
    bare = [{"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}}} for number in range(4)]
    names = ["dgx1-a", "bare"] if order else ["bare", "dgx1-a"]
    found = {"dgx1-a": published(linked), "bare": slices(NVIDIA, "bare", bare)}
    place.apply(printed(tmp_path, [linked], "--gpus", "4", "--require-nvlink", "--name", "linked"))
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(claims_cluster.node(name, found[name]))
        place.creates(claim_pod("train", [of_template("g", "linked")]))
        assert allocated(place, "train") == {"dgx1-a": {0, 1, 2, 3}}
        place.creates(claim_pod("never", [of_template("g", "linked")], node="bare"))
        assert "cannot allocate all claims" in place.waits("never")
        cel = "device.attributes['gpu.nvidia.com'].productName == 'Tesla V100-SXM2-32GB'"
        place.apply(template("unguarded", exactly(count=4, cel=cel)))
        place.creates(claim_pod("unguarded", [of_template("g", "unguarded")]))

        def messages() -> list[str]:
            return [each.get("message", "") for each in place.pod("unguarded")["status"].get("conditions", ())]

        until(lambda: any("no such key" in message for message in messages()), "the scheduler gives up")
        place.empty()


def test_the_same_bus_ids_on_a_node_without_links_are_passed_over(
    claims_cluster: ClaimsCluster, place: ClaimsNamespace, tmp_path: Path
) -> None:
    linked = NODES[0]
    unlinked = renamed(replace(linked, gpus=tuple(replace(gpu, nvlinks=()) for gpu in linked.gpus)), "unlinked")
    place.apply(printed(tmp_path, [linked, unlinked], "--gpus", "4", "--require-nvlink", "--name", "linked"))
    with ExitStack() as stack:
        for topology in (linked, unlinked):
            stack.enter_context(claims_cluster.node(topology.node, published(topology)))
        place.creates(claim_pod("never", [of_template("g", "linked")], node="unlinked"))
        assert "cannot allocate all claims" in place.waits("never")
        place.creates(claim_pod("train", [of_template("g", "linked")]))
        assert allocated(place, "train") == {"dgx1-a": {0, 1, 2, 3}}
        place.empty()


def test_the_longest_selectors_are_accepted(place: ClaimsNamespace, tmp_path: Path) -> None:
    bare = dgx1_v100()
    bare = replace(bare, gpus=tuple(replace(gpu, pci_bus_id="") for gpu in bare.gpus))
    nodes = [renamed(bare, f"a-node-with-quite-a-long-name-{number}") for number in range(60)]
    found = printed(tmp_path, nodes, "--gpus", "4", "--require-nvlink", "--name", "linked")
    (request,) = found["spec"]["spec"]["devices"]["requests"]
    lengths = [len(each["selectors"][0]["cel"]["expression"]) for each in request["firstAvailable"]]
    assert (len(lengths) <= 8, max(lengths) > 8_000) == (True, True)
    place.apply(found)


HALVES = ((0, 1, 2, 3, 4, 5, 6, 7), (0, 1, 2, 3), (4, 5, 6, 7), (0, 1), (2, 3), (4, 5), (6, 7))
"""The partitions of an eight-way board: the whole, its halves, and four pairs."""


def partitioned(topology: NodeTopology) -> list[Manifest]:
    (one,) = published(topology)
    devices = with_partitions(one["spec"]["devices"], *HALVES)
    return slices(NVIDIA, topology.node, devices)


def save(directory: Path, published_slices: list[Manifest]) -> None:
    """The slices as the command reads them in a state directory."""
    (directory / "claims").mkdir()
    (directory / "claims" / "slices.yaml").write_text("---\n".join(f"{json.dumps(one)}\n" for one in published_slices))


def test_where_slices_carry_partitions_a_claim_gets_exactly_one(
    claims_cluster: ClaimsCluster, place: ClaimsNamespace, tmp_path: Path
) -> None:
    board, other = renamed(hgx_h100(), "parted"), renamed(hgx_h100(), "unparted")
    save(tmp_path, [*partitioned(board), *published(other)])
    place.apply(printed(tmp_path, [board, other], "--gpus", "4", "--require-nvlink", "--name", "linked"))
    place.apply(template("plain", exactly(count=4)))
    with ExitStack() as stack:
        stack.enter_context(claims_cluster.node(board.node, partitioned(board)))
        stack.enter_context(claims_cluster.node(other.node, published(other)))
        place.creates(claim_pod("any", [of_template("g", "plain")], node="parted"))
        assert allocated(place, "any") == {"parted": {0, 4, 1, 5}}  # the driver would not prepare it
        place.creates(claim_pod("none", [of_template("g", "linked")], node="parted"))
        assert "cannot allocate all claims" in place.waits("none")  # four cards are free, and are no partition
        place.removes("any")
        assert allocated(place, "none")["parted"] in ISLANDS
        place.creates(claim_pod("second", [of_template("g", "linked")], node="parted"))
        halves = [allocated(place, name)["parted"] for name in ("none", "second")]
        assert sorted(halves, key=min) == ISLANDS
        options = ("--kubeconfig", claims_cluster.control_plane.kubeconfig, "--require-nvlink", "--gpus")
        publish(claims_cluster.control_plane, place.name, board, tmp_path / "agent.log")
        asked = [gpu_topology("claim", *options, count) for count in ("4", "3")]
        assert [(done.code, "gpu.nvidia.com/partition4" in done.out) for done in asked] == [(0, True), (1, False)]
        assert "node parted has partitions of 2, 4 and 8" in asked[1].err
        # The other node has no partitions, and any four of its cards are linked.
        place.creates(claim_pod("elsewhere", [of_template("g", "linked")], node="unparted"))
        assert allocated(place, "elsewhere") == {"unparted": {0, 4, 1, 5}}
        place.empty()
