"""From admission through bind to the start: what bind writes is what the pod verifies, on every machine and carrier."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bind.test_binding import OLD, hami, injected, published, to
from tests.judge import HAMI_2_9, HAMI_2_10_0, TEAM_A, policy
from tests.pods import ALL_ALLOWED, container
from tests.topology.machines import H20_UUIDS, MACHINES, h20
from webhook.bind.binding import Case, begin, finish
from webhook.model.cluster import ClusterFacts
from webhook.model.pod import Container, Pod
from webhook.remap.inputs import read_inputs
from webhook.remap.verdict import ExitCode, Verdict
from webhook.remap.verify import Seen, verify
from webhook.topology.model import UNKNOWN, Gpu, NodeTopology, NvLink

CARRIERS = {"init": HAMI_2_9, "sidecar": HAMI_2_10_0}
PREFILL = ("GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6", "GPU-b0c5b618-67d0-f464-9905-e1fd41226305")
DECODE = (H20_UUIDS[6], H20_UUIDS[3])


def bound(pod: Pod, topology: NodeTopology) -> Pod:
    """The pod with the annotations that its Binding gets."""
    begun = begin(pod, to(topology.node), ALL_ALLOWED, policy())
    assert isinstance(begun, Case), begun
    outcome = finish(begun, policy(), published(topology))
    assert outcome.allowed, outcome.message
    assert pod.metadata is not None
    metadata = msgspec.structs.replace(pod.metadata, annotations=pod.annotations | outcome.annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


def remap_container(pod: Pod) -> Container:
    assert pod.spec is not None
    (found,) = (one for one in pod.spec.init_containers or () if one.name == "gpu-topology-remap")
    return found


def environment(pod: Pod, node: str) -> dict[str, str]:
    """The variables of the remap container, as the kubelet resolves them."""
    found = {}
    for variable in remap_container(pod).env or ():
        source = variable.value_from.field_ref if variable.value_from else None
        if source is None:
            found[variable.name] = variable.value or ""
        elif source.field_path == "spec.nodeName":
            found[variable.name] = node
        else:
            key = source.field_path.removeprefix("metadata.annotations['").removesuffix("']")
            found[variable.name] = pod.annotations.get(key, "")
    return found


def seen_by(topology: NodeTopology, shown: str) -> NodeTopology:
    """What NVML lists where only these GPUs are shown: numbered anew, with links of which it cannot name the end."""
    if shown == "all":
        return topology
    gpus = [gpu for gpu in topology.gpus if gpu.uuid in shown.split(",")]
    if not gpus:
        return NodeTopology(node=topology.node, source="nvml", problem="the driver lists no GPU")
    labels = {gpu.label: f"GPU{index}" for index, gpu in enumerate(gpus)} | {"nvswitch": "nvswitch"}
    return replace(topology, gpus=tuple(renumbered(gpu, index, labels) for index, gpu in enumerate(gpus)), nics=())


def renumbered(gpu: Gpu, index: int, labels: dict[str, str]) -> Gpu:
    kept = [replace(link, target=labels[link.target]) for link in gpu.nvlinks if link.target in labels]
    lost = sum(link.count for link in gpu.nvlinks if link.target not in labels)
    rest = [NvLink(target=UNKNOWN, count=lost, active=0)] if lost else []
    return replace(gpu, index=index, nvlinks=(*kept, *rest))


def started(pod: Pod, topology: NodeTopology, **changes: str) -> Verdict:
    variables = environment(pod, topology.node) | {f"GPU_TOPOLOGY_{name}": value for name, value in changes.items()}
    seen = seen_by(topology, variables["NVIDIA_VISIBLE_DEVICES"])
    return verify(read_inputs(variables), Seen(topology=seen))


def peer(name: str, cards: tuple[str, ...], cluster: ClusterFacts) -> Pod:
    return injected(
        container(name),
        allocated=hami(list(cards)),
        annotations={"gpu.topology/profile": "node-peers"},
        cluster=cluster,
    )


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(("name", "cards", "indices"), [("prefill", PREFILL, "0,1"), ("decode", DECODE, "3,6")])
def test_prefill_and_decode_start_with_the_host_indices_of_exactly_their_cards(
    carrier: str, name: str, cards: tuple[str, ...], indices: str
) -> None:
    pod = bound(peer(name, cards, CARRIERS[carrier]), h20())
    assert remap_container(pod).restart_policy == ("Always" if carrier == "sidecar" else None)  # type: ignore[attr-defined]  # it is an init container
    assert pod.annotations["gpu.topology/cuda-visible-devices.0"] == indices
    verdict = started(pod, h20())
    assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, ())


def test_without_a_remap_container_bind_writes_the_same_indices() -> None:
    pod = bound(peer("prefill", PREFILL, OLD), h20())
    assert pod.annotations["gpu.topology/cuda-visible-devices.0"] == "0,1"


@pytest.mark.parametrize("carrier", CARRIERS)
def test_one_swapped_uuid_stops_the_pod_and_names_both_cards(carrier: str) -> None:
    pod = bound(peer("prefill", PREFILL, CARRIERS[carrier]), h20())
    verdict = started(pod, h20(), ALLOCATION=hami([PREFILL[0], H20_UUIDS[2]]))
    assert verdict.code is ExitCode.OTHER_GPUS
    assert verdict.reason == (
        "CUDA_VISIBLE_DEVICES of container prefill is 0,1: 0 is GPU0 GPU-b0c5b618-67d0-f464-9905-e1fd41226305, "
        "but HAMi allocated GPU2 GPU-4650fca3-dbba-f168-d6bd-338a4ba8f044"
    )


@st.composite
def pods(draw: st.DrawFn) -> tuple[Pod, NodeTopology]:
    """An injected pod of one to three containers with some GPUs of some machine, picked in any order."""
    topology = MACHINES[draw(st.sampled_from(sorted(MACHINES)))]
    uuids = draw(st.permutations([gpu.uuid for gpu in topology.gpus]))
    taken = draw(st.integers(1, len(uuids)))
    cuts = sorted(draw(st.sets(st.integers(1, taken - 1), max_size=2))) if taken > 1 else []
    segments = [list(uuids[start:end]) for start, end in pairwise([0, *cuts, taken])]
    containers: list[Any] = [container(f"c{k}", len(segment)) for k, segment in enumerate(segments)]
    profile = draw(st.sampled_from(["exclusive", "pod-peers", "node-peers"]))
    pod = injected(
        *containers,
        allocated=hami(*segments),
        node=topology.node,
        annotations={"gpu.topology/profile": profile},
        cluster=CARRIERS[draw(st.sampled_from(sorted(CARRIERS)))],
        namespace=ALL_ALLOWED if profile == "node-peers" else draw(st.sampled_from([ALL_ALLOWED, TEAM_A])),
    )
    return pod, topology


def test_a_sidecar_that_sees_the_cards_of_its_pod_only_verifies_them_all_the_same() -> None:
    pod = injected(
        container("prefill"),
        container("decode"),
        allocated=hami(list(PREFILL), list(DECODE)),
        annotations={"gpu.topology/profile": "pod-peers"},
        cluster=HAMI_2_10_0,
        namespace=TEAM_A,
    )
    after = bound(pod, h20())
    shown = environment(after, "h20-node-1")["NVIDIA_VISIBLE_DEVICES"]
    assert shown == f"{PREFILL[1]},{PREFILL[0]},{DECODE[1]},{DECODE[0]}"
    verdict = started(after, h20())
    assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, ())
    assert verdict.resolution is not None
    assert [one.cuda_visible_devices for one in verdict.resolution.containers] == ["0,1", "2,3"]
    assert [gpu.index for gpu in verdict.resolution.gpus] == [0, 1, 2, 3]


@given(pods())
def test_what_bind_writes_is_what_the_pod_verifies(pod_on: tuple[Pod, NodeTopology]) -> None:
    pod, topology = pod_on
    verdict = started(bound(pod, topology), topology)
    assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, ()), verdict.reason


@given(pods())
def test_a_pod_of_a_peer_profile_that_bind_has_not_seen_does_not_start(pod_on: tuple[Pod, NodeTopology]) -> None:
    pod, topology = pod_on
    verdict = started(pod, topology)
    exclusive = pod.annotations["gpu.topology/injected"].endswith(" exclusive")
    assert verdict.code is (ExitCode.TRUE if exclusive else ExitCode.NOT_BOUND)
