"""The decision about a Binding: docs/injection.md, sections 6 to 11, sentence by sentence."""

import copy
import re
from typing import Any

import msgspec
import pytest

from tests.hardware.topology import machines
from tests.judge import TEAM_A, policy
from tests.pods import ALL_ALLOWED, Manifest, container, pod, team_a
from webhook.cli.workload import apply_in_place
from webhook.decisions.admit.admission import admit
from webhook.decisions.allocation.model import Device
from webhook.decisions.bind.binding import begin, finish, skip_outcome
from webhook.decisions.bind.pod_to_bind import PodToBind
from webhook.decisions.bind.resolution import peer_devices
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.readers.hami import read_hami
from webhook.objects.binding import BIND_ENTRIES, Binding, BindOutcome, BindReason, Target
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Metadata, Namespace, Pod, PodStatus
from webhook.words.outcome import Kind
from webhook.words.version import Version

U = machines.H20_UUIDS
ON_NODE = "pod team-a/train on node h20-node-1"
HAMI_2_9 = ClusterFacts(hami=Version(2, 9), kubernetes=Version(1, 33))
OLD = ClusterFacts(hami=Version(2, 10), kubernetes=Version(1, 28))
"""A cluster without remap containers."""


def hami(*segments: list[str]) -> str:
    return "".join("".join(f"{uuid},NVIDIA,97871,100:" for uuid in segment) + ";" for segment in segments)


def injected(
    *containers: Any,
    allocated: str,
    node: str = "h20-node-1",
    annotations: dict[str, str] | None = None,
    namespace: Namespace = ALL_ALLOWED,
    rules: AdmitPolicy | None = None,
    cluster: ClusterFacts = HAMI_2_9,
    **spec: Any,
) -> Pod:
    """A pod as it is when its Binding is reviewed: admitted, then annotated by HAMi."""
    written = pod(*containers, annotations=annotations or {}, **spec)
    return msgspec.json.decode(to_json(allocated_to(written, allocated, node, namespace, rules, cluster)), type=Pod)


def allocated_to(
    written: Manifest, allocated: str, node: str, namespace: Namespace, rules: AdmitPolicy | None, cluster: ClusterFacts
) -> Manifest:
    """The manifest of a pod that was admitted and then annotated by HAMi."""
    manifest: Manifest = copy.deepcopy(written)  # which the patch then changes
    before = msgspec.json.decode(to_json(manifest), type=Pod)
    outcome = admit(before, namespace, rules or policy(), cluster)
    assert outcome.operations, outcome
    apply_in_place(manifest, outcome.operations)
    manifest["metadata"]["uid"] = "uid-1"
    manifest["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": node,
        "hami.io/vgpu-devices-allocated": allocated,
        "hami.io/bind-phase": "allocating",
    }
    return manifest


def to(node: str = "h20-node-1", uid: str | None = "uid-1", annotations: dict[str, str] | None = None) -> Binding:
    return Binding(Metadata(name="train", namespace="team-a", uid=uid, annotations=annotations), Target(node))


def to_nameless() -> Binding:
    """A Binding as who does not know the pod can send it."""
    return to(uid=None)


def published(topology: NodeTopology, age: float | None = None) -> Sources:
    return Sources(published=KnownNode(topology, origin=Origin.AGENT), age=age)


def annotated(topology: NodeTopology) -> KnownNode:
    return KnownNode(topology, origin=Origin.HAMI)


H20 = published(machines.h20())


def decide(
    found: Pod,
    binding: Binding | None = None,
    sources: Sources = H20,
    namespace: Namespace = ALL_ALLOWED,
    rules: AdmitPolicy | None = None,
    peers: tuple[Device, ...] = (),
) -> BindOutcome:
    begun = begin(found, binding or to(), namespace, rules or policy())
    return finish(begun, rules or policy(), sources, peers=peers) if isinstance(begun, PodToBind) else begun


def group_of(found: Pod) -> str | None:
    begun = begin(found, to(), ALL_ALLOWED, policy())
    assert isinstance(begun, PodToBind)
    return begun.group


NOT_INJECTED = BindOutcome(kind=Kind.SKIP, reason=BindReason.NOT_INJECTED)
MARKS = [
    pytest.param("0.1.0 node-peers", id="of another profile"),
    pytest.param("0.1.0 observe", id="of an observed pod"),
    pytest.param("yes", id="of none"),
    pytest.param(None, id="missing"),
]


def marked(found: Pod, mark: str | None) -> Pod:
    """The pod with another mark."""
    assert found.metadata is not None
    others = {key: value for key, value in found.annotations.items() if key != "gpu.topology/injected"}
    written = others | ({"gpu.topology/injected": mark} if mark else {})
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=written))


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("profile", ["exclusive", "pod-peers", "node-peers"])
@pytest.mark.parametrize("cluster", [HAMI_2_9, OLD], ids=["init", "binding"])
def test_whatever_the_mark_says_the_containers_of_the_pod_decide(
    profile: str, mark: str | None, cluster: ClusterFacts
) -> None:
    found = injected(
        container("prefill", 2),
        container("decode", 1),
        allocated=hami([U[6], U[1]], [U[3]]),
        annotations={"gpu.topology/profile": profile},
        cluster=cluster,
    )
    outcome = decide(found)
    assert (outcome.reason, outcome.profile) == (BindReason.RESOLVED, profile)
    assert decide(marked(found, mark)) == outcome


