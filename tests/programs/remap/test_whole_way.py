"""From admission through bind to the start: what bind writes is what the pod verifies, on every machine and carrier."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.bind.test_binding import OLD, hami, injected, published, to
from tests.hardware.topology.machines import H20_UUIDS, MACHINES, h20
from tests.judge import HAMI_2_9, HAMI_2_10_0, TEAM_A, policy
from tests.pods import ALL_ALLOWED, container
from tests.programs.remap.conftest import Drivers
from webhook.decisions.bind.binding import begin, finish
from webhook.decisions.bind.pod_to_bind import PodToBind
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.pod import Container, Pod
from webhook.programs.remap.inputs import read_inputs
from webhook.programs.remap.verdict import ExitCode, Verdict
from webhook.programs.remap.verify import MachineState, verify

NODE = "h20-node-1"
CARRIERS = {"init": HAMI_2_9, "sidecar": HAMI_2_10_0}
PREFILL = ("GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6", "GPU-b0c5b618-67d0-f464-9905-e1fd41226305")
DECODE = (H20_UUIDS[6], H20_UUIDS[3])


def bound(pod: Pod, topology: NodeTopology) -> Pod:
    """The pod with the annotations that its Binding gets."""
    begun = begin(pod, to(topology.node), ALL_ALLOWED, policy())
    assert isinstance(begun, PodToBind), begun
    outcome = finish(begun, policy(), published(topology))
    assert outcome.allowed, outcome.message
    assert pod.metadata is not None
    metadata = msgspec.structs.replace(pod.metadata, annotations=pod.annotations | outcome.annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


def remap_container(pod: Pod) -> Container:
    assert pod.spec is not None
    (found,) = (container for container in pod.spec.init_containers or () if container.name == "gpu-topology-remap")
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


def started(drivers: Drivers, pod: Pod, node: str, **changes: str) -> Verdict:
    """The remap program, with the GPUs that its list shows it."""
    variables = environment(pod, node) | {f"GPU_TOPOLOGY_{name}": value for name, value in changes.items()}
    return verify(read_inputs(variables), MachineState(topology=drivers.see(node, variables["NVIDIA_VISIBLE_DEVICES"])))


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
    drivers: Drivers, carrier: str, name: str, cards: tuple[str, ...], indices: str
) -> None:
    pod = bound(peer(name, cards, CARRIERS[carrier]), h20())
    assert remap_container(pod).restart_policy == ("Always" if carrier == "sidecar" else None)  # type: ignore[attr-defined]  # it is an init container
    assert pod.annotations["gpu.topology/cuda-visible-devices.0"] == indices
    verdict = started(drivers, pod, NODE)
    assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, ())


def test_without_a_remap_container_bind_writes_the_same_indices() -> None:
    pod = bound(peer("prefill", PREFILL, OLD), h20())
    assert pod.annotations["gpu.topology/cuda-visible-devices.0"] == "0,1"


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


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(("profile", "numbers"), [("pod-peers", ["0,1", "2,3"]), ("exclusive", ["", ""])])
def test_a_container_that_sees_the_cards_of_its_pod_only_verifies_them_all_the_same(
    drivers: Drivers, carrier: str, profile: str, numbers: list[str]
) -> None:
    after = bound(two(profile, carrier), h20())
    shown = environment(after, NODE)["NVIDIA_VISIBLE_DEVICES"]
    assert shown == f"{PREFILL[1]},{PREFILL[0]},{DECODE[1]},{DECODE[0]}"
    verdict = started(drivers, after, NODE)
    assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, ())
    assert verdict.resolution is not None
    assert [given.cuda_visible_devices for given in verdict.resolution.containers] == numbers
    assert [gpu.index for gpu in verdict.resolution.gpus] == [0, 1, 2, 3]
    assert verdict.node is not None
    assert {gpu.uuid for gpu in verdict.node.topology.gpus} == {*PREFILL, *DECODE}


def two(profile: str, carrier: str, **annotations: str) -> Pod:
    """A pod of two containers in a namespace that may not see every GPU of a node."""
    return injected(
        container("prefill"),
        container("decode"),
        allocated=hami(list(PREFILL), list(DECODE)),
        annotations={"gpu.topology/profile": profile, **annotations},
        cluster=CARRIERS[carrier],
        namespace=TEAM_A,
    )


@pytest.mark.parametrize("carrier", CARRIERS)
def test_an_exclusive_pod_that_bind_has_not_seen_starts_and_says_that_it_sees_nothing(
    drivers: Drivers, carrier: str
) -> None:
    verdict = started(drivers, two("exclusive", carrier), NODE)
    assert verdict.code is ExitCode.TRUE
    said = (
        "nothing to verify with: this container is shown no GPU, because the binding webhook did not run, or could "
        "not tell the GPUs (see the events of the pod): annotation gpu.topology/visible-uuids still has its value "
        "from admission, none, and annotation gpu.topology/node-topology is empty"
    )
    assert verdict.warnings == (said,)


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(("fields", "stays"), [({}, False), ({"restartPolicy": "Always"}, True)])
def test_the_cards_of_an_init_container_that_ends_are_not_shown(
    drivers: Drivers, carrier: str, fields: dict[str, str], stays: bool
) -> None:
    """HAMi gives them to others then, and a sidecar would go on seeing them."""
    pod = injected(
        container("train"),
        allocated=hami(list(DECODE), list(PREFILL)),
        cluster=CARRIERS[carrier],
        namespace=TEAM_A,
        initContainers=[container("warm-up", **fields)],
    )
    after = bound(pod, h20())
    shown = environment(after, NODE)["NVIDIA_VISIBLE_DEVICES"].split(",")
    assert set(shown) == {*PREFILL, *(DECODE if stays else ())}
    verdict = started(drivers, after, NODE)
    assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, ())


@given(pods())
def test_what_bind_writes_is_what_the_pod_verifies(drivers: Drivers, pod_on: tuple[Pod, NodeTopology]) -> None:
    pod, topology = pod_on
    verdict = started(drivers, bound(pod, topology), topology.node)
    assert (verdict.code, verdict.warnings) == (ExitCode.TRUE, ()), verdict.reason


@given(pods())
def test_it_sees_the_cards_of_its_pod_or_with_the_permission_all(
    drivers: Drivers, pod_on: tuple[Pod, NodeTopology]
) -> None:
    pod, topology = pod_on
    shown = environment(bound(pod, topology), topology.node)["NVIDIA_VISIBLE_DEVICES"]
    seen = {gpu.uuid for gpu in drivers.see(topology.node, shown).gpus}
    own = {gpu.uuid for gpu in topology.gpus if gpu.uuid in pod.annotations["hami.io/vgpu-devices-allocated"]}
    assert seen == ({gpu.uuid for gpu in topology.gpus} if shown == "all" else own)
    assert environment(pod, topology.node)["NVIDIA_VISIBLE_DEVICES"] == ("all" if shown == "all" else "none")


@given(pods())
def test_a_pod_of_a_peer_profile_that_bind_has_not_seen_does_not_start(
    drivers: Drivers, pod_on: tuple[Pod, NodeTopology]
) -> None:
    pod, topology = pod_on
    verdict = started(drivers, pod, topology.node)
    exclusive = pod.annotations["gpu.topology/injected"].endswith(" exclusive")
    assert verdict.code is (ExitCode.TRUE if exclusive else ExitCode.NOT_BOUND)
