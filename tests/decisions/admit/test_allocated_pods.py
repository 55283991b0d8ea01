"""Pods that carry an allocation when they are created: restored ones, and copies that somebody made."""

import json
from typing import Any

import pytest

from tests.hardware.topology.machines import H20_UUIDS, a100_pcie_bridged, bent, h20, uuid, without
from tests.judge import HAMI_2_9, HAMI_2_10_0, TEAM_A, judge, policy
from tests.pods import ALL_ALLOWED, Manifest, annotation_reference, container, effective_env, pod
from webhook.decisions.admit.allocated_pods import Nodes
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.objects.pod import Namespace
from webhook.words.outcome import Kind
from webhook.words.version import Version

NODE = "hami.io/vgpu-node"
DEVICES = "hami.io/vgpu-devices-allocated"
ALLOWED_NODE_GPUS = Namespace("team-a", TEAM_A.labels | {"gpu.topology/allow-node-gpus": "true"})
PEERS_DEFAULTS = {
    "gpu.topology/cuda-visible-devices.0": "-1",
    "gpu.topology/cuda-visible-devices.1": "-1",
    "gpu.topology/visible-uuids": "none",
    "gpu.topology/nccl-p2p-level": "auto",
    "gpu.topology/nccl-nvls": "2",
    "gpu.topology/node-topology": "{}",
}
DEFAULTS = {
    "gpu.topology/visible-uuids": "none",
    "gpu.topology/nccl-p2p-level": "auto",
    "gpu.topology/nccl-nvls": "2",
    "gpu.topology/node-topology": "{}",
}


def known(topology: NodeTopology, **more: Any) -> Sources:
    return Sources(published=KnownNode(topology, origin=Origin.AGENT), **more)


def cluster_of(*machines: NodeTopology) -> Nodes:
    sources = {topology.node: known(topology) for topology in machines}
    return lambda name: sources.get(name, Sources())


def segments(*containers: tuple[str, ...]) -> str:
    """HAMi's annotation: the UUIDs of each container."""
    return "".join("".join(f"{uuid},NVIDIA,97871,100:" for uuid in uuids) + ";" for uuids in containers)


def on_h20(*containers: tuple[int, ...]) -> dict[str, str]:
    """The annotations of a pod that HAMi has given these GPUs of h20-node-1."""
    return {
        NODE: "h20-node-1",
        DEVICES: segments(*(tuple(H20_UUIDS[index] for index in container) for container in containers)),
    }


def written(manifest: Manifest) -> dict[str, str]:
    """What we wrote into annotations, beside the mark; the topology of the node as ``...`` if it is that of the H20."""
    annotations: dict[str, str] = dict(manifest["metadata"]["annotations"])
    topology = annotations.get("gpu.topology/node-topology", "{}")
    if topology != "{}":
        assert parse_topology(topology, source="annotation") == h20()
        annotations["gpu.topology/node-topology"] = "..."
    named = ("gpu.topology/injected", "gpu.topology/profile")
    return {key: value for key, value in annotations.items() if key.startswith("gpu.topology/") and key not in named}


def look(
    manifest: Manifest,
    namespace: Namespace = TEAM_A,
    nodes: Nodes | None = None,
    cluster: ClusterFacts = HAMI_2_9,
    **settings: Any,
) -> Manifest:
    """The pod as it comes out; ``judge`` admits it a second time, too."""
    outcome, after = judge(manifest, namespace, cluster, policy(**settings), nodes=nodes or cluster_of(h20()))
    assert outcome.kind is Kind.PATCH, outcome.message
    return after


def shared(profile: str, annotations: dict[str, str], **spec: Any) -> Manifest:
    """Two containers with two GPUs and one."""
    both = container("train", 2), container("decode", 1)
    return pod(*both, annotations={"gpu.topology/profile": profile} | annotations, **spec)


