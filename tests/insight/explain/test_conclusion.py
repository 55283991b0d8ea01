"""The one sentence at the end claims what follows from the conditions, and no more."""

from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, annotated, decoded, finding, injected, known, on, said, told
from tests.judge import policy
from tests.pods import container, pod, team_a
from webhook.insight.explain.evidence import group_of
from webhook.insight.explain.findings import Reach

DGX1 = known(machines.dgx1_v100())
OFF = [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]


def test_all_of_an_injected_pod() -> None:
    report = told(on(injected(pod(container(gpus=8))), "h20-node-1", list(H20)))
    assert report.reach is Reach.ALL
    assert report.conclusion == (
        "Nothing here stops NCCL from using NVLink between all these GPUs (NVSwitch, 370.8 GB/s per direction)."
    )
    assert not report.fails


def test_what_was_done_by_hand_counts_as_much() -> None:
    report = told(on(pod(container(env=OFF)), "h20-node-1", list(H20[:2])))
    assert report.reach is Reach.ALL
    assert report.conclusion == (
        "The webhook did not prepare this pod. Nothing here stops NCCL from using NVLink between all these GPUs "
        "(NVSwitch, 370.8 GB/s per direction)."
    )
    assert [finding.condition for finding in report.findings if finding.fails] == ["injected"]


def test_some_where_pairs_are_not_joined() -> None:
    uuids = [machines.uuid(index) for index in (0, 1, 4, 5)]
    report = told(on(injected(pod(container(gpus=4))), "dgx1-v100", uuids), sources=DGX1)
    assert report.reach is Reach.SOME
    assert report.conclusion == "NVLink joins some of these GPUs only: links."


def test_what_stops_it_is_named_alone() -> None:
    entries = [{"name": "NCCL_P2P_DISABLE", "value": "1"}, *OFF]
    report = told(on(injected(pod(container(env=entries))), "h20-node-1", list(H20[:2])))
    assert report.reach is Reach.NONE
    assert report.conclusion == "NCCL uses no NVLink in this pod: NCCL_P2P_DISABLE."


def test_containers_with_one_gpu_each_have_nothing_to_join() -> None:
    report = told(on(pod(container("a", gpus=1), container("b", gpus=1)), "h20-node-1", [H20[0]], [H20[1]]))
    assert report.reach is Reach.NOTHING_TO_JOIN
    links = [(str(finding.verdict), finding.evidence) for finding in report.findings if finding.condition == "links"]
    assert links == [("not-needed", "GPU0 is by itself"), ("not-needed", "GPU1 is by itself")]


def test_one_gpu_among_peers_that_nobody_knows_is_left_open() -> None:
    node_peers = annotated(pod(container(gpus=1)), profile="node-peers")
    report = told(annotated(on(injected(node_peers), "h20-node-1", [H20[0]]), **{"cuda-visible-devices.0": "0"}))
    told_so = finding(report, "told-at-binding")
    assert told_so.evidence.endswith("but no value that the pod has is wrong")
    bound = annotated(
        on(injected(node_peers), "h20-node-1", [H20[0]]), **{"cuda-visible-devices.0": "0", "nccl-p2p-level": "auto"}
    )
    left = told(bound)
    assert left.reach is Reach.UNKNOWN
    assert left.conclusion == "Nothing that is known stops NCCL from using NVLink; not known: same-node."
    assert said(left, "told-at-binding") == (
        "holds",
        "the webhook did not answer its Binding, but no value that the pod has is wrong",
    )


def test_peers_without_a_node_are_not_looked_for() -> None:
    manifest = pod(labels={"gpu.topology/group": "g"})
    other = pod(labels={"gpu.topology/group": "g"})
    other["metadata"]["name"] = "other"
    assert said(told(manifest, others=(other,)), "same-node") == ("unknown", "the pod is not scheduled yet")


def test_a_change_that_the_profile_cannot_live_with_is_told_in_the_words_of_admission() -> None:
    changed = injected(pod(container("prefill"), container("train")))
    changed["spec"]["containers"][1]["env"].append({"name": "CUDA_DISABLE_CONTROL", "value": "true"})
    assert finding(told(changed), "prepared").verdict == "holds"
    for entry in changed["spec"]["containers"][1]["env"]:
        if entry["name"] == "CUDA_DISABLE_CONTROL":
            entry["value"] = "no"
    found = finding(told(changed), "prepared")
    assert found.verdict == "fails"
    assert found.evidence.startswith(
        "GT213: container train sets CUDA_DISABLE_CONTROL itself, but whole cards need the literal"
    )


def test_a_group_is_found_in_spite_of_a_bad_option() -> None:
    manifest = pod(annotations={"gpu.topology/profile": "node-peers", "gpu.topology/shm-size": "big"})
    assert finding(told(manifest), "prepared").verdict == "fails"
    labelled = pod(labels={"gpu.topology/group": "g"}, annotations={"gpu.topology/shm-size": "big"})
    assert finding(told(labelled), "same-node").evidence == "the other pods of group g are not known here"


def test_a_pod_with_a_bad_option_and_no_label_has_no_group() -> None:
    broken = pod(annotations={"gpu.topology/group": "g", "gpu.topology/shm-size": "big"})
    assert group_of(decoded(broken), team_a(), policy()) == ""
