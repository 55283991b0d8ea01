"""What is said of a pod in each state that a claim can be in, as a real API server had it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.decisions.claims.cases import CASES, case
from tests.hardware.topology import machines
from tests.insight.explain.situations import finding, said
from tests.judge import policy
from webhook.decisions.claims.evidence import KnownClaims
from webhook.decisions.claims.slices import Pools
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.insight.explain.evidence import Evidence
from webhook.insight.explain.explain import explain
from webhook.insight.explain.findings import Finding, Reach, Report
from webhook.objects.claims import ResourceClaim
from webhook.objects.pod import EnvVar, Namespace, Pod, PodSpec, PodStatus

NODE = "a100-bridged"
TOPOLOGY = dataclasses.replace(machines.a100_pcie_bridged(), node=NODE)
TEAM = Namespace("team", {"gpu.topology/injection": "enabled"})
ENABLED = policy(claims={"enabled": True})

# By hand: the findings of the condition resource-claims of a pod that is bound to the node, and how far NVLink reaches.
STATES: dict[str, tuple[list[tuple[str, str]], Reach]] = {
    "template-one": ([("holds", "")], Reach.NOTHING_TO_JOIN),
    "direct-shared-by-pods": ([("holds", "")], Reach.NONE),
    "two-containers-one-claim": ([("holds", "")], Reach.NONE),
    "two-requests-one-claim": ([("holds", "")], Reach.NONE),
    "first-available": ([("holds", "")], Reach.ALL),
    "extended-resource": ([("holds", "")], Reach.NONE),
    "extended-resource-init": ([("holds", "")], Reach.NONE),
    "gpu-and-nic": ([("holds", "")], Reach.NOTHING_TO_JOIN),
    "two-slices": ([("holds", "")], Reach.NOTHING_TO_JOIN),
    "old-generation": ([("holds", "")], Reach.ALL),
    "hami-whole": ([("holds", ""), ("fails", "GT255")], Reach.NONE),
    "admin-access": ([("not-needed", "")], Reach.NOTHING_TO_JOIN),
    "mig": ([("holds", "")], Reach.NONE),
    "deallocated": ([("fails", "GT264")], Reach.NOTHING_TO_JOIN),
    "unallocated": ([("fails", "GT264")], Reach.NOTHING_TO_JOIN),
    "no-claim-yet": ([("fails", "GT292")], Reach.SOME),
    "reserved-for-another": ([("fails", "GT265")], Reach.NOTHING_TO_JOIN),
    "missing-slices": ([("unknown", "GT269")], Reach.NOTHING_TO_JOIN),
    "incomplete-generation": ([("unknown", "GT270")], Reach.UNKNOWN),
    "device-gone": ([("unknown", "GT271")], Reach.UNKNOWN),
    "hami-shared": ([("fails", "GT267"), ("fails", "GT255")], Reach.NOTHING_TO_JOIN),
    "several-results-same-card": ([("fails", "GT267"), ("fails", "GT255")], Reach.SOME),
    "mps": ([("fails", "GT262")], Reach.NOTHING_TO_JOIN),
    "time-slicing": ([("fails", "GT262")], Reach.NOTHING_TO_JOIN),
}
ALLOCATED = {
    "first-available": "node a100-bridged gives GPU2 and GPU3 to container main",
    "old-generation": "node a100-bridged gives GPU2 and GPU3 to container main",
    "extended-resource": "node a100-bridged gives GPU0 and GPU3 to container main",
    "two-containers-one-claim": (
        "node a100-bridged gives GPU0 and GPU3 to container prefill and GPU0 and GPU3 to container decode"
    ),
    "two-requests-one-claim": "node a100-bridged gives GPU0 and GPU3 to container prefill and GPU2 to container decode",
}


def of(
    name: str,
    *,
    bound: bool = True,
    rules: AdmitPolicy = ENABLED,
    known: Mapping[str, Any] | None = None,
    cluster: ClusterFacts | None = None,
    **spec: Any,
) -> Report:
    """What is said of the pod of a case, on its node or on no node yet."""
    it = case(name)
    claims = {"claims": it.claims, "pools": it.pools, **(known or {})}
    return told(with_spec(it.pod, node_name=NODE if bound else None, **spec), claims, rules, cluster)


def told(
    pod: Pod, claims: Mapping[str, Any], rules: AdmitPolicy = ENABLED, cluster: ClusterFacts | None = None
) -> Report:
    return explain(
        Evidence(
            pod=pod,
            namespace=TEAM,
            policy=rules,
            cluster=cluster or ClusterFacts(),
            claims=KnownClaims(**claims),
            node=NODE if pod.spec and pod.spec.node_name else "",
            sources=Sources(published=KnownNode(TOPOLOGY, origin=Origin.AGENT)),
        )
    )


def with_spec(pod: Pod, **fields: Any) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec or PodSpec(), **fields))


def of_claims(report: Report) -> list[Finding]:
    return [one for one in report.findings if one.condition == "resource-claims"]


@pytest.mark.parametrize("name", sorted(folder.name for folder in CASES.iterdir() if folder.is_dir()))
def test_each_state_of_a_claim_is_told_of_a_bound_pod(name: str) -> None:
    findings, reach = STATES[name]
    report = of(name)
    assert [(str(one.verdict), one.code) for one in of_claims(report)] == findings
    assert report.reach is reach
    assert all(one.remedy for one in report.findings if one.fails)


@pytest.mark.parametrize("name", ALLOCATED)
def test_a_claim_that_is_allocated_is_followed_to_the_links_of_its_gpus(name: str) -> None:
    assert said(of(name), "allocation") == ("holds", ALLOCATED[name])


@pytest.mark.parametrize("name", ["deallocated", "missing-slices", "reserved-for-another", "mps"])
def test_where_it_is_not_known_which_gpus_they_are_the_allocation_says_who_tells(name: str) -> None:
    assert finding(of(name), "allocation").code == "GT295"


@pytest.mark.parametrize(
    ("partitions", "phase", "codes"),
    [
        (("0123", "02", "13"), "Pending", ["", "GT276"]),
        (("0123", "02", "13"), "Running", [""]),  # the driver did prepare it: the slices changed later
        (("0123", "01", "23"), "Pending", [""]),
    ],
)
def test_gpus_that_are_no_partition_are_told_until_the_pod_runs(
    partitions: tuple[str, ...], phase: str, codes: list[str]
) -> None:
    it = case("first-available", partitions)
    pod = msgspec.structs.replace(with_spec(it.pod, node_name=NODE), status=_in(it.pod, phase))
    assert [one.code for one in of_claims(told(pod, {"claims": it.claims, "pools": it.pools}))] == codes


def _in(pod: Pod, phase: str) -> PodStatus:
    return msgspec.structs.replace(pod.status or PodStatus(), phase=phase)


def test_mig_instances_have_no_nvlink() -> None:
    report = of("mig")
    assert (finding(report, "allocation").code, finding(report, "whole-cards").code) == ("GT354", "GT274")


REFUSED = "the API server refused it"


@pytest.mark.parametrize(
    ("name", "fields", "verdict", "code"),
    [
        ("unallocated", {"bound": False}, "unknown", "GT291"),  # it may wait for it, but not on a node
        ("unallocated", {}, "fails", "GT264"),
        ("direct-shared-by-pods", {"bound": False, "known": {"claims": {}}}, "unknown", "GT263"),
        ("direct-shared-by-pods", {"known": {"claims": {}}}, "fails", "GT263"),
        ("reserved-for-another", {"bound": False}, "unknown", "GT265"),
        ("reserved-for-another", {}, "fails", "GT265"),
        (
            "first-available",
            {"known": {"claims": {}, "unread": {"ResourceClaim train-gpus-00001": REFUSED}}},
            "unknown",
            "GT293",
        ),
        ("first-available", {"known": {"pools": Pools(), "pools_problem": REFUSED}}, "unknown", "GT294"),
        ("first-available", {"rules": policy()}, "unknown", "GT164"),
    ],
)
def test_of_a_claim_what_is_known_decides(name: str, fields: dict[str, Any], verdict: str, code: str) -> None:
    (found,) = of_claims(of(name, **fields))
    assert (str(found.verdict), found.code) == (verdict, code)
    assert REFUSED in found.evidence or code not in ("GT293", "GT294")


def test_a_pod_that_has_ended_gave_its_claims_back() -> None:
    it = case("reserved-for-another")
    pod = msgspec.structs.replace(with_spec(it.pod, node_name=NODE), status=PodStatus(phase="Succeeded"))
    assert [one.code for one in of_claims(told(pod, {"claims": it.claims, "pools": it.pools}))] == ["GT297"]
    assert [one.code for one in of_claims(told(pod, {}))] == ["GT297"]


def test_a_shared_claim_names_the_pods_that_use_it_and_the_gpus_are_not_the_pods_alone() -> None:
    report = of("direct-shared-by-pods")
    assert of_claims(report)[0].evidence.endswith("; prefill uses it too")
    assert finding(report, "own-gpus").code == "GT258"


def test_a_claim_of_a_template_is_for_one_pod() -> None:
    report = of("first-available")
    assert of_claims(report)[0].evidence.endswith(", for this pod alone")
    assert said(report, "own-gpus")[0] == "holds"


def test_a_claim_that_is_named_directly_may_be_used_by_others_later() -> None:
    it = case("direct-shared-by-pods")
    claims = {name: used_by(claim, 1) for name, claim in it.claims.items()}
    report = of("direct-shared-by-pods", known={"claims": claims})
    assert of_claims(report)[0].evidence.endswith("; no other pod uses it now, but pods that name it may")
    assert said(report, "own-gpus")[0] == "holds"


def used_by(claim: ResourceClaim, most: int) -> ResourceClaim:
    """The claim with only the newest of its consumers."""
    assert claim.status
    status = msgspec.structs.replace(claim.status, reserved_for=claim.consumers[-most:])
    return msgspec.structs.replace(claim, status=status)


def test_hami_is_not_looked_for_where_claims_give_the_gpus() -> None:
    report = of("first-available")
    assert said(report, "control")[0] == "not-needed"
    assert said(report, "init-container-fault") == ("not-needed", "the GPUs are not scheduled by HAMi")
    assert "treated-by-hami" not in {one.condition for one in report.findings}


def test_placement_says_that_a_claim_cannot_be_changed() -> None:
    verdict, text = said(of("first-available"), "placement")
    assert verdict == "not-needed"
    assert "gpu-topology claim" in text


def test_numbers_of_a_container_count_the_gpus_of_its_claims() -> None:
    def with_env(**env: str) -> Report:
        container = msgspec.structs.replace(
            (case("first-available").pod.spec or PodSpec()).containers[0],  # type: ignore[index]
            env_json=msgspec.Raw(msgspec.json.encode([EnvVar(name, value) for name, value in env.items()])),
        )
        return of("first-available", containers=[container])

    assert said(with_env(CUDA_VISIBLE_DEVICES="0,1"), "own-gpus")[0] == "holds"
    assert finding(with_env(CUDA_VISIBLE_DEVICES="2,3"), "own-gpus").code == "GT225"
    assert said(with_env(NVIDIA_VISIBLE_DEVICES="void"), "own-gpus")[0] == "holds"  # what the claim gives replaces it


def test_a_claim_of_something_else_is_passed_over() -> None:
    it = case("first-available")
    others = policy(claims={"enabled": True, "drivers": [{"name": "npu.example", "deviceClasses": ["npu.example"]}]})
    report = told(with_spec(it.pod, node_name=NODE), {"claims": it.claims, "pools": it.pools}, others)
    assert of_claims(report) == []
    assert report.reach is Reach.NOTHING_TO_JOIN


def test_an_extended_resource_may_still_be_served_by_a_claim() -> None:
    it = case("extended-resource")
    waiting = msgspec.structs.replace(it.pod, status=None)
    report = told(waiting, {}, cluster=ClusterFacts(claimed=frozenset({"nvidia.com/gpu"})))
    assert [one.code for one in of_claims(report)] == ["GT296"]
    served_by_a_plugin = told(with_spec(waiting, node_name=NODE), {})
    assert of_claims(served_by_a_plugin) == []


def test_the_peers_of_a_shared_claim_are_the_pods_that_use_it() -> None:
    it = case("direct-shared-by-pods")
    assert it.pod.metadata is not None
    metadata = msgspec.structs.replace(it.pod.metadata, annotations={"gpu.topology/profile": "node-peers"})
    pod = msgspec.structs.replace(with_spec(it.pod, node_name=NODE), metadata=metadata)
    for most, verdict, words in ((2, "holds", "prefill uses ResourceClaim"), (1, "unknown", "ResourceClaim")):
        claims = {name: used_by(claim, most) for name, claim in it.claims.items()}
        found = finding(told(pod, {"claims": claims, "pools": it.pools}), "same-node")
        assert (found.verdict, words in found.evidence) == (verdict, True)
