"""A state directory: what its files say, and what is not read in it."""

import asyncio
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import ROOT, gpu_topology
from tests.hardware.topology.machines import a100_pcie_bridged, dgx1_v100, h20, l40s
from webhook.cluster.files.state import MAX_BYTES, DirectoryState, load_nodes
from webhook.decisions.claims.slices import MissingDevice
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.resolve.node import Origin, Sources
from webhook.hardware.topology.document import format_topology
from webhook.objects.claims import decode_claim, decode_template
from webhook.words.errors import ClaimsUnreadable, FormatError, GpuTopologyError, ManifestError, PodsUnreadable
from webhook.words.version import Version

TRAIN = """\
apiVersion: v1
kind: Pod
metadata:
  name: train
  namespace: team-a
  creationTimestamp: 2026-01-15T09:30:00Z
  annotations: {hami.io/vgpu-node: h20-node-1}
spec:
  containers: [{name: train, x: 1}]
"""
HEAD = "apiVersion: resource.k8s.io/v1\nkind: {}\n"
SPEC = "{devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}]}}"
CLAIM = (
    HEAD.format("ResourceClaim")
    + f"metadata: {{name: shared, namespace: team-a}}\nspec: {SPEC}\n"
    + "status: {allocation: {devices: {results: [{request: gpus, driver: gpu.nvidia.com, pool: n1, device: gpu-0}]}}}\n"
)
TEMPLATE = (
    HEAD.format("ResourceClaimTemplate") + f"metadata: {{name: two, namespace: team-a}}\nspec: {{spec: {SPEC}}}\n"
)
SLICE = (
    HEAD.format("ResourceSlice")
    + "metadata: {name: n1-gpus}\n"
    + "spec: {driver: gpu.nvidia.com, nodeName: n1, pool: {name: n1, generation: 1, resourceSliceCount: 1},\n"
    + "  devices: [{name: gpu-0, attributes: {type: {string: gpu}, uuid: {string: GPU-1}}}]}\n"
)
H20 = format_topology(h20())