def test_an_exclusive_pod_is_told_at_once_what_its_gpus_are_worth() -> None:
    after = look(pod(annotations=on_h20((4, 5))))
    assert written(after) == {
        "gpu.topology/visible-uuids": "none",  # whoever made the pod may have invented the allocation
        "gpu.topology/nccl-p2p-level": "auto",
        "gpu.topology/nccl-nvls": "2",
        "gpu.topology/node-topology": "...",
        "gpu.topology/link": "NVSwitch",
        "gpu.topology/bandwidth": "370.8",  # 18 links, 20.6 each: NCCL src/graph/topo.h
        "gpu.topology/ring-order": "4,5",
        "gpu.topology/numa": "1",
        "gpu.topology/satisfied": "true",
    }
    assert effective_env(after, "train")["NCCL_P2P_LEVEL"] == annotation_reference("gpu.topology/nccl-p2p-level")


def test_the_values_are_those_of_the_links_and_the_requirement_is_judged() -> None:
    across = {NODE: "a100-pcie", DEVICES: segments((uuid(1), uuid(2)))}
    manifest = pod(annotations=across | {"gpu.topology/require-nvlink": "true"})
    after = look(
        manifest,
        nodes=cluster_of(a100_pcie_bridged()),
        nccl={
            "pcieP2PLevel": "PHB",
            "nvswitch": {"NCCL_ALGO": "NVLS"},
            "nvlink": {"NCCL_ALGO": "Ring"},
            "pcie": {"NCCL_ALGO": "Tree"},
        },
    )
    annotations = after["metadata"]["annotations"]
    assert annotations["gpu.topology/nccl-p2p-level"] == "PHB"
    assert annotations["gpu.topology/nccl-nvls"] == "0"
    assert annotations["gpu.topology/nccl-env.NCCL_ALGO"] == "Tree"
    assert annotations["gpu.topology/link"] == "SYS"
    assert annotations["gpu.topology/numa"] == "0,1"
    assert annotations["gpu.topology/satisfied"] == "false"
    assert json.loads(annotations["gpu.topology/node-topology"])["node"] == "a100-pcie"


def test_the_words_for_people_are_not_those_that_the_user_wrote() -> None:
    invented = {"gpu.topology/link": "SYS", "gpu.topology/satisfied": "false", "gpu.topology/ring-order": "7"}
    annotations = look(pod(annotations=on_h20((0, 1)) | invented))["metadata"]["annotations"]
    assert annotations["gpu.topology/link"] == "NVSwitch"
    assert annotations["gpu.topology/satisfied"] == "true"
    assert annotations["gpu.topology/ring-order"] == "0,1"


def test_node_peers_get_the_indices_of_the_host() -> None:
    after = look(shared("node-peers", on_h20((6, 3), (0,))), ALL_ALLOWED)
    assert written(after) == {
        "gpu.topology/cuda-visible-devices.0": "3,6",
        "gpu.topology/cuda-visible-devices.1": "0",
        "gpu.topology/nccl-p2p-level": "auto",
        "gpu.topology/nccl-nvls": "0",
        "gpu.topology/node-topology": "...",
        "gpu.topology/link": "NVSwitch",
        "gpu.topology/bandwidth": "370.8",  # 18 links, 20.6 each: NCCL src/graph/topo.h
        "gpu.topology/ring-order": "0,3,6",
        "gpu.topology/numa": "0,1",
        "gpu.topology/satisfied": "true",
    }


def test_pod_peers_get_their_union_where_the_namespace_may_see_every_gpu_of_a_node() -> None:
    after = written(look(shared("pod-peers", on_h20((6, 3), (0,))), ALLOWED_NODE_GPUS))
    assert after["gpu.topology/cuda-visible-devices.0"] == "1,2"
    assert after["gpu.topology/cuda-visible-devices.1"] == "0"
    assert after["gpu.topology/visible-uuids"] == (
        "GPU-b0c5b618-67d0-f464-9905-e1fd41226305,"
        "GPU-9648f14e-6ab2-46f0-221f-777f7652630b,"
        "GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8"
    )
    assert after["gpu.topology/link"] == "NVSwitch"


