"""Each fault is found, and nothing else; in a cluster without faults nothing is."""

from collections import Counter
from datetime import timedelta

import pytest

from tests.insight.analyze import claim_faults
from tests.insight.analyze.clusters import AT, CONFIGURATION, Cluster, Object, cards, h20, node, pairs, running
from tests.insight.analyze.faults import FAULTS, MOST, Fault, mixture, slice_on_two_cards, worse_cards
from tests.insight.explain.situations import injected, on
from tests.pods import container, pod
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.analyze.diagnosis import Severity
from webhook.insight.analyze.rows import counts, rows
from webhook.words.catalogue import cluster_findings
from webhook.words.catalogue.cluster_findings import NOT_READ
from webhook.words.catalogue.entry import Entry
from webhook.words.catalogue.index import entries
from webhook.words.catalogue.links import AGE_NOT_KNOWN
from webhook.words.catalogue.peers import GROUP_ON_OTHER_NODES

MIXTURES = 6


def test_in_a_cluster_without_faults_nothing_is_found() -> None:
    assert Cluster().analyzed() == []


def test_of_a_pod_with_claims_in_order_nothing_is_found() -> None:
    cluster = Cluster()
    claim_faults.in_order(cluster)
    assert cluster.analyzed() == []
    assert cluster.analyzed(claims={"enabled": True}) == []


def test_a_pod_waits_for_its_claim_without_a_finding() -> None:
    cluster = Cluster()
    made, claim = claim_faults.with_claims(cluster, "patient", h20("claimed"), 0, 1)
    del made["spec"]["nodeName"]
    made["status"]["phase"] = "Pending"
    del claim["status"]
    assert cluster.analyzed() == []


def test_a_claim_for_a_network_card_is_passed_over() -> None:
    cluster = Cluster()
    made, claim = claim_faults.with_claims(cluster, "remote", h20("claimed"), 0, 1)
    claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "nic.example.com"
    del made["metadata"]["annotations"]
    made["status"] = {**made["status"], "phase": "Running"}
    assert cluster.analyzed(claims={"enabled": True}) == []


@pytest.mark.parametrize(
    ("kind", "resource", "code"),
    [("ResourceClaim", "resourceclaims", "GT293"), ("ResourceSlice", "resourceslices", "GT294")],
)
def test_claims_that_may_not_be_read_are_not_taken_for_missing(kind: str, resource: str, code: str) -> None:
    cluster = Cluster()
    claim_faults.in_order(cluster)
    for key in [key for key in cluster.objects if key[0] == kind]:
        del cluster.objects[key]
    cluster.read.remove(kind)
    cluster.unread.append({"what": resource, "problem": f"list {resource}: forbidden (403)"})
    assert cluster.found() == {(code, "Pod team-a/claims-well"), ("GT851", "Cluster cluster")}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_found_with_a_fix_and_the_page_of_its_code_and_nothing_else(fault: Fault) -> None:
    cluster = Cluster()
    fault.make(cluster)
    found = cluster.analyzed()
    assert {(each.code, str(each.holder)) for each in found} == fault.expected
    for each in found:
        assert each.code in entries()
        assert each.fix, each
        assert each.page == f"messages.md#{each.code.lower()}"


def test_a_slice_that_is_meant_is_one_hint_and_what_keeps_a_pod_from_its_start_is_an_error() -> None:
    cluster = Cluster()
    for fault in FAULTS:
        if fault.name in ("slice on two cards", "image missing", "container refused", "other GPUs"):
            fault.make(cluster)
    found = analyze(cluster.snapshot())
    assert [(each.severity.value, each.code) for each in found.findings] == [
        *(("error", code) for code in ("GT365", "GT366", "GT367")),
        ("hint", "GT208"),
        ("hint", "GT244"),
    ]
    words = {key: judgement.nvlink for key, judgement in found.pods.items()}
    assert words["team-a/small"] == "unknown"
    assert words["team-a/imageless"] == words["team-a/refused"] == words["team-a/exchanged"] == "no"


def test_a_slice_of_a_pod_that_asks_for_whole_cards_is_a_finding() -> None:
    cluster = Cluster()
    slice_on_two_cards(cluster)
    cluster.get("Pod", "small", "team-a")["metadata"]["annotations"]["gpu.topology/profile"] = "exclusive"
    severities = {each.severity.value for each in cluster.analyzed() if str(each.holder) == "Pod team-a/small"}
    assert "warning" in severities


