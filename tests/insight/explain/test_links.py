"""Allocation, node, links, bandwidth, requirements, and what the binding told."""

from dataclasses import replace

import pytest

from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, annotated, decoded, failing, finding, injected, known, on, said, told
from tests.judge import TEAM_A, policy
from tests.pods import ALL_ALLOWED, Manifest, container, pod
from webhook.decisions.bind.binding import begin, finish
from webhook.decisions.bind.pod_to_bind import PodToBind
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.hardware.topology.model import Fabric, MigMode
from webhook.insight.explain.evidence import Evidence, Reading
from webhook.insight.explain.explain import explain
from webhook.insight.explain.findings import Report
from webhook.objects.binding import Binding, Target
from webhook.objects.pod import Metadata, Namespace

DGX1 = known(machines.dgx1_v100())
L40S = known(machines.l40s())
TO_H20 = Binding(Metadata(name="train", namespace="team-a"), Target("h20-node-1"))
PEERS = {"gpu.topology/profile": "pod-peers"}


def v100(*indices: int) -> list[str]:
    return [machines.uuid(index) for index in indices]


def four() -> Manifest:
    return pod(container(gpus=4))


def test_the_gpus_of_a_pod_that_nobody_prepared_are_looked_at_too() -> None:
    report = told(on(four(), "h20-node-1", list(H20[:4])))
    assert said(report, "allocation") == (
        "holds",
        "node h20-node-1 gives GPU0, GPU1, GPU2 and GPU3 to container train",
    )
    assert said(report, "node-topology") == ("holds", "the agent of node h20-node-1 published it")
    assert said(report, "links") == (
        "holds",
        "every pair of GPU0, GPU1, GPU2 and GPU3 has NVLink: link class NVSwitch",
    )
    assert said(report, "bandwidth") == (
        "holds",
        "GPU0-GPU1 have 370.8 GB/s per direction, no pair has less; best ring 370.8 GB/s (0-1-2-3-0), estimated",
    )
    assert said(report, "told-at-binding") == ("not-needed", "only pods that the webhook prepared are told")


def of_unread_node(**written: str) -> Report:
    """A pod of two GPUs, with these annotations, on a node that may not be read."""
    found = annotated(on(injected(pod(container(gpus=2))), "h20-node-1", list(H20[:2])), **written)
    denied = Reading(node_problem="get node h20-node-1: you may not (403)")
    return told(found, sources=Sources(), reading=denied)


@pytest.mark.parametrize("link", ["NVSwitch", "NVLink"])
def test_where_the_node_may_not_be_read_links_are_those_of_the_binding(link: str) -> None:
    report = of_unread_node(**{"link": link, "bandwidth": "370.8", "ring-order": "0,1"})
    assert said(report, "links") == (
        "holds",
        f"the webhook wrote at the Binding: GPUs 0,1 have link class {link} and 370.8 GB/s per direction",
    )
    assert (report.reach, "links" in failing(report)) == ("unknown", False)


@pytest.mark.parametrize(("link", "stops"), [("NVLink-partial", False), ("PIX", True), ("SYS", True)])
def test_links_that_were_bad_at_the_binding_fail_where_the_node_may_not_be_read(link: str, stops: bool) -> None:
    found = finding(of_unread_node(**{"link": link, "bandwidth": "8", "ring-order": "0,1"}), "links")
    assert (found.verdict, found.code, found.stops) == ("fails", "GT867", stops)
    assert found.evidence == (
        "NVLink does not join all these GPUs: "
        f"the webhook wrote at the Binding: GPUs 0,1 have link class {link} and 8 GB/s per direction"
    )
    assert found.remedy == (
        "Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you: "
        "then explain names the pairs without NVLink"
    )


@pytest.mark.parametrize("link", ["", "single", "fast"])
def test_a_pod_that_was_told_no_link_has_unknown_links(link: str) -> None:
    assert said(of_unread_node(link=link), "links") == ("unknown", "which GPUs they are is not known")


def test_links_of_the_binding_say_nothing_of_a_node_that_is_not_there() -> None:
    found = annotated(on(injected(pod(container(gpus=2))), "h20-node-1", list(H20[:2])), link="NVSwitch")
    assert said(told(found, sources=Sources(exists=False)), "links")[0] == "unknown"