def test_in_pod_peers_a_word_of_the_user_shows_no_gpu() -> None:
    assert written(look(shared("pod-peers", on_h20((6, 3), (0,))), TEAM_A)) == PEERS_DEFAULTS


def test_what_somebody_wrote_into_the_list_of_gpus_is_replaced_by_the_default() -> None:
    invented = {"gpu.topology/visible-uuids": H20_UUIDS[7], "gpu.topology/cuda-visible-devices.0": "0,1"}
    assert written(look(shared("pod-peers", on_h20((6, 3), (0,)) | invented), TEAM_A)) == PEERS_DEFAULTS


def test_a_container_that_is_left_out_takes_part_in_the_assignment_alone() -> None:
    chosen = {"gpu.topology/profile": "exclusive", "gpu.topology/containers": "train"}
    manifest = pod(container("decode", 1), container("train", 2), annotations=on_h20((7,), (2, 1)) | chosen)
    annotations = look(manifest)["metadata"]["annotations"]
    assert annotations["gpu.topology/ring-order"] == "1,2"
    assert annotations["gpu.topology/numa"] == "0"


def test_the_empty_segment_of_the_remap_container_of_a_restored_pod_does_no_harm() -> None:
    first = look(pod(annotations={}))
    first["metadata"]["annotations"] |= on_h20((), (4, 5))
    assert look(first)["metadata"]["annotations"]["gpu.topology/ring-order"] == "4,5"


@pytest.mark.parametrize("assigned", [None, "", "h20-node-1"])
def test_a_pod_may_name_the_node_of_its_allocation(assigned: str | None) -> None:
    after = look(pod(annotations=on_h20((0, 1)), nodeName=assigned))
    assert after["metadata"]["annotations"]["gpu.topology/link"] == "NVSwitch"


def nothing_known(_name: str) -> Sources:
    return Sources()


def lost(_name: str) -> Sources:
    return known(without(h20(), 1))


def in_mig_mode(_name: str) -> Sources:
    return known(bent(h20(), 1, mig_mode=MigMode.ENABLED))


@pytest.mark.parametrize(
    ("annotations", "spec", "nodes"),
    [
        pytest.param(on_h20((0, 1)), {"nodeName": "elsewhere"}, cluster_of(h20()), id="of another node"),
        pytest.param(on_h20((0, 1)) | {NODE: "elsewhere"}, {}, cluster_of(h20()), id="of an unknown node"),
        pytest.param(on_h20((0, 1)), {}, nothing_known, id="nothing known of the node"),
        pytest.param(on_h20((0, 1)), {}, lost, id="a lost GPU"),
        pytest.param(on_h20((0, 1)), {}, in_mig_mode, id="a GPU in MIG mode"),
        pytest.param(on_h20((0, 1, 2)), {}, cluster_of(h20()), id="too many GPUs"),
        pytest.param(on_h20((0,)), {}, cluster_of(h20()), id="too few GPUs"),
        pytest.param(on_h20((0, 1), (2,)), {}, cluster_of(h20()), id="too many containers"),
        pytest.param(on_h20((0, 0)), {}, cluster_of(h20()), id="a GPU twice"),
        pytest.param(on_h20((0, 1)) | {DEVICES: ""}, {}, cluster_of(h20()), id="an empty list"),
        pytest.param(on_h20((0, 1)) | {DEVICES: "?,,x,y:;"}, {}, cluster_of(h20()), id="no list at all"),
        pytest.param({NODE: "h20-node-1"}, {}, cluster_of(h20()), id="no list"),
        pytest.param(
            {NODE: "h20-node-1", DEVICES: segments((uuid(0), uuid(1)))},
            {},
            cluster_of(h20()),
            id="GPUs of another node",
        ),
        pytest.param({DEVICES: segments((H20_UUIDS[0], H20_UUIDS[1]))}, {}, cluster_of(h20()), id="no node"),
    ],
)
def test_where_the_allocation_tells_nothing_the_defaults_stand(
    annotations: dict[str, str], spec: dict[str, Any], nodes: Nodes
) -> None:
    assert written(look(pod(annotations=annotations, **spec), TEAM_A, nodes)) == DEFAULTS