@pytest.mark.parametrize(
    "plain",
    [
        pytest.param(pod(), id="not asked about"),
        pytest.param(pod(container("main", None)), id="no GPU"),
        pytest.param(
            pod(container(resources={"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}})), id="slice"
        ),
        pytest.param(pod(annotations={"gpu.topology/containers": "nonsense"}), id="an option that refuses it"),
        pytest.param(pod(annotations={"gpu.topology/min-bandwidth": "fast"}), id="an option that is none"),
    ],
)
def test_a_forged_mark_makes_no_pod_ours(plain: Any) -> None:
    found = msgspec.json.decode(to_json(plain), type=Pod)
    for mark in (None, "0.1.0 pod-peers", "0.1.0 observe", "yes"):
        assert decide(marked(found, mark)) == NOT_INJECTED


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [({"gpu.topology/injection": "disabled"}, {}), ({}, {"gpu.topology/inject": "false"})],
    ids=["label", "annotation"],
)
def test_a_pod_that_opted_out_is_left_alone_even_if_it_looks_like_an_injected_one(
    labels: dict[str, str], annotations: dict[str, str]
) -> None:
    found = injected(allocated=hami([U[0], U[1]]))
    assert decide(found).reason is BindReason.RESOLVED
    assert found.metadata is not None
    metadata = msgspec.structs.replace(found.metadata, labels=labels, annotations=found.annotations | annotations)
    assert decide(msgspec.structs.replace(found, metadata=metadata)) == NOT_INJECTED


def test_a_pod_of_a_namespace_that_opted_out_is_left_alone() -> None:
    assert decide(injected(allocated=hami([U[0], U[1]])), namespace=Namespace("team-a")) == NOT_INJECTED


@pytest.mark.parametrize("missing", ["CUDA_DISABLE_CONTROL", "NCCL_P2P_LEVEL", "NCCL_NVLS_ENABLE"])
def test_a_pod_without_one_of_the_variables_of_every_injected_pod_is_none(missing: str) -> None:
    found = injected(allocated=hami([U[0], U[1]]))
    assert found.spec is not None
    assert found.spec.containers is not None
    (main,) = found.spec.containers
    env = [entry for entry in msgspec.json.decode(main.env_json) if entry["name"] != missing]
    changed = msgspec.structs.replace(main, env_json=msgspec.Raw(msgspec.json.encode(env)))
    spec = msgspec.structs.replace(found.spec, containers=[changed])
    assert decide(msgspec.structs.replace(found, spec=spec)) == NOT_INJECTED


def test_a_pod_that_is_gone_bound_or_another_one_is_skipped() -> None:
    found = injected(allocated=hami([U[0], U[1]]))
    assert begin(None, to(), ALL_ALLOWED, policy()) == BindOutcome(kind=Kind.SKIP, reason=BindReason.POD_GONE)
    recreated = BindOutcome(kind=Kind.SKIP, reason=BindReason.POD_RECREATED)
    assert skip_outcome(found, to(uid="uid-2"), ALL_ALLOWED) == recreated
    assert skip_outcome(found, to(), ALL_ALLOWED) is None
    assert skip_outcome(found, to(uid=None), ALL_ALLOWED) is None
    assert found.spec is not None
    bound = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, node_name="h20-node-1"))
    assert skip_outcome(bound, to(), ALL_ALLOWED) == BindOutcome(kind=Kind.SKIP, reason=BindReason.ALREADY_BOUND)


def test_an_exclusive_pod_learns_how_its_gpus_are_linked() -> None:
    outcome = decide(injected(allocated=hami([U[5], U[2]])))
    document = outcome.annotations.pop("gpu.topology/node-topology")
    assert msgspec.json.decode(document)["node"] == "h20-node-1"
    assert outcome.annotations == {
        "gpu.topology/nccl-p2p-level": "auto",
        "gpu.topology/nccl-nvls": "2",
        "gpu.topology/link": "NVSwitch",
        "gpu.topology/bandwidth": "370.8",
        "gpu.topology/ring-order": "2,5",
        "gpu.topology/numa": "0,1",
        "gpu.topology/satisfied": "true",
    }
    assert (outcome.kind, outcome.reason, outcome.profile) == (Kind.PATCH, BindReason.RESOLVED, "exclusive")
    assert (outcome.link, outcome.same_numa, outcome.satisfied) == ("NVSwitch", False, None)
    assert (outcome.warnings, outcome.event) == ([], None)


@pytest.mark.parametrize(("own", "written"), [(200_000, True), (224_000, False)])
def test_the_topology_is_left_out_where_the_pod_could_never_be_updated_again(own: int, written: bool) -> None:
    found = injected(allocated=hami([U[0], U[1]]), annotations={"example.com/notes": "x" * own})
    outcome = decide(found)
    assert ("gpu.topology/node-topology" in outcome.annotations) is written
    assert outcome.annotations["gpu.topology/link"] == "NVSwitch"


def test_an_annotation_that_no_container_refers_to_is_not_written() -> None:
    found = injected(allocated=hami([U[0], U[1]]), annotations={"gpu.topology/nvls": "off"})
    written = decide(found).annotations
    assert "gpu.topology/nccl-nvls" not in written
    assert "gpu.topology/visible-uuids" not in written