def test_a_pair_that_was_measured_slower_is_named_with_both_figures() -> None:
    slower = known(machines.bent(machines.h20(), 1, slower=(("GPU0", 90_000),)))
    wish = on(pod(container(gpus=2)), "h20-node-1", list(H20[:2]))
    found = finding(told(wish, sources=slower), "bandwidth")
    assert (found.verdict, found.code) == ("fails", "GT333")
    assert "GPU0-GPU1 have 90 GB/s per direction (measured: 90.0), no pair has less" in found.evidence
    assert "measured: GPU0-GPU1, 90.0 of 370.8 GB/s" in found.evidence
    others = on(pod(container(gpus=2)), "h20-node-1", list(H20[1:3]))
    assert finding(told(others, sources=slower), "bandwidth").verdict == "holds"


def test_a_pair_that_was_measured_as_fast_as_expected_has_the_figure() -> None:
    measured = known(machines.bent(machines.h20(), 0, measured=(("GPU1", 371_240),)))
    wish = on(pod(container(gpus=2)), "h20-node-1", list(H20[:2]))
    verdict, evidence = said(told(wish, sources=measured), "bandwidth")
    assert verdict == "holds"
    assert evidence.startswith("GPU0-GPU1 have 370.8 GB/s per direction (measured: 371.2), no pair has less")


def test_pairs_without_nvlink_are_named() -> None:
    found = finding(told(on(four(), "dgx1-v100", v100(0, 1, 4, 5)), sources=DGX1), "links")
    assert found.verdict == "fails"
    assert found.evidence == (
        "2 of 6 pairs of GPU0, GPU1, GPU4 and GPU5 have no NVLink: GPU0-GPU5 (SYS) and GPU1-GPU4 (SYS)"
    )
    assert not found.stops
    assert found.remedy.startswith('Set gpu.topology/require-nvlink: "true" on the pod, with which the planner')


def test_two_gpus_without_a_link_use_no_nvlink_where_others_would() -> None:
    report = told(on(pod(), "dgx1-v100", v100(0, 5)), sources=DGX1)
    found = finding(report, "links")
    assert (found.verdict, found.stops) == ("fails", True)
    assert found.evidence == "GPU0 and GPU5 have no NVLink: GPU0-GPU5 (SYS)"
    assert found.remedy == (
        'Set gpu.topology/require-nvlink: "true" on the pod, with which the planner chooses GPUs that are joined. '
        "Other GPUs of node dgx1-v100 are: "
        "gpu-topology topology show on node dgx1-v100"
    )
    assert report.reach == "none"


def test_a_node_without_nvlink_is_left_for_another() -> None:
    found = finding(told(on(pod(), "l40s", v100(0, 1)), sources=L40S), "links")
    assert found.remedy == "No two GPUs of node l40s have NVLink: run the pod on another node"
    assert found.stops


def test_links_that_are_down_make_it_slower() -> None:
    sources = known(machines.with_switch_links(machines.h20(), 1, 10))
    found = finding(told(on(pod(), "h20-node-1", list(H20[:2])), sources=sources), "bandwidth")
    assert found.verdict == "fails"
    assert found.evidence == (
        "GPU0-GPU1 have 206 GB/s per direction, no pair has less; best ring 206.0 GB/s (0-1-0), estimated; "
        "GPU1 has links down: 8 of 18 to nvswitch"
    )


def test_links_of_other_gpus_do_not_matter() -> None:
    sources = known(machines.with_switch_links(machines.h20(), 7, 10))
    report = told(on(pod(), "h20-node-1", list(H20[:2])), sources=sources)
    assert finding(report, "bandwidth").verdict == "holds"


def test_a_fabric_that_is_not_ready_is_told() -> None:
    broken = replace(machines.h20(), fabric=Fabric(state="in-progress"))
    report = told(on(pod(), "h20-node-1", list(H20[:2])), sources=known(broken))
    assert finding(report, "bandwidth").evidence.endswith("; the NVLink fabric is in-progress")


def test_a_pod_without_a_node_is_waited_for() -> None:
    report = told(injected(pod()))
    assert said(report, "allocation") == ("unknown", "the pod is not scheduled yet: which GPUs it gets is open")
    assert said(report, "told-at-binding")[0] == "unknown"
    assert report.node == ""
    assert report.reach == "unknown"
    assert not report.fails
    assert report.conclusion == (
        "Nothing that is known stops NCCL from using NVLink; "
        "not known: allocation, node-topology, links and told-at-binding."
    )


