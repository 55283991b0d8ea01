"""Bindings of pods that admission left alone: what these pods require themselves is judged, and nothing else."""

import pytest

from tests.decisions.bind.test_binding import NOT_INJECTED, decide, hami, published, to
from tests.hardware.topology import machines
from tests.pods import ALL_ALLOWED, Manifest, container, pod, team_a
from webhook.decisions.resolve.node import Sources
from webhook.objects.binding import BindOutcome, BindReason
from webhook.objects.manifest.pods import decode_pod, to_json
from webhook.objects.pod import Namespace
from webhook.words.outcome import Kind

SLICES = container(resources={"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}})
NODE = machines.a100_pcie_bridged()
CARDS = [gpu.uuid for gpu in NODE.gpus]
LINKED, APART = CARDS[:2], [CARDS[0], CARDS[2]]
NVLINK, DENY = {"gpu.topology/require-nvlink": "true"}, {"gpu.topology/on-violation": "deny"}
LEFT_ALONE = (
    "GT180: pod team-a/train: the webhook did not prepare the pod: its requirements are judged by the links of its "
    "GPUs alone"
)


def bound(
    cards: list[str],
    annotations: dict[str, str],
    namespace: Namespace = ALL_ALLOWED,
    asking: Manifest = SLICES,
    sources: Sources | None = None,
) -> BindOutcome:
    """The outcome for a pod that was created as it is, and that HAMi gave these cards."""
    manifest = pod(asking, annotations=annotations)
    manifest["metadata"]["uid"] = "uid-1"
    manifest["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": NODE.node,
        "hami.io/vgpu-devices-allocated": hami(cards) if cards else "",
    }
    found = decode_pod(to_json(manifest), "pod")
    return decide(found, to(NODE.node), sources or published(NODE), namespace)


def test_slices_on_cards_without_a_link_are_told_and_go_on() -> None:
    outcome = bound(APART, NVLINK)
    assert (outcome.kind, outcome.reason) == (Kind.DEGRADED, BindReason.REQUIREMENT_NOT_MET)
    assert (outcome.annotations, outcome.satisfied) == ({}, False)
    assert outcome.warnings == [LEFT_ALONE, outcome.message]
    assert outcome.message.startswith("GT310: pod team-a/train on node ")
    assert outcome.event is not None
    assert (outcome.event.reason, outcome.event.note) == ("RequirementNotMet", outcome.message)


def test_with_deny_they_are_refused() -> None:
    outcome = bound(APART, NVLINK | DENY)
    assert (outcome.kind, outcome.reason, outcome.code) == (Kind.REFUSE, BindReason.REQUIREMENT_NOT_MET, 403)
    assert outcome.message == bound(APART, NVLINK).message


def test_slices_on_linked_cards_go_on_without_a_patch() -> None:
    outcome = bound(LINKED, NVLINK | DENY)
    assert (outcome.kind, outcome.reason, outcome.satisfied) == (Kind.SKIP, BindReason.NOT_INJECTED, True)
    assert (outcome.annotations, outcome.warnings, outcome.event) == ({}, [LEFT_ALONE], None)


def test_whole_cards_of_a_pod_that_admission_never_saw_are_judged_as_well() -> None:
    assert bound(APART, NVLINK | DENY, asking=container()).code == 403
    assert bound(LINKED, NVLINK | DENY, asking=container()).satisfied is True


@pytest.mark.parametrize("node_level", ["require-nvlink", "min-bandwidth"])
def test_what_the_namespace_requires_is_for_pods_that_are_injected(node_level: str) -> None:
    value = {"require-nvlink": "true", "min-bandwidth": "1000"}[node_level]
    demanding = team_a({f"gpu.topology/{node_level}": value, "gpu.topology/on-violation": "deny"})
    assert bound(APART, {}, demanding) == NOT_INJECTED


def test_deny_of_the_namespace_counts_for_what_the_pod_requires() -> None:
    assert bound(APART, NVLINK, team_a(DENY)).code == 403


@pytest.mark.parametrize(
    "annotations",
    [{}, DENY, {"gpu.topology/shm-size": "1Gi"}, {"gpu.topology/policy": "spread"}, {"gpu.topology/group-size": "2"}],
)
def test_a_pod_that_requires_nothing_of_links_is_left_alone(annotations: dict[str, str]) -> None:
    assert bound(APART, annotations | DENY) == NOT_INJECTED


@pytest.mark.parametrize("annotations", [{"gpu.topology/min-bandwidth": "fast"}, {"gpu.topology/inject": "false"}])
def test_a_pod_that_opted_out_or_cannot_be_read_is_left_alone(annotations: dict[str, str]) -> None:
    assert bound(APART, annotations | NVLINK | DENY) == NOT_INJECTED


def test_cards_that_are_not_known_violate_nothing() -> None:
    outcome = bound(APART, NVLINK | DENY, sources=Sources())
    assert (outcome.kind, outcome.reason) == (Kind.SKIP, BindReason.NOT_INJECTED)
    (said,) = outcome.warnings
    assert said.startswith("GT315: pod team-a/train: whether the requirements are met is not known: the topology of")
    assert outcome.event is None


def test_mig_instances_meet_no_requirement_about_links() -> None:
    instances = [f"{CARDS[0]}[1-0]", f"{CARDS[0]}[1-1]"]
    assert bound(instances, NVLINK | DENY).code == 403
    assert bound(instances, NVLINK).kind is Kind.DEGRADED