def test_values_of_the_configuration_follow_the_link_class() -> None:
    rules = policy(
        nccl={"nvswitch": {"NCCL_ALGO": "NVLS"}, "nvlink": {"NCCL_ALGO": "Ring"}, "pcie": {"NCCL_ALGO": "Tree"}}
    )
    found = injected(allocated=hami([U[0], U[1]]), rules=rules)
    assert decide(found, rules=rules).annotations["gpu.topology/nccl-env.NCCL_ALGO"] == "NVLS"


@pytest.mark.parametrize("certain", [True, False], ids=["of the API server", "of anybody"])
def test_an_allocation_on_the_binding_is_believed_only_where_clients_show_certificates(certain: bool) -> None:
    found = injected(
        container("train", None, resources={"limits": {"volcano.sh/vgpu-number": 2}}),
        allocated="",
        annotations={"volcano.sh/vgpu-ids-new": "", "volcano.sh/vgpu-node": "elsewhere"},
    )
    said = {
        "volcano.sh/vgpu-ids-new": f"{U[0]},NVIDIA,97871,100:{U[1]},NVIDIA,97871,100:",
        "volcano.sh/vgpu-node": "h20-node-1",
    }
    rules = policy(server={"clientAuthority": "/ca.crt"} if certain else {})
    outcome = decide(found, to(annotations=said), rules=rules)
    expected = (BindReason.RESOLVED, "NVSwitch") if certain else (BindReason.NO_ALLOCATION, "")
    assert (outcome.reason, outcome.link) == expected


def test_a_forged_binding_learns_of_no_other_gpus_than_those_of_the_pod() -> None:
    found = injected(allocated=hami([U[0], U[1]]))
    said = {"hami.io/vgpu-devices-allocated": hami([U[6], U[7]])}
    assert decide(found, to(annotations=said)) == decide(found)


BRIDGED = machines.a100_pcie_bridged()


def unlinked(annotations: dict[str, str]) -> BindOutcome:
    """The outcome for GPUs of two different bridges."""
    found = injected(
        allocated=hami([BRIDGED.gpus[0].uuid, BRIDGED.gpus[2].uuid]), node=BRIDGED.node, annotations=annotations
    )
    return decide(found, to(BRIDGED.node), published(BRIDGED))


def test_a_requirement_that_is_not_met_is_told() -> None:
    outcome = unlinked({"gpu.topology/require-nvlink": "true"})
    message = (
        f"GT310: pod team-a/train on node {BRIDGED.node}: require-nvlink: GPU0 and GPU2 have 10.0 GB/s (SYS), "
        "the link class is SYS"
    )
    assert outcome.message == message
    assert (outcome.kind, outcome.reason) == (Kind.DEGRADED, BindReason.REQUIREMENT_NOT_MET)
    assert outcome.annotations["gpu.topology/satisfied"] == "false"
    assert outcome.annotations["gpu.topology/link"] == "SYS"
    assert outcome.warnings == [message]
    assert outcome.event is not None
    assert (outcome.event.reason, outcome.event.note) == ("RequirementNotMet", message)
    assert outcome.satisfied is False


def test_a_requirement_that_is_not_met_denies_the_binding_if_the_pod_says_so() -> None:
    outcome = unlinked({"gpu.topology/min-bandwidth": "100", "gpu.topology/on-violation": "deny"})
    assert (outcome.kind, outcome.reason, outcome.code) == (Kind.REFUSE, BindReason.REQUIREMENT_NOT_MET, 403)
    assert outcome.annotations == {}
    assert "min-bandwidth 100: GPU0 and GPU2 have 10.0 GB/s" in outcome.message


OLD_HAMI = [ClusterFacts(hami=Version(*hami), kubernetes=Version(1, 33)) for hami in ((2, 5), (2, 8), (2, 10, 1))]


@pytest.mark.parametrize("cluster", OLD_HAMI)
@pytest.mark.parametrize(
    ("wish", "cards", "message"),
    [
        ("nvlink", (0, 2), "policy nvlink: GPU0 and GPU2 have 10.0 GB/s (SYS), the link class is SYS"),
        ("single-numa", (0, 2), "policy single-numa: GPU0 is on NUMA node 0, GPU2 on NUMA node 1"),
    ],
)
def test_a_policy_that_is_not_met_is_a_violation_on_every_version_of_hami(
    wish: str, cards: tuple[int, int], message: str, cluster: ClusterFacts
) -> None:
    allocated = hami([BRIDGED.gpus[card].uuid for card in cards])
    annotations = {"gpu.topology/policy": wish}
    told = decide(
        injected(allocated=allocated, node=BRIDGED.node, annotations=annotations, cluster=cluster),
        to(BRIDGED.node),
        published(BRIDGED),
    )
    assert (told.kind, told.reason, told.satisfied) == (Kind.DEGRADED, BindReason.REQUIREMENT_NOT_MET, False)
    assert told.annotations["gpu.topology/satisfied"] == "false"
    assert told.message == f"GT310: pod team-a/train on node {BRIDGED.node}: {message}"
    denied = decide(
        injected(
            allocated=allocated,
            node=BRIDGED.node,
            annotations=annotations | {"gpu.topology/on-violation": "deny"},
            cluster=cluster,
        ),
        to(BRIDGED.node),
        published(BRIDGED),
    )
    assert (denied.kind, denied.code, denied.message) == (Kind.REFUSE, 403, told.message)