def test_a_pod_that_hami_did_not_schedule_tells_no_gpus() -> None:
    bound = pod(nodeName="h20-node-1")
    found = finding(told(bound), "allocation")
    assert (found.verdict, found.evidence) == ("unknown", "the scheduler has given the pod no GPU")
    assert found.code == "GT302"
    assert "spec.schedulerName" in found.remedy


def test_an_allocation_for_another_node_fails() -> None:
    stale = on(pod(), "h20-node-1", list(H20[:2]))
    stale["metadata"]["annotations"]["hami.io/vgpu-node"] = "other"
    assert said(told(stale), "allocation") == (
        "fails",
        "the allocation was made for node other, but the pod goes to node h20-node-1",
    )


def test_a_gpu_that_is_lost_fails() -> None:
    report = told(on(pod(), "h20-node-1", list(H20[:2])), sources=known(machines.without(machines.h20(), 1)))
    found = finding(report, "allocation")
    assert (found.verdict, found.code) == ("fails", "GT356")
    assert found.evidence == (
        "GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6 of node h20-node-1 is GPU1, which cannot be reached: GPU is lost"
    )


def test_gpus_in_mig_mode_stop_nvlink() -> None:
    cut = machines.bent(machines.h20(), 0, mig_mode=MigMode.ENABLED)
    found = finding(told(on(pod(), "h20-node-1", list(H20[:2])), sources=known(cut)), "allocation")
    assert (found.verdict, found.stops) == ("fails", True)


def test_what_hami_tells_of_a_node_will_do_without_an_agent() -> None:
    sources = Sources(annotated=KnownNode(machines.h20(), origin=Origin.HAMI))
    report = told(on(pod(), "h20-node-1", list(H20[:2])), sources=sources)
    assert said(report, "node-topology") == (
        "holds",
        "HAMi's annotations of node h20-node-1 tell it; the agent, which knows more, published none",
    )


def test_links_that_hami_does_not_tell_are_not_said_to_be_missing() -> None:
    silent = replace(
        machines.h20(),
        source="hami",
        problem="HAMi published no pair scores, so links are unknown.",
        gpus=tuple(replace(gpu, nvlinks=()) for gpu in machines.h20().gpus),
    )
    sources = Sources(annotated=KnownNode(silent, origin=Origin.HAMI))
    required = pod(annotations={"gpu.topology/require-nvlink": "true"})
    report = told(injected(on(required, "h20-node-1", list(H20[:2]))), sources=sources)
    doubt = (
        "how GPU0 GPU1 of node h20-node-1 are linked is not known: HAMi published no pair scores, so links are unknown."
    )
    without_agent = (
        "how GPU0 GPU1 of node h20-node-1 are linked is not known: no agent has published the topology of the node, "
        "and HAMi's annotations do not tell the links"
    )
    assert said(report, "links") == ("unknown", without_agent)
    assert finding(report, "links").remedy == (
        "Run the agent on the node; gpu-topology explain also takes the topology from a file: --topology"
    )
    assert said(report, "requirements") == ("unknown", doubt)
    assert report.reach == "unknown"
    assert "NCCL uses no NVLink" not in report.conclusion


def test_requirements_are_judged() -> None:
    demanding = annotated(pod(), **{"require-nvlink": "true"})
    assert said(told(demanding), "requirements")[0] == "unknown"
    met = on(demanding, "h20-node-1", list(H20[:2]))
    assert said(told(met), "requirements") == ("holds", "what the pod requires of its GPUs is met")
    unmet = on(demanding, "dgx1-v100", v100(0, 5))
    assert said(told(unmet, sources=DGX1), "requirements") == (
        "fails",
        "require-nvlink: GPU0 and GPU5 have 6.0 GB/s (SYS), the link class is SYS",
    )


