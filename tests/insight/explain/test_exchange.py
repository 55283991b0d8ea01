"""A pod that exchanges GPU memory with peers, to which its profile gives no way, is not told that all is well."""

from dataclasses import replace
from typing import Any

import pytest

from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, decoded, failing, finding, injected, known, on, said, told
from tests.insight.explain.test_nvlink import verified
from tests.judge import TEAM_A
from tests.pods import Manifest, container, pod
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.insight.explain.findings import Reach, Verdict

SGLANG = "exec sglang serve --disaggregation-mode decode --disaggregation-transfer-backend nixl --tp-size 2"


def side(name: str = "decode", gpus: int = 2) -> Manifest:
    return container(name, gpus, command=["bash", "-c", SGLANG])


def running(*sides: Manifest, gpus: int = 2, annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    """An injected pod with the first cards of a node of eight."""
    manifest = injected(pod(*(sides or (side(gpus=gpus),)), annotations=annotations, **spec))
    return on(manifest, "h20-node-1", list(H20[:gpus]))


def test_the_condition_fails_with_the_whole_way() -> None:
    report = told(running(), TEAM_A)
    found = finding(report, "peers")
    assert (found.verdict, found.code, found.stops) == (Verdict.FAILS, "GT570", False)
    assert found.evidence == (
        "decode seems to exchange GPU memory (SGLang nixl); peers have no way to it in profile exclusive"
    )
    assert found.remedy == (
        "Set gpu.topology/profile: node-peers and one gpu.topology/group on all peers, and create the pod again. If it "
        "exchanges none with other containers or pods, set gpu.topology/peers: none. What an administrator does first: "
        "kubectl label namespace team-a gpu.topology/allow-node-gpus=true gpu.topology/allow-host-ipc=true "
        "gpu.topology/allow-host-pid=true"
    )


def test_the_conclusion_does_not_say_that_nothing_stops_nvlink() -> None:
    report = told(running())
    assert report.reach is Reach.SOME
    assert report.conclusion == "NVLink does not reach the peers with which this pod seems to exchange memory: peers."
    not_meant = told(running(annotations={"gpu.topology/peers": "none"}))
    assert not_meant.conclusion.startswith("Nothing here stops NCCL from using NVLink")


def test_the_word_is_unknown_and_the_sign_decides_also_after_a_verified_start() -> None:
    judged = told(verified(running())).judgement
    assert (judged.nvlink, judged.code) == ("unknown", "GT570")
    assert told(verified(running(annotations={"gpu.topology/peers": "none"}))).judgement.code != "GT570"


def test_two_containers_are_told_pod_peers() -> None:
    both = injected(pod(side("prefill"), side()))
    report = told(on(both, "h20-node-1", list(H20[:2]), list(H20[2:4])))
    assert finding(report, "peers").remedy.startswith("Set gpu.topology/profile: pod-peers, and create")


def test_a_pod_with_one_card_that_was_left_alone_is_told_too() -> None:
    report = told(on(pod(side(gpus=1)), "h20-node-1", [H20[0]]))
    verdict, evidence = said(report, "peers")
    assert (verdict, evidence) == (
        "fails",
        "decode seems to exchange GPU memory (SGLang nixl); peers have no way to it without a profile for peers",
    )
    assert report.judgement.code == "GT570"
    without = told(on(pod(container("decode", 1)), "h20-node-1", [H20[0]]))
    assert without.reach is Reach.NOTHING_TO_JOIN


NO_NVLINK = ("no", "GT580", "certain")


@pytest.mark.parametrize("annotations", [None, {"gpu.topology/profile": "node-peers", "gpu.topology/group": "a"}])
def test_on_a_node_without_nvlink_neither_a_profile_nor_a_permission_is_asked_for(
    annotations: dict[str, str] | None,
) -> None:
    node = machines.l40s()
    manifest = on(pod(side(gpus=1), annotations=annotations), node.node, [node.gpus[0].uuid])
    report = told(manifest, sources=known(node))
    assert (report.judgement.nvlink, report.judgement.code, report.judgement.sureness) == NO_NVLINK
    assert (
        report.judgement.reason
        == f"container decode seems to exchange GPU memory with peers, and node {node.node} has no NVLink"
    )
    said = " ".join(one.remedy for one in report.findings)
    assert not any(word in said for word in ("kubectl label", "hostIPC", "hostPID", "node-peers"))
    waiting = told(pod(side(gpus=1), annotations=annotations), sources=known(node))
    assert waiting.judgement.code == "GT580"
    bridged = machines.a100_pcie_bridged()
    elsewhere = on(pod(side(gpus=1), annotations=annotations), bridged.node, [bridged.gpus[0].uuid])
    assert "GT580" not in {one.code for one in told(elsewhere, sources=known(bridged)).findings}


def test_a_rank_of_a_job_has_no_nvlink_there_either() -> None:
    node = machines.l40s()
    labels = {"training.kubeflow.org/job-name": "train"}
    one, other = (on(pod(container(gpus=1), labels=labels), node.node, [gpu.uuid]) for gpu in node.gpus[:2])
    report = told(one, sources=known(node), ranks=(decoded(other),))
    assert (report.judgement.nvlink, report.judgement.code, report.judgement.sureness) == NO_NVLINK


def test_a_node_whose_links_are_not_known_does_not_count_as_one_without_nvlink() -> None:
    node = machines.l40s()
    unread = [replace(gpu, links_problem="the driver did not answer") for gpu in node.gpus]
    cards = replace(node, gpus=tuple(unread))
    assert KnownNode(cards, origin=Origin.AGENT).lacks_nvlink  # no L40S has NVLink
    boards = replace(node, gpus=tuple(replace(gpu, name="NVIDIA H100", compute_capability="9.0") for gpu in unread))
    assert not KnownNode(boards, origin=Origin.AGENT).lacks_nvlink


def test_a_pod_with_all_cards_of_its_node_has_no_peers_there() -> None:
    assert said(told(running(gpus=8)), "peers")[0] == "not-needed"
    assert said(told(running(gpus=6)), "peers")[0] == "fails"


@pytest.mark.parametrize("profile", ["pod-peers", "node-peers"])
def test_in_a_profile_of_peers_their_own_conditions_are_judged(profile: str) -> None:
    report = told(running(annotations={"gpu.topology/profile": profile}))
    assert "peers" not in failing(report)
    assert "GT570" not in [each.code for each in report.findings]


def test_the_way_says_what_the_profile_would_refuse() -> None:
    own = side() | {"env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}]}
    remedy = finding(told(running(own)), "peers").remedy
    assert "container decode sets CUDA_VISIBLE_DEVICES itself" in remedy
    assert "which refuses" not in finding(told(running()), "peers").remedy


SEES_ALL = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]


def server(command: list[str] | None = None, env: list[Manifest] | None = None, **spec: Any) -> Manifest:
    """A pod of LMCache's server, which requests no GPU."""
    words = command or ["python3", "-m", "lmcache.v1.multiprocess.server", "--port", "6555"]
    return pod(container("lmcache", gpus=None, command=words, env=env or []), **spec)


def test_lmcaches_server_is_told_what_it_needs_itself() -> None:
    report = told(server(env=SEES_ALL))
    found = finding(report, "peers")
    assert (found.verdict, found.code) == ("fails", "GT578")
    assert found.evidence.endswith("it lacks hostIPC: true and hostPID: true")
    assert "gpu.topology/profile: node-peers on its clients" in found.remedy
    assert report.judgement.nvlink == "unknown"


def test_lmcaches_server_with_all_that_it_needs_counts_as_a_peer() -> None:
    for words in (None, ["sh", "-c", "lmcache server --port 6555"]):
        report = told(server(words, SEES_ALL, hostIPC=True, hostPID=True))
        assert (finding(report, "peers").code, report.judgement.nvlink) == ("GT579", "unknown")


def test_a_pod_without_such_a_server_has_no_peers_by_that() -> None:
    report = told(server(["lmcache", "describe"], SEES_ALL))
    assert (report.reach, report.judgement.code) == (Reach.UNKNOWN, "GT216")
    assert "peers" not in [found.condition for found in report.findings]
