"""Which pod holds which GPU, by HAMi's allocations, and how much of the best bandwidth it has."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.hardware.topology.machines import a100_pcie_bridged, h20
from tests.programs.planner.test_mirrors import Told
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.planner import held_gpus
from webhook.programs.planner.clock import Clock
from webhook.programs.planner.held_gpus import HeldGpus, HeldGpuWatch, PodGpu, PodOnNode

NODE = replace(h20(), node="n1")
BRIDGED = replace(a100_pcie_bridged(), node="n1")
"""Two pairs with NVLink."""
LINKED = next((0, gpu.index) for gpu in BRIDGED.gpus[1:] if BRIDGED.gpus[0].links_to(gpu.label))
OTHERS = tuple(gpu.index for gpu in BRIDGED.gpus if gpu.index not in LINKED)
MEMORY = NODE.gpus[0].memory_mib


def uuids(*indices: int, node: NodeTopology = NODE) -> list[str]:
    return [node.gpus[index].uuid for index in indices]


def pod(
    *cards: Sequence[str], memory: int = MEMORY, cores: int = 0, phase: str = "Running", **annotations: str
) -> dict[str, Any]:
    """A pod with a container for each list of GPUs."""
    allocation = "".join("".join(f"{uuid},NVIDIA,{memory},{cores}:" for uuid in each) + ";" for each in cards)
    return {
        "metadata": {
            "annotations": {
                "hami.io/vgpu-node": "n1",
                "hami.io/vgpu-devices-allocated": allocation,
                **{f"gpu.topology/{key.replace('_', '-')}": value for key, value in annotations.items()},
            }
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                {"name": f"c{place}", "resources": {"limits": {"nvidia.com/gpu": str(len(each))}}}
                for place, each in enumerate(cards)
            ],
        },
        "status": {"phase": phase},
    }


@dataclass
class Cluster:
    """One node with an agent, its pods, and a watch of them."""

    node: NodeTopology = field(default_factory=lambda: NODE)
    expects: bool = True
    leads: bool = True
    told: Told = field(default_factory=Told)

    def __post_init__(self) -> None:
        self.told.node(self.node)
        self.told.publish(self.node)
        self.told.renew("n1")
        self.namespace("team-a")
        self.watch = HeldGpuWatch(
            self.told.mirrors,
            counts=("nvidia.com/gpu",),
            expects=self.expects,
            leads=lambda: self.leads,
            clock=Clock(monotonic=lambda: self.told.now),
        )

    def namespace(self, name: str, **annotations: str) -> None:
        told = {f"gpu.topology/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.told.mirrors.namespaces.put(self.told.versioned(name, {"metadata": {"annotations": told}}))

    def put(self, name: str, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"] | {"uid": name}
        self.told.mirrors.pods.put(self.told.versioned(name, manifest | {"metadata": metadata}))

    def looked(self) -> HeldGpus:
        self.told.mirrors.refresh()
        self.watch.look()
        return self.watch.held


def held(pods: dict[str, dict[str, Any]], node: NodeTopology = NODE, *, expects: bool = True) -> HeldGpus:
    cluster = Cluster(node, expects)
    for name, manifest in pods.items():
        cluster.put(name, manifest)
    return cluster.looked()


def expected(manifest: dict[str, Any], node: NodeTopology = NODE, *, expects: bool = True) -> list[str]:
    """For each GPU of a pod whether NVLink is expected."""
    return [gpu.expects_nvlink for gpu in held({"team-a/train": manifest}, node, expects=expects).gpus]


def test_the_leader_tells_which_pod_has_which_gpu() -> None:
    found = held({"team-a/train": pod(uuids(0, 1), uuids(2), link="NVSwitch")})
    assert found.gpus == (
        PodGpu("team-a", "train", "c0", "n1", "0", uuids(0)[0], "NVSwitch", "true"),
        PodGpu("team-a", "train", "c0", "n1", "1", uuids(1)[0], "NVSwitch", "true"),
        PodGpu("team-a", "train", "c1", "n1", "2", uuids(2)[0], "NVSwitch", "false"),
    )
    assert found.left_out == 0


def test_a_replica_that_does_not_lead_says_nothing_and_all_once_it_leads() -> None:
    cluster = Cluster(leads=False)
    cluster.put("team-a/train", pod(uuids(0, 1)))
    assert cluster.looked() == HeldGpus()
    cluster.leads = True
    assert len(cluster.looked().gpus) == 2
    cluster.leads = False
    assert cluster.looked() == HeldGpus()


def test_a_gpu_that_two_pods_have_is_no_ones() -> None:
    found = held({"team-a/train": pod(uuids(0, 1)), "team-a/other": pod(uuids(1))})
    assert [gpu.uuid for gpu in found.gpus] == uuids(0)


@pytest.mark.parametrize(
    ("manifest", "count"),
    [
        (pod(uuids(0, 1), memory=1, cores=100), 2),
        (pod(uuids(0, 1), memory=MEMORY // 2), 0),
        (pod(uuids(0, 1), phase="Pending"), 0),
        (pod(["GPU-of-another-node", *uuids(1)]), 1),
    ],
    ids=["whole by cores", "slices", "pending", "unknown GPU"],
)
def test_whole_gpus_of_running_pods_are_held(manifest: dict[str, Any], count: int) -> None:
    assert len(held({"team-a/train": manifest}).gpus) == count


def test_a_pod_that_ends_has_no_gpus_any_more() -> None:
    cluster = Cluster()
    cluster.put("team-a/train", pod(uuids(0, 1)))
    assert len(cluster.looked().gpus) == 2
    cluster.put("team-a/train", pod(uuids(0, 1), phase="Succeeded"))
    assert cluster.looked().gpus == ()


def test_nvlink_is_expected_of_linked_gpus_that_work_together() -> None:
    memory = BRIDGED.gpus[0].memory_mib
    assert expected(pod(uuids(*LINKED, node=BRIDGED), memory=memory), BRIDGED) == ["true", "true"]
    assert expected(pod(uuids(0, OTHERS[0], node=BRIDGED), memory=memory), BRIDGED) == ["false", "false"]
    assert expected(pod(uuids(0), uuids(1))) == ["false", "false"]
    assert expected(pod(uuids(0), uuids(1), injected="0.1.0 pod-peers")) == ["true", "true"]
    assert expected(pod(["GPU-of-another-node", *uuids(1)])) == ["false"]


def test_whoever_expects_no_nvlink_says_so_on_the_pod_or_for_all() -> None:
    assert expected(pod(uuids(0, 1), expect_nvlink="false")) == ["false", "false"]
    assert expected(pod(uuids(0, 1)), expects=False) == ["false", "false"]
    assert expected(pod(uuids(0, 1), expect_nvlink="true"), expects=False) == ["true", "true"]


def test_a_namespace_that_expects_no_nvlink_from_now_on_is_heard_within_minutes() -> None:
    cluster = Cluster()
    cluster.put("team-a/train", pod(uuids(0, 1)))
    cluster.put("team-a/other", pod(uuids(2, 3), expect_nvlink="true"))
    assert {gpu.expects_nvlink for gpu in cluster.looked().gpus} == {"true"}
    cluster.namespace("team-a", expect_nvlink="false")
    cluster.told.now += held_gpus.ALL_SECONDS
    assert [(gpu.pod, gpu.expects_nvlink) for gpu in cluster.looked().gpus[::2]] == [
        ("train", "false"),
        ("other", "true"),
    ]


def test_the_leader_tells_how_much_of_the_best_bandwidth_each_pod_has() -> None:
    """Two GPUs with a bridge have more than ten times the bandwidth of two without."""
    memory = BRIDGED.gpus[0].memory_mib
    best = KnownNode(BRIDGED, origin=Origin.AGENT).gpu_set(LINKED).bandwidth
    worst = KnownNode(BRIDGED, origin=Origin.AGENT).gpu_set((0, OTHERS[0])).bandwidth
    assert 0 < worst < best / 10
    joined = pod(uuids(*LINKED, node=BRIDGED), memory=memory, link="NVLink")
    alone = pod(uuids(OTHERS[0], node=BRIDGED), memory=memory)
    found = held({"team-a/train": joined, "team-a/alone": alone}, BRIDGED)
    assert found.bandwidths == {PodOnNode("team-a", "train", "n1", "NVLink"): 1}
    apart = {"team-a/train": pod(uuids(0, OTHERS[0], node=BRIDGED), memory=memory, link="SYS")}
    assert held(apart, BRIDGED).bandwidths == {PodOnNode("team-a", "train", "n1", "SYS"): round(worst / best, 4)}
    all_of_them = pod(uuids(*range(4), node=BRIDGED), memory=memory)
    assert held({"team-a/all": all_of_them}, BRIDGED).bandwidths == {PodOnNode("team-a", "all", "n1", ""): 1}
    unread = replace(BRIDGED, gpus=tuple(replace(gpu, nvlinks=(), links_problem="?") for gpu in BRIDGED.gpus))
    assert held(apart, unread).bandwidths == {}


def test_the_worst_container_of_a_pod_counts() -> None:
    broken = tuple(replace(BRIDGED.gpus[index], nvlinks=()) for index in OTHERS)
    node = replace(BRIDGED, gpus=(BRIDGED.gpus[0], BRIDGED.gpus[LINKED[1]], *broken))
    one = pod(*(uuids(*pair, node=node) for pair in ((0, 1), (2, 3))), memory=node.gpus[0].memory_mib)
    found = held({"team-a/train": one}, node)
    assert list(found.bandwidths.values()) == [0.1], "24 of 240 GB/s"


@pytest.mark.parametrize(
    "one",
    [
        pod(uuids(0, 1, 0)),
        pod(uuids(0, 1), uuids(1), injected="0.1.0 pod-peers"),
        pod(["GPU-of-another-node", *uuids(1)]),
        pod(uuids(0)),
        pod(uuids(0, 1), memory=MEMORY // 2),
    ],
    ids=["twice in a container", "twice in a pod", "unknown GPU", "single", "slices"],
)
def test_a_pod_whose_gpus_are_no_set_has_no_bandwidth(one: dict[str, Any]) -> None:
    found = held({"team-a/odd": one, "team-a/other": pod(uuids(6, 7))})
    assert found.bandwidths == {PodOnNode("team-a", "other", "n1", ""): 1}


def test_more_series_than_there_may_be_are_counted_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_gpus, "MOST_SERIES", 1)
    found = held({f"team-a/train-{place}": pod(uuids(2 * place, 2 * place + 1)) for place in range(3)})
    assert (len(found.gpus), found.left_out) == (1, 5)
    assert (len(found.bandwidths), found.bandwidths_left_out) == (1, 2)


def test_nodes_that_take_long_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_gpus, "LONGEST_LOOK", -1.0)
    cluster = Cluster()
    cluster.told.node(replace(NODE, node="n2"))
    cluster.put("team-a/train", pod(uuids(0, 1)))
    cluster.looked()
    assert len(cluster.looked().bandwidths) == 1