@pytest.mark.parametrize("wish", ["nvlink", "single-numa"])
def test_a_policy_that_is_met_is_told_as_well(wish: str) -> None:
    annotations = {"gpu.topology/policy": wish, "gpu.topology/on-violation": "deny"}
    outcome = decide(injected(allocated=hami([U[0], U[1]]), annotations=annotations))
    assert (outcome.kind, outcome.satisfied) == (Kind.PATCH, True)
    assert outcome.annotations["gpu.topology/satisfied"] == "true"


@pytest.mark.parametrize("annotations", [{}, {"gpu.topology/policy": "best-effort"}, {"gpu.topology/policy": "spread"}])
def test_a_pod_whose_policy_requires_nothing_is_not_judged(annotations: dict[str, str]) -> None:
    outcome = unlinked(annotations | {"gpu.topology/on-violation": "deny"})
    assert (outcome.kind, outcome.reason, outcome.satisfied) == (Kind.PATCH, BindReason.RESOLVED, None)


def test_a_default_policy_of_the_configuration_or_of_the_namespace_counts() -> None:
    allocated = hami([BRIDGED.gpus[0].uuid, BRIDGED.gpus[2].uuid])
    rules = policy(defaults={"policy": "nvlink"})
    outcome = decide(
        injected(allocated=allocated, node=BRIDGED.node, rules=rules), to(BRIDGED.node), published(BRIDGED), rules=rules
    )
    assert (outcome.kind, outcome.satisfied) == (Kind.DEGRADED, False)
    namespace = Namespace("team-a", dict(TEAM_A.labels), {"gpu.topology/policy": "single-numa"})
    found = injected(allocated=allocated, node=BRIDGED.node, namespace=namespace)
    outcome = decide(found, to(BRIDGED.node), published(BRIDGED), namespace)
    assert (outcome.kind, outcome.satisfied) == (Kind.DEGRADED, False)


def test_mig_instances_say_nothing_about_numa_nodes() -> None:
    wish = {"gpu.topology/policy": "single-numa", "gpu.topology/on-violation": "deny"}
    outcome = decide(injected(allocated=hami([f"{U[0]}[1-0]", f"{U[0]}[1-1]"]), annotations=wish))
    assert (outcome.kind, outcome.reason) == (Kind.DEGRADED, BindReason.MIG_ALLOCATION)


def test_numa_nodes_that_are_not_known_leave_it_open_whether_the_policy_is_met() -> None:
    node = machines.bent(machines.h20(), 1, numa_node=None)
    wish = {"gpu.topology/policy": "single-numa", "gpu.topology/on-violation": "deny"}
    outcome = decide(injected(allocated=hami([U[0], U[1]]), annotations=wish), sources=published(node))
    assert (outcome.kind, outcome.satisfied, outcome.link) == (Kind.PATCH, None, "NVSwitch")
    assert outcome.annotations["gpu.topology/satisfied"] == "unknown"
    assert outcome.warnings == [
        "GT315: whether the requirements are met is not known: the NUMA node of GPU1 of node h20-node-1 is not known"
    ]


UNRESOLVED = [
    (hami(), "h20-node-1", H20, BindReason.NO_ALLOCATION, "the scheduler has given the pod no GPU"),
    (
        hami([U[0], U[1]]),
        "h20-node-2",
        H20,
        BindReason.STALE_ALLOCATION,
        "was made for node h20-node-2, but the pod goes",
    ),
    (hami([U[0]]), "h20-node-1", H20, BindReason.BAD_ALLOCATION, "the pod's GPU allocation: expected"),
    ("GPU-1,NVIDIA,many,100:;", "h20-node-1", H20, BindReason.BAD_ALLOCATION, "hami.io/vgpu-devices-allocated"),
    (hami([f"{U[0]}[1-0]", f"{U[0]}[1-1]"]), "h20-node-1", H20, BindReason.MIG_ALLOCATION, "is a MIG instance"),
    (hami([U[0], U[1]]), "h20-node-1", Sources(), BindReason.NODE_UNKNOWN, "node h20-node-1 is not known"),
    (
        hami([U[0], "GPU-x"]),
        "h20-node-1",
        H20,
        BindReason.GPU_UNKNOWN,
        "GPU-x was allocated, but is none of the 8 GPUs that node h20-node-1 lists",
    ),
]


@pytest.mark.parametrize(("allocated", "node", "sources", "reason", "text"), UNRESOLVED)
def test_what_cannot_be_resolved_refuses_peers_and_lets_exclusive_pods_go(
    allocated: str, node: str, sources: Sources, reason: BindReason, text: str
) -> None:
    exclusive = decide(injected(allocated=allocated, node=node), sources=sources)
    assert (exclusive.kind, exclusive.reason) == (Kind.DEGRADED, reason)
    assert exclusive.annotations == {}
    assert text in exclusive.message
    assert exclusive.event is not None
    assert exclusive.event.reason == "NotResolved"
    peers = injected(allocated=allocated, node=node, annotations={"gpu.topology/profile": "node-peers"})
    refused = decide(peers, sources=sources)
    assert (refused.kind, refused.reason, refused.code) == (Kind.REFUSE, reason, 409)
    assert refused.event is not None
    told = refused.message if reason is BindReason.NODE_UNKNOWN else BIND_ENTRIES[reason].say().about(ON_NODE)
    assert (refused.event.reason, refused.event.note) == ("NotResolved", told)
    assert text in refused.message
    assert re.match(r"GT3\d\d: pod team-a/train: ", refused.message)