def test_among_the_findings_of_one_severity_those_that_decide_lead() -> None:
    cluster = Cluster()
    next(fault for fault in FAULTS if fault.name == "not opted in").make(cluster)
    assert [(each.code, each.decides) for each in cluster.analyzed()] == [
        ("GT210", True),
        ("GT103", False),
        ("GT155", False),
    ]


def test_each_code_of_the_cluster_is_raised_by_some_fault() -> None:
    raised = {code for fault in FAULTS for code, _ in fault.expected}
    own = {entry.code for entry in vars(cluster_findings).values() if isinstance(entry, Entry)}
    assert own <= raised


@pytest.mark.parametrize(
    "seed", [*range(MIXTURES), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(MIXTURES, 20))]
)
def test_of_a_dozen_faults_each_is_found_and_nothing_else(seed: int) -> None:
    cluster, expected = Cluster(), set[tuple[str, str]]()
    chosen = mixture(seed)
    assert len(chosen) == MOST
    for fault in chosen:
        fault.make(cluster)
        expected |= fault.expected
    assert cluster.found() == expected


def test_what_stops_nvlink_is_an_error_and_what_is_not_known_is_neither() -> None:
    cluster = Cluster()
    for fault in FAULTS:
        if fault.name in ("worse cards", "P2P off", "not opted in", "something unread"):
            fault.make(cluster)
    levels = {each.code: each.severity for each in cluster.analyzed()}
    assert levels["GT412"] is Severity.ERROR
    assert levels["GT336"] is Severity.WARNING
    assert levels["GT103"] is Severity.WARNING
    assert levels["GT851"] is Severity.INFO


def test_the_pods_of_a_deployment_are_told_of_together() -> None:
    cluster = Cluster()
    next(fault for fault in FAULTS if fault.name == "many of a Deployment").make(cluster)
    found = cluster.analyzed()
    assert counts(found) == {Severity.ERROR: 0, Severity.WARNING: 120, Severity.INFO: 0, Severity.HINT: 0}
    told = rows(found)
    assert Counter(row.first.code for row in told) == {"GT103": 1, "GT155": 1, "GT210": 1}
    assert {row.title for row in told} == {"Deployment fleet/serve (40 pods)"}


def test_the_name_of_an_owner_is_bounded() -> None:
    """Whoever may create pods may name any owner, and the API server takes any text for its kind and name."""
    cluster = Cluster()
    cluster.apply("waiting")
    owner = {"kind": "Job\x1b", "name": "x" * 100_000, "uid": "u"}
    cluster.get("Pod", "patient", "team-a")["metadata"]["ownerReferences"] = [owner]
    (title,) = {row.title for row in rows(cluster.analyzed())}
    assert title.startswith("Job\\x1b team-a/xxx")
    assert len(title) < 1024


def test_a_namespace_alone_has_its_own_pods_and_what_belongs_to_none() -> None:
    cluster = Cluster()
    for fault in FAULTS:
        if fault.name in ("not opted in", "P2P off", "silent agent", "unreadable namespace", "slice on a switch"):
            fault.make(cluster)
    found = analyze(cluster.snapshot(), namespace="plain").findings
    holders = {str(each.holder) for each in found}
    assert holders == {"Pod plain/notebook", "Node silent"}


def test_what_was_not_read_is_not_missing() -> None:
    cluster = Cluster()
    cluster.read = []
    cluster.remove(CONFIGURATION, "gpu-topology-webhook")
    cluster.add(node(pairs("elsewhere"))[0])
    assert {code for code, _ in cluster.found()} == set()


def test_an_agent_whose_lease_was_not_read_is_not_silent() -> None:
    """Whoever may not list Leases is told that, and of no agent that it is silent, nor what would follow from it."""
    cluster = Cluster()
    for name in ("paired", "switched"):
        cluster.remove("Lease", f"gpu-topology-{name}", "gpu-topology-nodes")
    cluster.read.remove("Lease")
    assert cluster.found() == set()
    cluster.unread.append({"what": "leases", "problem": "list leases: you may not"})
    told = {
        "Cluster cluster": NOT_READ.code,
        "Pod team-a/train": AGE_NOT_KNOWN.code,
        "Pod team-a/pair": AGE_NOT_KNOWN.code,
    }
    found = cluster.analyzed()
    assert {str(each.holder): each.code for each in found} == told
    assert {each.severity for each in found} == {Severity.INFO}