@pytest.mark.parametrize(
    ("policy", "cards", "verdict"),
    [
        ("nvlink", (0, 5), "fails"),
        ("nvlink", (0, 3), "holds"),
        ("single-numa", (0, 4), "fails"),
        ("single-numa", (0, 3), "holds"),
        ("best-effort", (0, 5), "not-needed"),
        ("spread", (0, 5), "not-needed"),
    ],
)
def test_a_policy_is_judged_as_a_requirement(policy: str, cards: tuple[int, int], verdict: str) -> None:
    found = on(annotated(pod(), policy=policy), "dgx1-v100", v100(*cards))
    assert finding(told(found, sources=DGX1), "requirements").verdict == verdict


def test_numa_nodes_that_are_not_known_leave_the_policy_open() -> None:
    unknown = known(machines.bent(machines.h20(), 1, numa_node=None))
    found = on(annotated(pod(), policy="single-numa"), "h20-node-1", list(H20[:2]))
    judged = finding(told(found, sources=unknown), "requirements")
    assert (judged.verdict, judged.remedy) == ("unknown", "")
    assert judged.evidence == "the NUMA node of GPU1 of node h20-node-1 is not known"


def peers() -> Manifest:
    """An injected pod of two containers with two GPUs each, on its node, before anything was written at its Binding."""
    prepared = injected(pod(container("prefill"), container("decode"), annotations=PEERS), ALL_ALLOWED)
    return on(prepared, "h20-node-1", list(H20[:2]), list(H20[2:4]))


def test_a_binding_that_the_webhook_did_not_see_leaves_peers_without_gpus() -> None:
    report = told(peers())
    found = finding(report, "told-at-binding")
    assert (found.verdict, found.stops) == ("fails", True)
    assert 'gpu.topology/cuda-visible-devices.0 is "-1", and should be "0,1"' in found.evidence
    assert 'gpu.topology/visible-uuids is "none", and should be "GPU-' in found.evidence
    assert report.conclusion == "NCCL uses no NVLink in this pod: told-at-binding."


def test_what_bind_writes_is_what_the_pod_should_say() -> None:
    manifest = peers()
    unbound = decoded(manifest | {"spec": {**manifest["spec"], "nodeName": ""}})
    case = begin(unbound, TO_H20, ALL_ALLOWED, policy())
    assert isinstance(case, PodToBind)
    outcome = finish(case, policy(), known(machines.h20()))
    manifest["metadata"]["annotations"] |= outcome.annotations
    report = told(manifest)
    assert said(report, "told-at-binding") == ("holds", "what the pod was told fits its GPUs: link class NVSwitch")
    assert not report.fails
    assert report.conclusion == (
        "Nothing here stops NCCL from using NVLink between all these GPUs (NVSwitch, 370.8 GB/s per direction)."
    )


def test_a_level_of_an_earlier_version_does_no_harm() -> None:
    before = annotated(on(injected(pod()), "h20-node-1", list(H20[:2])), **{"nccl-p2p-level": "PXB"})
    report = told(before)
    assert said(report, "told-at-binding") == (
        "not-needed",
        'gpu.topology/nccl-p2p-level is "PXB", and should be "auto"; NCCL uses NVLink with the present values too',
    )
    assert report.reach == "all"


def alone() -> Manifest:
    """An injected pod of ``exclusive`` in a namespace that may not see every GPU of a node, before its Binding."""
    return on(injected(pod(), TEAM_A), "h20-node-1", list(H20[:2]))


def test_a_remap_container_that_was_shown_no_gpu_is_named() -> None:
    report = told(alone(), TEAM_A)
    verdict, evidence = said(report, "told-at-binding")
    assert verdict == "not-needed"
    assert evidence.endswith(
        "; the remap container is shown no GPU, so it verifies nothing; NCCL uses NVLink with the present values too"
    )
    assert report.reach == "all"


def test_a_remap_container_that_is_shown_other_gpus_stops_the_pod() -> None:
    report = told(annotated(alone(), **{"visible-uuids": f"{H20[0]},{H20[4]}"}), TEAM_A)
    found = finding(report, "told-at-binding")
    assert (found.verdict, found.stops) == ("fails", False)
    assert found.evidence.startswith(f'gpu.topology/visible-uuids is "{H20[0]}')
    assert found.evidence.endswith(
        "; the remap container is shown other GPUs than the pod's, and stops the pod (exit code 12)"
    )