def test_mig_instances_meet_no_requirement() -> None:
    wish = {"gpu.topology/require-nvlink": "true", "gpu.topology/on-violation": "deny"}
    outcome = decide(injected(allocated=hami([f"{U[0]}[1-0]", f"{U[0]}[1-1]"]), annotations=wish))
    assert (outcome.kind, outcome.reason, outcome.code) == (Kind.REFUSE, BindReason.REQUIREMENT_NOT_MET, 403)
    assert outcome.event is not None
    assert outcome.event.note == BIND_ENTRIES[BindReason.MIG_ALLOCATION].say().about(ON_NODE)


FORGED = "wire 1 BTC to \x1b[31m"


@pytest.mark.parametrize("key", ["hami.io/vgpu-devices-allocated", "hami.io/vgpu-node"])
@pytest.mark.parametrize("wish", [{}, {"gpu.topology/require-nvlink": "true"}])
def test_an_event_holds_no_text_of_an_annotation(key: str, wish: dict[str, str]) -> None:
    found = injected(allocated=hami([U[0], U[1]]), annotations=wish)
    found.annotations[key] = f"{U[0]}[{FORGED}],NVIDIA,1,1:{FORGED}"
    outcome = decide(found)
    assert outcome.event is not None
    assert "BTC" not in outcome.event.note
    assert "BTC" in outcome.message


@pytest.mark.parametrize("binding", [Binding(None, Target("h20-node-1")), to_nameless()])
def test_a_binding_without_the_uid_of_its_pod_learns_nothing_of_its_gpus(binding: Binding) -> None:
    exclusive = decide(injected(allocated=hami([U[0], U[1]])), binding)
    assert (exclusive.kind, exclusive.reason) == (Kind.DEGRADED, BindReason.POD_NOT_NAMED)
    assert (exclusive.annotations, exclusive.event, exclusive.link) == ({}, None, "")
    peers = injected(allocated=hami([U[0], U[1]]), annotations={"gpu.topology/profile": "node-peers"})
    refused = decide(peers, binding)
    assert (refused.kind, refused.reason, refused.code) == (Kind.REFUSE, BindReason.POD_NOT_NAMED, 409)
    assert "GPU-" not in refused.message
    assert refused.event is None
    assert decide(peers).reason is BindReason.RESOLVED


def test_a_binding_without_the_uid_of_its_pod_reads_no_value_of_its_options() -> None:
    found = injected(allocated=hami([U[0], U[1]]))
    found.annotations["gpu.topology/min-bandwidth"] = "s3cret"
    refused = decide(found, to_nameless())
    assert (refused.kind, refused.reason) == (Kind.REFUSE, BindReason.BAD_POD)
    assert "s3cret" not in refused.message
    assert "s3cret" in decide(found).message


@pytest.mark.parametrize(
    ("status", "deleted", "exists", "told"),
    [
        (None, None, True, True),
        (PodStatus("Pending"), None, True, True),
        (PodStatus("Failed"), None, True, False),
        (PodStatus("Pending"), "2026-11-20T21:51:20Z", True, False),
        (PodStatus("Pending"), None, False, False),
    ],
)
def test_an_event_is_told_only_of_a_pending_pod_and_a_node_that_is_there(
    status: PodStatus | None, deleted: str | None, exists: bool, told: bool
) -> None:
    found = injected(allocated="")
    assert found.metadata is not None
    found.status, found.metadata.deletion_timestamp = status, deleted
    outcome = decide(found, sources=Sources(exists=exists))
    assert (outcome.event is not None) is told
    assert outcome.kind is Kind.DEGRADED


def test_an_old_topology_gives_way_to_what_hami_says() -> None:
    says = annotated(machines.h20())
    sources = Sources(published=H20.published, age=601, annotated=says)
    outcome = decide(injected(allocated=hami([U[0], U[1]])), sources=sources)
    (warning,) = outcome.warnings
    assert warning.startswith("GT316: the topology of node h20-node-1 is that of HAMi's annotations: the agent has")
    fresh = Sources(published=H20.published, age=600, annotated=says)
    assert decide(injected(allocated=hami([U[0], U[1]])), sources=fresh).warnings == []


def test_an_old_topology_serves_pods_that_verify_it() -> None:
    old = published(machines.h20(), age=1800)
    told = "GT317: the agent of node h20-node-1 has not been heard of for 30 minutes"
    assert decide(injected(allocated=hami([U[0], U[1]])), sources=old).warnings == [told]
    wish = {"gpu.topology/profile": "node-peers"}
    verified = decide(injected(allocated=hami([U[0], U[1]]), annotations=wish), sources=old)
    assert (verified.kind, verified.warnings) == (Kind.PATCH, [told])
    blind = decide(injected(allocated=hami([U[0], U[1]]), annotations=wish, cluster=OLD), sources=old)
    assert (blind.kind, blind.reason) == (Kind.REFUSE, BindReason.NODE_UNKNOWN)
    assert "is 30 minutes old, and the pod has no remap container that would verify it" in blind.message