def state(root: Path, **files: str) -> DirectoryState:
    """A directory with these files; ``__`` stands for the slash, and a topology has another ending."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.{'json' if name.startswith('nodes') else 'yaml'}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return DirectoryState(root)


def pod(name: str, *, namespace: str = "team-a", group: str = "pd", node: str = "h20-node-1") -> str:
    metadata = {"name": name, "namespace": namespace, "labels": {"gpu.topology/group": group}}
    return json.dumps({"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}})


def read(found: DirectoryState, namespace: str = "team-a", name: str = "train") -> Any:
    manifest = asyncio.run(found.pod(namespace, name))
    return None if manifest is None else json.loads(manifest)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ClusterFacts()),
        ('hamiVersion: "2.9.0"', ClusterFacts(hami=Version(2, 9))),
        ("claimedResources: []", ClusterFacts(claimed=frozenset())),
        ("claimedResources: [nvidia.com/gpu, a]", ClusterFacts(claimed=frozenset({"nvidia.com/gpu", "a"}))),
        ("hamiDra: true", ClusterFacts(has_hami_dra=True)),
    ],
)
def test_every_fact_is_optional(tmp_path: Path, text: str, expected: ClusterFacts) -> None:
    assert state(tmp_path, cluster=text).cluster() == expected


@pytest.mark.parametrize("text", ["claimedResources: nvidia.com/gpu", "claimedResources: [1]", "hamiDra: yes please"])
def test_a_fact_of_another_type_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ManifestError, match=r"cluster\.yaml: .*(claimedResources|hamiDra)"):
        state(tmp_path, cluster=text)


def test_what_is_configured_counts_more() -> None:
    found = ClusterFacts(hami=Version(2, 9), claimed=frozenset({"nvidia.com/gpu"}), has_hami_dra=True)
    configured = ClusterFacts(kubernetes=Version(1, 36), claimed=frozenset())
    assert found.overruled_by(configured) == ClusterFacts(
        hami=Version(2, 9), kubernetes=Version(1, 36), claimed=frozenset(), has_hami_dra=True
    )
    assert found.overruled_by(ClusterFacts()) is found


def test_the_example_nodes_are_the_machines_that_the_tests_know() -> None:
    assert load_nodes(ROOT / "examples" / "state") == {
        "a100-pcie": a100_pcie_bridged(),
        "dgx1-v100": dgx1_v100(),
        "h20-node-1": h20(),
        "l40s": l40s(),
    }


def test_a_node_is_known_as_if_its_agent_had_published_it_and_never_gets_old(tmp_path: Path) -> None:
    known = state(tmp_path, nodes__any=H20)
    found = known.node("h20-node-1")
    assert found.published is not None
    assert (found.published.topology, found.published.origin) == (h20(), Origin.AGENT)
    assert (found.age, found.annotated) == (None, None)
    assert known.node("h20-node-1").published is found.published
    assert known.node("l40s") == Sources()


def test_two_topologies_of_one_node_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"b\.json: expected one topology of each node, found a second one of h20"):
        state(tmp_path, nodes__a=H20, nodes__b=H20).node("h20-node-1")


def test_a_topology_that_does_not_parse_hinders_nobody_who_asks_for_no_node(tmp_path: Path) -> None:
    found = state(tmp_path, nodes__a="{")
    assert found.namespace("team-a").known is False
    with pytest.raises(FormatError, match=r"nodes/a\.json: expected a NodeTopology in JSON"):
        found.node("h20-node-1")


def test_a_pod_is_found_with_all_its_fields(tmp_path: Path) -> None:
    found = read(state(tmp_path, pods__any=f"{TRAIN}---\n{pod('decode')}\n"))
    assert found["metadata"]["annotations"] == {"hami.io/vgpu-node": "h20-node-1"}
    assert found["spec"] == {"containers": [{"name": "train", "x": 1}]}
    assert found["metadata"]["creationTimestamp"].startswith("2026-01-15")


@pytest.mark.parametrize(("namespace", "name"), [("team-a", "other"), ("team-b", "train")])
def test_a_pod_of_another_name_or_namespace_is_not_there(tmp_path: Path, namespace: str, name: str) -> None:
    assert read(state(tmp_path, pods__any=TRAIN), namespace, name) is None
    assert read(DirectoryState(ROOT), namespace, name) is None


def test_a_pod_without_a_namespace_is_in_default(tmp_path: Path) -> None:
    found = state(tmp_path, pods__any=TRAIN.replace("  namespace: team-a\n", ""))
    assert read(found, "default") is not None
    assert read(found) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", r"b\.yaml line 1: expected YAML"),
        ("kind: Node", r"b\.yaml: expected a Pod, found Node"),
        ("just text", r"b\.yaml: expected a Pod, found something else"),
        ("kind: Pod", r"b\.yaml: expected a Pod with a name, found none"),
        ("{kind: Pod, metadata: []}", r"b\.yaml: metadata: expected an object, found a list"),
        (
            "{kind: Pod, metadata: {name: a}, spec: {nodeName: 7}}",
            r"b\.yaml: spec\.nodeName: expected a text, found a whole number",
        ),
    ],
)
def test_a_file_that_cannot_be_read_as_pods_is_named(tmp_path: Path, text: str, said: str) -> None:
    found = state(tmp_path, pods__b=text)
    with pytest.raises(PodsUnreadable, match=said):
        read(found)
    with pytest.raises(PodsUnreadable, match=said):
        asyncio.run(found.group("team-a", "pd", "h20-node-1"))


def test_a_group_is_the_pods_of_its_label_on_the_node(tmp_path: Path) -> None:
    found = state(
        tmp_path,
        pods__a=pod("prefill"),
        pods__b=pod("decode"),
        pods__c=pod("elsewhere", node="l40s"),
        pods__d=pod("another", group="x"),
        pods__e=pod("foreign", namespace="team-b"),
        pods__f=TRAIN,
    )
    group = asyncio.run(found.group("team-a", "pd", "h20-node-1"))
    assert [json.loads(one)["metadata"]["name"] for one in group] == ["prefill", "decode"]


def test_the_kinds_of_claims_are_told_apart_whatever_the_files_are_called(tmp_path: Path) -> None:
    claims = state(tmp_path, claims__all=f"{CLAIM}---\n{TEMPLATE}---\n{SLICE}")
    claim = asyncio.run(claims.claim("team-a", "shared"))
    template = asyncio.run(claims.template("team-a", "two"))
    assert claim is not None
    allocation = decode_claim(claim, "test").allocation
    assert allocation is not None
    assert [result.device for result in allocation.results or ()] == ["gpu-0"]
    assert template is not None
    devices = decode_template(template, "test").spec.spec.devices
    assert devices is not None
    assert [request.name for request in devices.requests or ()] == ["gpus"]
    assert claims.pools().device("gpu.nvidia.com", "n1", "gpu-0", node="n1").uuid == "GPU-1"


def test_a_claim_that_is_in_no_file_does_not_exist(tmp_path: Path) -> None:
    claims = state(tmp_path, claims__a=CLAIM)
    assert asyncio.run(claims.claim("team-b", "shared")) is None
    assert asyncio.run(claims.template("team-a", "shared")) is None
    with pytest.raises(MissingDevice, match="publishes no pool n1"):
        claims.pools().device("gpu.nvidia.com", "n1", "gpu-0")


def test_a_list_of_claims_is_read_as_its_objects(tmp_path: Path) -> None:
    objects = "".join("- " + text.replace("\n", "\n  ").rstrip() + "\n" for text in (CLAIM, SLICE))
    claims = state(tmp_path, claims__a=f"apiVersion: v1\nkind: List\nitems:\n{objects}")
    assert asyncio.run(claims.claim("team-a", "shared"))
    assert claims.pools().device("gpu.nvidia.com", "n1", "gpu-0").uuid == "GPU-1"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CLAIM.replace("/v1", "/v1beta1"), "expected resource.k8s.io/v1"),
        (CLAIM.replace("requests: [", "requests: 7 #["), "expected"),
        ("a: [", "bad.yaml"),
    ],
    ids=["an old version", "another type", "no YAML"],
)
def test_a_file_that_cannot_be_read_as_claims_is_named(tmp_path: Path, text: str, problem: str) -> None:
    claims = state(tmp_path, claims__bad=text)
    with pytest.raises(ClaimsUnreadable, match=r"bad\.yaml") as caught:
        asyncio.run(claims.claim("team-a", "shared"))
    assert problem in str(caught.value)
    with pytest.raises(GpuTopologyError, match=r"bad\.yaml"):
        claims.pools()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)


NO_FILE = "expected a file, found something else"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, NO_FILE),
        (device, NO_FILE),
        (unix_socket, NO_FILE),
        (Path.mkdir, NO_FILE),
        (hole, "expected at most 1024 MiB, found more"),
    ],
)
def test_what_can_be_read_without_end_is_not_read(tmp_path: Path, make: Callable[[Path], None], said: str) -> None:
    (tmp_path / "nodes").mkdir()
    make(tmp_path / "nodes" / "a.json")
    with pytest.raises(ManifestError, match=said):
        load_nodes(tmp_path)


@pytest.mark.parametrize(
    "place", ["pods/a.yaml", "namespaces/a.yaml", "claims/a.yaml", "objects/a.yaml", "nodes/a.json", "cluster.yaml"]
)
def test_no_part_of_a_state_directory_is_waited_for(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / place)
    done = gpu_topology("analyze", "--state", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert f"{tmp_path / place}: {NO_FILE}" in done.err