def aged(seconds: float) -> Nodes:
    return lambda _name: known(h20(), age=seconds)


@pytest.mark.parametrize(
    ("nodes", "peers"),
    [
        pytest.param(aged(600.0), "0,1", id="fresh"),
        pytest.param(aged(601.0), "-1", id="old"),
        pytest.param(
            lambda _name: Sources(annotated=KnownNode(h20(), origin=Origin.HAMI)), "0,1", id="what HAMi tells"
        ),
    ],
)
def test_old_knowledge_is_good_enough_for_exclusive_alone(nodes: Nodes, peers: str) -> None:
    alone = look(pod(annotations=on_h20((0, 1))), TEAM_A, nodes)
    assert alone["metadata"]["annotations"]["gpu.topology/link"] == "NVSwitch"
    manifest = pod(annotations=on_h20((0, 1)) | {"gpu.topology/profile": "node-peers"})
    after = look(manifest, ALL_ALLOWED, nodes)
    assert after["metadata"]["annotations"]["gpu.topology/cuda-visible-devices.0"] == peers


def test_the_age_that_is_too_old_is_configured() -> None:
    manifest = pod(annotations=on_h20((0, 1)) | {"gpu.topology/profile": "node-peers"})
    after = look(manifest, ALL_ALLOWED, aged(601.0), binding={"topologyMaxAgeSeconds": 3600.0})
    assert after["metadata"]["annotations"]["gpu.topology/cuda-visible-devices.0"] == "0,1"


def test_an_allocation_of_volcano_counts_for_volcanos_resources_alone() -> None:
    given = {"volcano.sh/vgpu-node": "h20-node-1", "volcano.sh/vgpu-ids-new": segments((H20_UUIDS[2], H20_UUIDS[3]))}
    asked = {"name": "train", "resources": {"limits": {"volcano.sh/vgpu-number": 2}}}
    assert look(pod(asked, annotations=given))["metadata"]["annotations"]["gpu.topology/ring-order"] == "2,3"
    assert written(look(pod(annotations=given))) == DEFAULTS


def test_with_the_env_file_the_remap_program_is_told_and_nccl_takes_its_values_from_the_file() -> None:
    kubernetes_1_35 = ClusterFacts(hami=Version(2, 9), kubernetes=Version(1, 35))
    manifest = shared("node-peers", on_h20((6, 3), (0,)))
    after = look(manifest, ALL_ALLOWED, cluster=kubernetes_1_35, remap={"environment": "file"})
    assert written(after) == {
        "gpu.topology/cuda-visible-devices.0": "3,6",
        "gpu.topology/cuda-visible-devices.1": "0",
        "gpu.topology/node-topology": "...",
        "gpu.topology/link": "NVSwitch",
        "gpu.topology/bandwidth": "370.8",  # 18 links, 20.6 each: NCCL src/graph/topo.h
        "gpu.topology/ring-order": "0,3,6",
        "gpu.topology/numa": "0,1",
        "gpu.topology/satisfied": "true",
    }


def test_a_pod_that_is_only_observed_gets_its_mark_and_nothing_else() -> None:
    after = look(pod(annotations=on_h20((0, 1)) | {"gpu.topology/profile": "observe"}))
    assert written(after) == {}


@pytest.mark.parametrize(("namespace", "shown"), [(TEAM_A, "none"), (ALLOWED_NODE_GPUS, None)])
def test_a_sidecar_is_not_shown_gpus_by_an_allocation_that_somebody_may_have_invented(
    namespace: Namespace, shown: str | None
) -> None:
    after = look(pod(annotations=on_h20((0, 1))), namespace, cluster_of(h20()), HAMI_2_10_0)
    annotations = after["metadata"]["annotations"]
    assert annotations["gpu.topology/link"] == "NVSwitch"
    assert annotations.get("gpu.topology/visible-uuids") == shown