def test_cards_are_not_compared_where_only_hami_tells_of_them_and_not_how_they_are_linked() -> None:
    cluster = Cluster()
    for name in ("paired", "switched"):
        cluster.remove("ConfigMap", f"gpu-topology-{name}", "gpu-topology-nodes")
    cluster.read.remove("ConfigMap")
    assert cluster.found() == {("GT329", "Pod team-a/pair"), ("GT329", "Pod team-a/train")}


def test_slices_on_all_cards_of_a_pair_strand_nothing() -> None:
    cluster = Cluster()
    cluster.apply("slice-on-pair")
    second = cluster.get("Pod", "rerank", "team-a")
    second["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = (
        "GPU-paired.2,NVIDIA,8000,0:GPU-paired.3,NVIDIA,8000,0:;"
    )
    second["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 2
    assert "GT243" not in {code for code, _ in cluster.found()}


def test_a_pod_that_has_waited_for_minutes_only_is_no_finding_of_its_own() -> None:
    cluster = Cluster()
    cluster.apply("waiting")
    cluster.get("Pod", "patient", "team-a")["metadata"]["creationTimestamp"] = (AT - timedelta(minutes=5)).isoformat()
    assert "GT639" not in {code for code, _ in cluster.found()}


def test_cards_that_the_author_of_a_pod_named_are_not_compared_with_others() -> None:
    cluster = Cluster()
    worse_cards(cluster)
    named_cards = {"nvidia.com/use-gpuuuid": "GPU-cubes.0,GPU-cubes.5"}
    cluster.get("Pod", "unlucky", "team-a")["metadata"]["annotations"] |= named_cards
    assert {code for code, _ in cluster.found()} == {"GT330"}


def test_a_pod_of_a_group_is_not_sent_to_another_node() -> None:
    cluster = Cluster()
    cluster.add(running("apart", "paired", 1, 2))
    cluster.remove("Pod", "pair", "team-a")
    cluster.get("Pod", "apart", "team-a")["metadata"]["labels"] = {"gpu.topology/group": "serving"}
    assert "GT336" not in {code for code, _ in cluster.found()}


def test_a_single_slice_loses_no_links_whatever_is_not_known_of_it() -> None:
    cluster = Cluster()
    cluster.apply("slice-on-switch")
    cluster.remove("Namespace", "team-a")
    cluster.remove("ConfigMap", "gpu-topology-switched", "gpu-topology-nodes")
    assert not {code for code, holder in cluster.found() if holder == "Pod team-a/embed"}


def member(number: int, where: str = "") -> Object:
    """A pod of a group whose pods work together on one node."""
    options = {"gpu.topology/profile": "node-peers", "gpu.topology/group": "serving"}
    found = injected(pod(container(gpus=2), annotations=options, schedulerName="hami-scheduler"))
    found["metadata"] |= {"name": f"member-{number}", "uid": f"uid-{number}"}
    return on(found, where, cards(where, 2 * number, 2 * number + 1)) if where else found


def test_pods_of_a_group_on_several_nodes_are_found_and_those_on_one_are_not() -> None:
    cluster = Cluster()
    for name in ("one", "two"):
        cluster.add_node(h20(name))
    for number in range(2):
        cluster.add(member(number, "one"))
    together = {code for code, holder in cluster.found() if holder == "Pod team-a/member-0"}
    cluster.add(member(2, "two"))
    apart = {code for code, holder in cluster.found() if holder == "Pod team-a/member-0"}
    assert apart - together == {GROUP_ON_OTHER_NODES.code}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("gpu.topology/polcy", {("hint", "GT118")}),
        ("gpu-topology/policy", {("hint", "GT170")}),
        ("example.com/policy", set()),
    ],
)
def test_a_misspelled_option_of_a_running_pod_is_a_hint(key: str, expected: set[tuple[str, str]]) -> None:
    cluster = Cluster()
    cluster.add_node(h20("typed"))
    train = running("train", "typed", 0, 1)
    train["metadata"]["annotations"][key] = "nvlink"
    cluster.add(train)
    assert {(each.severity, each.code) for each in cluster.analyzed()} == expected


def test_of_a_group_of_many_a_few_are_enough() -> None:
    cluster = Cluster()
    cluster.add(member(0, "switched"))
    for number in range(1, 120):
        cluster.add(member(number))
    assert max(len(each.text) for each in cluster.analyzed()) < 512  # the names alone take twice as much