def test_in_exclusive_the_order_in_which_they_are_listed_does_no_harm() -> None:
    report = told(annotated(alone(), **{"visible-uuids": f"{H20[1]},{H20[0]}"}), TEAM_A)
    assert said(report, "told-at-binding")[0] == "not-needed"
    right = told(annotated(alone(), **{"visible-uuids": f"{H20[0]},{H20[1]}"}), TEAM_A)
    assert said(right, "told-at-binding")[0] == "holds"


def moved(manifest: Manifest, *segments: list[str], **hami: str) -> Manifest:
    """The pod after its allocation was changed, with annotations of HAMi."""
    after = on(manifest, "h20-node-1", *segments)
    after["metadata"]["annotations"] |= {f"hami.io/{key.replace('_', '-')}": value for key, value in hami.items()}
    return after


@pytest.mark.parametrize(
    ("alignment", "code"), [("best-effort", "GT348"), (" STRICT ", "GT348"), ("", "GT343"), ("always", "GT343")]
)
def test_a_refit_is_named_where_the_pod_wants_one(alignment: str, code: str) -> None:
    told_first = annotated(alone(), **{"visible-uuids": f"{H20[0]},{H20[1]}"})
    report = told(moved(told_first, list(H20[4:6]), numa_alignment=alignment), TEAM_A)
    found = finding(report, "told-at-binding")
    assert (found.verdict, found.stops, found.code) == ("fails", False, code)


def test_a_refit_that_the_remap_program_can_judge_is_a_hint() -> None:
    aligned = pod(annotations={"hami.io/numa-alignment": "best-effort"})
    manifest = on(injected(aligned, ALL_ALLOWED), "h20-node-1", list(H20[:2]))
    told_first = annotated(manifest, **{"visible-uuids": f"{H20[0]},{H20[1]}"})
    report = told(moved(told_first, list(H20[4:6])))
    found = finding(report, "told-at-binding")
    assert (found.verdict, found.code) == ("hint", "GT348")
    unmoved = finding(told(told_first), "told-at-binding")
    assert (unmoved.verdict, unmoved.code) == ("holds", "")


def test_peers_whose_allocation_was_moved_use_the_cards_of_others() -> None:
    manifest = moved(bound_peers(), list(H20[4:6]), list(H20[2:4]), numa_alignment="strict")
    found = finding(told(manifest), "told-at-binding")
    assert (found.verdict, found.code) == ("fails", "GT348")
    assert found.evidence.endswith("; its containers go on seeing the first GPUs, which other pods may get")
    without = moved(bound_peers(), list(H20[4:6]), list(H20[2:4]))
    assert finding(told(without), "told-at-binding").code == "GT342"


def test_peers_that_bind_has_not_seen_are_not_said_to_be_moved() -> None:
    found = finding(told(moved(peers(), list(H20[:2]), list(H20[2:4]), numa_alignment="strict")), "told-at-binding")
    assert (found.verdict, found.stops, found.code) == ("fails", True, "GT342")


def bound_peers() -> Manifest:
    """A pod of peers with everything that bind writes."""
    manifest = peers()
    unbound = decoded(manifest | {"spec": {**manifest["spec"], "nodeName": ""}})
    case = begin(unbound, TO_H20, ALL_ALLOWED, policy())
    assert isinstance(case, PodToBind)
    manifest["metadata"]["annotations"] |= finish(case, policy(), known(machines.h20())).annotations
    return manifest


def test_what_the_first_pod_of_a_group_was_told_may_be_older_than_the_others() -> None:
    report = told(annotated(bound_peers(), **{"ring-order": "0,1", "group": "pd"}))
    _, evidence = said(report, "told-at-binding")
    assert evidence.endswith("people do: the node, or which pods of its group are there, may have changed since")


@pytest.mark.parametrize(("more", "verdict"), [({}, "holds"), ({"require-nvlink": "true"}, "not-needed")])
def test_others_of_the_group_change_what_the_pod_was_told_only_where_it_requires_something(
    more: dict[str, str], verdict: str
) -> None:
    asked = annotated(pod(), profile="node-peers", group="pd", **more)
    first, second = (on(injected(asked), "h20-node-1", list(cards)) for cards in (H20[:2], H20[2:4]))
    begun = begin(decoded(first | {"spec": first["spec"] | {"nodeName": ""}}), TO_H20, ALL_ALLOWED, policy())
    assert isinstance(begun, PodToBind)
    first["metadata"]["annotations"] |= finish(begun, policy(), known(machines.h20())).annotations
    report = told(first, others=(second,))
    assert said(report, "told-at-binding")[0] == verdict
    assert "GPU0, GPU1, GPU2 and GPU3" in finding(report, "links").evidence