def test_what_hami_says_helps_only_if_it_lists_the_cards() -> None:
    says = annotated(machines.without(machines.h20(), 1))
    sources = Sources(published=H20.published, age=3600, annotated=says)
    outcome = decide(injected(allocated=hami([U[0], U[1]])), sources=sources)
    assert outcome.warnings == ["GT317: the agent of node h20-node-1 has not been heard of for 60 minutes"]


def test_an_observed_pod_is_only_looked_at() -> None:
    found = injected(allocated=hami([U[0], U[1]]), annotations={"gpu.topology/profile": "observe"})
    outcome = decide(found)
    assert (outcome.kind, outcome.reason, outcome.link) == (Kind.SKIP, BindReason.OBSERVED, "NVSwitch")
    assert outcome.annotations == {}
    nothing = decide(found, sources=Sources())
    assert (nothing.kind, nothing.reason) == (Kind.SKIP, BindReason.OBSERVED)
    assert nothing.event is None


def test_a_pod_that_admission_would_not_observe_now_is_none_of_ours() -> None:
    found = injected(allocated=hami([U[0], U[1]]), annotations={"gpu.topology/profile": "observe"})
    assert decide(found).reason is BindReason.OBSERVED
    none_selected = team_a({"gpu.topology/containers": "other"})
    assert decide(found, namespace=none_selected) == NOT_INJECTED
    assert decide(found, namespace=Namespace("team-a", known=False)) == NOT_INJECTED


def test_an_option_that_cannot_be_read_refuses_the_binding() -> None:
    found = injected(allocated=hami([U[0], U[1]]))
    assert found.metadata is not None
    annotations = found.annotations | {"gpu.topology/min-bandwidth": "fast"}
    metadata = msgspec.structs.replace(found.metadata, annotations=annotations)
    outcome = decide(msgspec.structs.replace(found, metadata=metadata))
    assert (outcome.kind, outcome.reason, outcome.code) == (Kind.REFUSE, BindReason.BAD_POD, 422)
    assert 'expected a number of GB/s such as "100", found "fast"' in outcome.message


def test_requirements_of_a_namespace_that_is_not_known_yet_are_waited_for() -> None:
    unknown = Namespace("team-a", known=False)
    outcome = decide(injected(allocated=hami([U[0], U[1]])), namespace=unknown)
    assert (outcome.kind, outcome.reason, outcome.code) == (Kind.REFUSE, BindReason.NAMESPACE_UNKNOWN, 503)
    assert outcome.message == (
        "GT141: namespace team-a is not known yet, so what it requires of its pods is not known either"
    )


def test_the_group_is_looked_up_for_node_peers_with_a_requirement_only() -> None:
    group = {"gpu.topology/profile": "node-peers", "gpu.topology/group": "pd"}
    without = injected(allocated=hami([U[0], U[1]]), annotations=group)
    required = injected(allocated=hami([U[0], U[1]]), annotations=group | {"gpu.topology/require-nvlink": "true"})
    exclusive = injected(
        allocated=hami([U[0], U[1]]), annotations={"gpu.topology/group": "pd", "gpu.topology/require-nvlink": "true"}
    )
    assert group_of(without) is None
    assert group_of(required) == "pd"
    assert group_of(exclusive) is None


def test_a_requirement_of_node_peers_is_about_the_whole_group() -> None:
    annotations = {
        "gpu.topology/profile": "node-peers",
        "gpu.topology/group": "pd",
        "gpu.topology/require-nvlink": "true",
    }
    cards = [gpu.uuid for gpu in BRIDGED.gpus]
    own = injected(allocated=hami([cards[0], cards[1]]), node=BRIDGED.node, annotations=annotations)
    other = msgspec.structs.replace(
        injected(allocated=hami([cards[2], cards[3]]), node=BRIDGED.node, annotations=annotations),
        metadata=Metadata(
            name="other",
            uid="uid-2",
            annotations={
                "hami.io/vgpu-node": BRIDGED.node,
                "hami.io/vgpu-devices-allocated": hami([cards[2], cards[3]]),
            },
        ),
    )
    others = tuple(Device(uuid=cards[index], memory_mib=97871, cores=100) for index in (2, 3))
    assert peer_devices([own, other], "uid-1", policy()) == others
    alone = decide(own, to(BRIDGED.node), published(BRIDGED))
    assert alone.satisfied is True
    together = decide(own, to(BRIDGED.node), published(BRIDGED), peers=others)
    assert together.satisfied is False


def test_a_requirement_of_a_group_is_not_known_to_be_met_if_gpus_of_a_peer_are_not_known() -> None:
    annotations = {
        "gpu.topology/profile": "node-peers",
        "gpu.topology/group": "pd",
        "gpu.topology/require-nvlink": "true",
    }
    own = injected(allocated=hami([U[0], U[1]]), annotations=annotations)
    for peer in (Device(), Device(uuid="GPU-x"), Device(minor=99)):
        outcome = decide(own, peers=(peer,))
        assert (outcome.kind, outcome.satisfied) == (Kind.PATCH, None)
        assert outcome.annotations["gpu.topology/satisfied"] == "unknown"
        assert outcome.annotations["gpu.topology/cuda-visible-devices.0"] == "0,1"
        assert outcome.warnings == [
            "GT315: whether the requirements are met is not known: which GPUs another pod of the group has is not known"
        ]
    unreadable = msgspec.structs.replace(
        own, metadata=Metadata(uid="uid-2", annotations={"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,many,1:;"})
    )
    assert peer_devices([unreadable], "uid-1", policy()) == (Device(),)