def test_a_level_without_p2p_is_not_said_to_do_no_harm() -> None:
    manifest = annotated(injected(pod()), **{"nccl-p2p-level": "LOC"})
    report = told(on(manifest, "h20-node-1", list(H20[:2])))
    verdict, evidence = said(report, "told-at-binding")
    assert verdict == "not-needed"
    assert evidence.endswith("; what that does, NCCL_P2P_LEVEL says")
    assert report.reach == "none"


@pytest.mark.parametrize(
    ("key", "value", "family"),
    [
        (
            "scheduling.koordinator.sh/device-allocated",
            '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}',
            "koordinator",
        ),
        ("volcano.sh/vgpu-ids-new", f"{H20[0]},NVIDIA,97871,100:;", "volcano"),
    ],
)
def test_the_annotation_of_another_scheduler_names_the_setting(key: str, value: str, family: str) -> None:
    manifest = pod(nodeName="h20-node-1", annotations={key: value})
    found = finding(told(manifest), "allocation")
    assert found.verdict == "unknown"
    assert f"annotation {key} is of {family.capitalize()}" in found.evidence
    assert f"resources: family: {family}" in found.remedy


def test_a_topology_without_uuids_knows_no_allocation() -> None:
    nameless = replace(machines.h20(), gpus=tuple(replace(gpu, uuid="") for gpu in machines.h20().gpus))
    report = told(on(pod(), "h20-node-1", list(H20[:2])), sources=known(nameless))
    found = finding(report, "allocation")
    assert (found.verdict, found.remedy) == ("unknown", "Add the output of nvidia-smi -L to the topology")
    assert finding(report, "node-topology").verdict == "unknown"


def test_resources_of_two_schedulers_are_a_sentence() -> None:
    mixed = pod(container("a"), container("b", resources={"limits": {"volcano.sh/vgpu-number": 2}}))
    found = finding(told(on(mixed, "h20-node-1", list(H20[:2]))), "allocation")
    assert found.verdict == "unknown"
    assert found.evidence.startswith("container a asks for GPUs of hami, container b for GPUs of volcano")
    assert found.remedy == "Correct what the message names, and create the pod again"


def test_a_file_of_hamis_annotations_is_said_to_know_less() -> None:
    evidence = Evidence(
        pod=decoded(on(pod(), "h20-node-1", list(H20[:2]))),
        namespace=ALL_ALLOWED,
        policy=policy(),
        node="h20-node-1",
        sources=Sources(published=KnownNode(machines.h20(), origin=Origin.HAMI)),
        reading=Reading(node_teller="file node.yaml"),
    )
    assert said(explain(evidence), "node-topology") == (
        "holds",
        (
            "file node.yaml tells it of node h20-node-1; it has it from HAMi's annotations, which know less than the "
            "agent"
        ),
    )


@pytest.mark.parametrize(
    ("namespace", "labels"),
    [(Namespace("team-a"), {}), (TEAM_A, {"gpu.topology/injection": "disabled"})],
    ids=["namespace", "pod"],
)
def test_a_prepared_pod_without_a_node_that_opted_out_is_not_told_at_its_binding(
    namespace: Namespace, labels: dict[str, str]
) -> None:
    waiting = injected(pod())
    assert said(told(waiting), "told-at-binding") == (
        "unknown",
        "the pod is not bound yet: its annotations still say what admission wrote",
    )
    opted_out = waiting | {"metadata": waiting["metadata"] | {"labels": labels}}
    assert said(told(opted_out, namespace), "told-at-binding") == (
        "unknown",
        (
            "the pod is not bound yet: its annotations still say what admission wrote, and its Binding will be left "
            "alone, because the namespace or the pod has opted out"
        ),
    )


def test_a_topology_of_long_ago_is_used_and_doubted() -> None:
    report = told(on(pod(), "h20-node-1", list(H20[:2])), sources=known(machines.h20(), age=7200.0))
    assert said(report, "node-topology") == (
        "unknown",
        "the agent of node h20-node-1 has not been heard of for 120 minutes",
    )
    assert finding(report, "links").verdict == "holds"