def hami_node(*, score: str | None = None, unhealthy: tuple[int, ...] = (), first: int = 0) -> KnownNode:
    """What HAMi's annotations tell of the example node."""
    gpus = [
        {"id": uuid, "index": index, "devmem": 97871, "type": "NVIDIA H20", "numa": index // 4}
        | ({} if index in unhealthy else {"health": True})
        for index, uuid in enumerate(U)
        if index >= first
    ]
    topology = read_hami(msgspec.json.encode(gpus).decode(), score, node="h20-node-1", source="Node h20-node-1")
    return annotated(topology)


def test_links_that_nobody_knows_are_not_taken_for_none() -> None:
    sources = Sources(annotated=hami_node())
    outcome = decide(injected(allocated=hami([U[0], U[1]])), sources=sources)
    assert outcome.annotations["gpu.topology/nccl-nvls"] == "2"
    assert outcome.annotations["gpu.topology/nccl-p2p-level"] == "auto"
    assert outcome.annotations["gpu.topology/link"] == ""
    assert outcome.annotations["gpu.topology/satisfied"] == "true"
    wish = {"gpu.topology/require-nvlink": "true", "gpu.topology/on-violation": "deny"}
    required = decide(injected(allocated=hami([U[0], U[1]]), annotations=wish), sources=sources)
    assert (required.kind, required.satisfied, required.link) == (Kind.PATCH, None, "")
    assert required.annotations["gpu.topology/satisfied"] == "unknown"
    doubt = "how GPU0 GPU1 of node h20-node-1 are linked is not known: HAMi "
    assert required.warnings[0].startswith(f"GT315: whether the requirements are met is not known: {doubt}")


def test_an_old_topology_that_knows_the_links_is_better_than_one_that_does_not() -> None:
    sources = Sources(published=H20.published, age=700, annotated=hami_node())
    wish = {"gpu.topology/require-nvlink": "true", "gpu.topology/on-violation": "deny"}
    outcome = decide(injected(allocated=hami([U[0], U[1]]), annotations=wish), sources=sources)
    assert (outcome.link, outcome.satisfied) == ("NVSwitch", True)
    assert outcome.warnings == ["GT317: the agent of node h20-node-1 has not been heard of for 12 minutes"]


def test_an_agent_that_sees_no_gpu_does_not_hide_what_hami_says() -> None:
    blind = NodeTopology(node="h20-node-1", source="nvml", problem="no driver")
    sources = Sources(published=KnownNode(blind, origin=Origin.AGENT), age=1, annotated=hami_node())
    found = injected(allocated=hami([U[0], U[1]]), annotations={"gpu.topology/profile": "node-peers"})
    assert decide(found, sources=sources).annotations["gpu.topology/cuda-visible-devices.0"] == "0,1"


@pytest.mark.parametrize("node", [hami_node(unhealthy=(2,)), hami_node(first=1)], ids=["unhealthy", "left-out"])
def test_host_indices_are_not_guessed_where_hami_does_not_list_every_gpu(node: KnownNode) -> None:
    sources = Sources(annotated=node)
    found = injected(allocated=hami([U[5], U[6]]), annotations={"gpu.topology/profile": "node-peers"})
    outcome = decide(found, sources=sources)
    assert (outcome.kind, outcome.reason) == (Kind.REFUSE, BindReason.NODE_UNKNOWN)
    assert "HAMi's annotations of node h20-node-1 do not list all of its GPUs by number (" in outcome.message
    exclusive = decide(injected(allocated=hami([U[5], U[6]])), sources=sources)
    assert exclusive.kind is Kind.PATCH


def test_gpus_that_hami_registered_without_indices_have_no_order_in_the_peer_profiles() -> None:
    register = "".join(f"{uuid},10,97871,100,NVIDIA-NVIDIA H20,0,true:" for uuid in reversed(U))
    topology = read_hami(register, None, node="h20-node-1", source="Node h20-node-1")
    for profile in ("node-peers", "pod-peers"):
        found = injected(allocated=hami([U[5], U[6]]), annotations={"gpu.topology/profile": profile})
        outcome = decide(found, sources=Sources(annotated=annotated(topology)))
        assert (outcome.kind, outcome.reason) == (Kind.REFUSE, BindReason.NODE_UNKNOWN)


def served(pod: Pod, text: str) -> Pod:
    """The pod with what HAMi's device plugin will read."""
    return annotated_with(pod, {"hami.io/vgpu-devices-to-allocate": text})


def annotated_with(pod: Pod, annotations: dict[str, str]) -> Pod:
    assert pod.metadata is not None
    metadata = msgspec.structs.replace(pod.metadata, annotations=pod.annotations | annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


def test_an_allocation_that_somebody_changed_is_noticed() -> None:
    found = injected(allocated=hami([U[6], U[7]]), annotations={"gpu.topology/profile": "node-peers"})
    for text in (hami([U[6], U[7]]), ";;", ""):
        assert decide(served(found, text)).kind is Kind.PATCH
    outcome = decide(served(found, hami([U[0], U[1]])))
    assert (outcome.kind, outcome.reason) == (Kind.REFUSE, BindReason.BAD_ALLOCATION)
    assert "name different GPUs: one of them was changed" in outcome.message


def test_a_pod_that_was_told_of_other_gpus_at_its_creation_forgets_them() -> None:
    told = {
        "gpu.topology/link": "NVSwitch",
        "gpu.topology/satisfied": "true",
        "gpu.topology/nccl-p2p-level": "NVL",
    }
    pod = annotated_with(injected(allocated=hami([U[0], U[1]])), told)
    outcome = decide(pod, sources=Sources())
    assert (outcome.kind, outcome.reason) == (Kind.DEGRADED, BindReason.NODE_UNKNOWN)
    assert outcome.annotations == {
        "gpu.topology/nccl-p2p-level": "auto",
        "gpu.topology/nccl-nvls": "2",
        "gpu.topology/node-topology": "{}",
        "gpu.topology/link": "",
        "gpu.topology/bandwidth": "",
        "gpu.topology/ring-order": "",
        "gpu.topology/numa": "",
        "gpu.topology/satisfied": "unknown",
    }


def test_containers_that_a_namespace_leaves_out_later_keep_what_admission_chose() -> None:
    found = injected(
        container("prefill", 1),
        container("decode", 1),
        allocated=hami([U[0]], [U[1]]),
        annotations={"gpu.topology/profile": "pod-peers"},
    )
    changed = Namespace(ALL_ALLOWED.name, ALL_ALLOWED.labels, {"gpu.topology/containers": "decode"})
    written = decide(found, namespace=changed).annotations
    assert written["gpu.topology/cuda-visible-devices.0"] == "0"
    assert written["gpu.topology/cuda-visible-devices.1"] == "1"


def test_an_old_topology_is_not_enough_for_a_remap_container_that_sees_no_gpu() -> None:
    rules = policy(remap={"seesGpus": False})
    wish = {"gpu.topology/profile": "node-peers"}
    found = injected(allocated=hami([U[0], U[1]]), annotations=wish, rules=rules)
    outcome = decide(found, sources=published(machines.h20(), age=1800), rules=rules)
    assert (outcome.kind, outcome.reason) == (Kind.REFUSE, BindReason.NODE_UNKNOWN)


def test_options_of_the_namespace_hold_at_bind_as_they_do_at_admission() -> None:
    strict = Namespace(
        "team-a",
        dict(TEAM_A.labels),
        {"gpu.topology/require-nvlink": "true", "gpu.topology/on-violation": "deny"},
    )
    found = injected(allocated=hami([BRIDGED.gpus[0].uuid, BRIDGED.gpus[2].uuid]), node=BRIDGED.node, namespace=strict)
    outcome = decide(found, to(BRIDGED.node), published(BRIDGED), strict)
    assert (outcome.kind, outcome.code) == (Kind.REFUSE, 403)


@pytest.mark.parametrize("binding", [Binding(None, Target("h20-node-1")), to_nameless()])
def test_where_clients_show_certificates_a_binding_need_not_name_the_uid(binding: Binding) -> None:
    rules = policy(server={"clientAuthority": "/etc/clients/ca.crt"})
    assert rules.knows_clients
    found = injected(allocated=hami([U[0], U[1]]))
    assert decide(found, binding, rules=rules).reason is BindReason.RESOLVED
    assert decide(found, to(uid="uid-2"), rules=rules).reason is BindReason.POD_RECREATED


# The place of our sidecar.

HAMI_2_10_0 = ClusterFacts(hami=Version(2, 10), kubernetes=Version(1, 33))
NOT_FIRST = (
    "GT248: init container istio-init stands ahead of the sidecar gpu-topology-remap: HAMi after 2.10 may take the "
    "pod's GPUs for those of istio-init, and offer them to other pods while the pod runs"
)


def beside_a_mesh(*segments: list[str], behind: bool = True) -> Pod:
    """A pod with our sidecar and an init container of others, and with this allocation."""
    manifest = allocated_to(pod(container()), hami(*segments), "h20-node-1", ALL_ALLOWED, None, HAMI_2_10_0)
    (remap,), mesh = manifest["spec"]["initContainers"], container("istio-init", gpus=None)
    manifest["spec"]["initContainers"] = [mesh, remap] if behind else [remap, mesh]
    return msgspec.json.decode(to_json(manifest), type=Pod)


def test_a_sidecar_that_does_not_stand_first_is_told_where_a_later_hami_counts_by_position() -> None:
    outcome = decide(beside_a_mesh([U[0], U[1]]))
    assert (outcome.kind, outcome.warnings) == (Kind.PATCH, [NOT_FIRST])
    assert outcome.event is not None
    assert outcome.event.reason == "SidecarNotFirst"
    assert outcome.event.note == NOT_FIRST.replace("GT248: ", f"GT248: {ON_NODE}: ")


def test_nothing_is_told_where_the_sidecar_stands_first_or_every_container_has_a_segment() -> None:
    for found in (beside_a_mesh([U[0], U[1]], behind=False), beside_a_mesh([], [], [U[0], U[1]])):
        outcome = decide(found)
        assert (outcome.kind, outcome.warnings, outcome.event) == (Kind.PATCH, [], None)
