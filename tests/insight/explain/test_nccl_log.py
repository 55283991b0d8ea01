"""What NCCL's log shows of a pod: golden logs of several releases, each answer with its opposite, and hostile logs."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.topology import machines
from tests.insight.analyze.clusters import pairs
from tests.insight.explain.situations import H20, finding, known, on, told
from tests.pods import Manifest, container, pod
from webhook.decisions.resolve.node import Sources
from webhook.insight.explain.findings import Judgement, Report
from webhook.insight.explain.nccl_log import read_nccl_logs

LOGS = Path(__file__).parents[2] / "cases" / "nccl-logs"
CONTROL = [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]
BARE = pod(container(gpus=2, env=CONTROL))
"""A pod of a file: no node, no allocation."""
LEVEL = "train:41:41 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to NVL"
TOPOLOGY_FILE = "train:41:41 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /etc/topo.xml"
GOLDEN = ["2.18.1", "2.18.3-mpirun", "2.22.3-one-process", "2.27.7-split", "2.30.7", "nvls", "net-two-nodes"]


def golden(name: str) -> list[str]:
    return (LOGS / f"{name}.log").read_text(encoding="utf-8").splitlines()


def changed(name: str, *changes: tuple[str, str]) -> list[str]:
    text = "\n".join(golden(name))
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text.splitlines()


def bound(*, uuids: Sequence[str] = H20[:2], **spec: Any) -> Manifest:
    return on(pod(container(gpus=len(uuids), env=CONTROL), **spec), "h20-node-1", list(uuids))


def shown(*logs: list[str], manifest: Manifest | None = None, **more: Any) -> Report:
    return told(bound() if manifest is None else manifest, nccl_log=read_nccl_logs(logs), **more)


def word(*logs: list[str], **more: Any) -> tuple[str, str, str]:
    found: Judgement = shown(*logs, **more).judgement
    return str(found.nvlink), found.code, found.sureness


@pytest.mark.parametrize("name", GOLDEN)
def test_p2p_between_linked_gpus_is_nvlink_in_every_release(name: str) -> None:
    assert told(bound()).judgement.code == "GT363"
    report = shown(golden(name))
    assert report.judgement.nvlink == "yes"
    assert "joined 2 GPUs by NVLink" in report.judgement.reason
    assert (report.reach, finding(report, "nccl-log").verdict) == ("all", "holds")


def test_the_release_of_nccl_is_shown_and_a_newer_one_is_a_hint() -> None:
    assert "NCCL 2.30.7" in finding(shown(golden("2.30.7")), "nccl-log").evidence
    newer = shown(changed("2.30.7", ("NCCL version 2.30.7", "NCCL version 9.1.0")))
    assert finding(newer, "nccl-release").code == "GT470"
    assert newer.judgement.nvlink == "yes"


@pytest.mark.parametrize(("log", "via"), [("shm", "via SHM/direct"), ("net-one-node", "via NET/Socket")])
def test_memory_of_the_host_or_a_network_between_linked_gpus_is_a_loss(log: str, via: str) -> None:
    report = shown(golden(log))
    assert (report.judgement.nvlink, report.judgement.code, report.judgement.sureness) == ("no", "GT910", "seen")
    assert f"GPU0 to GPU1 {via}" in report.judgement.reason
    assert report.reach == "none"


def test_a_network_between_hosts_is_normal() -> None:
    assert word(golden("net-two-nodes"))[0] == "yes"
    one_node = changed("net-two-nodes", ("nNodes 2", "nNodes 1"))
    assert word(one_node)[:2] == ("no", "GT910")


def test_a_network_to_a_rank_that_no_line_places_is_unknown() -> None:
    """Releases before 2.20 do not print the number of nodes, and the log of the other pod is missing."""
    lines = [line for line in golden("net-two-nodes") if "nNodes" not in line and not line.startswith("other")]
    assert word(lines)[:2] == ("unknown", "GT914")
    other = [line for line in golden("net-two-nodes") if line.startswith("other")]
    third = other[0].replace("rank 2", "rank 3").replace("cudaDev 0 nvmlDev 0", "cudaDev 1 nvmlDev 1")
    assert word(lines, [*other, third.replace(":41:", ":42:").replace("[0]", "[1]")])[0] == "yes"


def test_what_forbids_p2p_is_named_as_nccl_prints_it() -> None:
    setting = "train:41:89 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1"
    report = shown([setting, *golden("shm")])
    assert report.judgement.code == "GT911"
    assert "It read NCCL_P2P_DISABLE=1" in report.judgement.reason
    older = "train:41:89 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC"
    assert "NCCL_P2P_DISABLE=1 or NCCL_P2P_LEVEL=LOC" in shown([older, *golden("shm")]).judgement.reason
    assert (
        shown(["train:41:89 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 0.", *golden("shm")]).judgement.code
        == "GT910"
    )


def test_p2p_over_pcie_is_no_nvlink() -> None:
    sources = known(pairs("paired"))
    linked, apart = (
        on(pod(container(gpus=2, env=CONTROL)), "paired", [f"GPU-paired.{index}" for index in pair])
        for pair in ((0, 1), (0, 2))
    )
    log = changed("2.30.7", ("busId f000", "busId 17000"), ("busId 2d000", "busId 65000"))
    assert word(log, manifest=linked, sources=sources)[0] == "yes"
    log = changed("2.30.7", ("busId f000", "busId 17000"), ("busId 2d000", "busId ca000"))
    assert word(log, manifest=apart, sources=sources)[:2] == ("no", "GT330")


def test_without_a_node_p2p_is_unknown_unless_nccl_may_use_nvlink_alone() -> None:
    """The loop for a user who has a manifest, a log and nothing else."""
    log = golden("2.30.7")
    assert word(log, manifest=BARE, sources=Sources())[:2] == ("unknown", "GT914")
    assert word([LEVEL, *log], manifest=BARE, sources=Sources())[0] == "yes"
    assert word([LEVEL, TOPOLOGY_FILE, *log], manifest=BARE, sources=Sources())[:2] == ("unknown", "GT914")
    assert word(golden("nvls"), manifest=BARE, sources=Sources())[0] == "yes"
    assert word(golden("shm"), manifest=BARE, sources=Sources())[:2] == ("no", "GT910")
    report = shown([LEVEL, *log], manifest=BARE, sources=Sources())
    assert report.conclusion.endswith("NCCL's log shows NVLink between all these GPUs.")


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (["step 1 loss 2.31"], "GT916"),
        ([line for line in golden("2.30.7") if "Init" not in line], "GT917"),
        ([line for line in golden("2.30.7") if "via" not in line], "GT915"),
        ([line for line in golden("2.30.7") if "COMPLETE" not in line], "GT915"),
        ([line for line in golden("2.30.7") if not line.startswith("train:42")], "GT915"),
        (changed("2.30.7", ("train:", "train-1:")), "GT918"),
        (changed("2.30.7", ("busId 2d000", "busId 48000")), "GT919"),
        (changed("2.30.7", (":42:", ":41:")), "GT920"),
        ([*golden("2.30.7"), "train:41:97 [0] enqueue.cc:9 NCCL WARN Cuda failure 2 'out of memory'"], "GT913"),
    ],
    ids=[
        *("no lines", "no beginning", "no channels", "start without end", "one rank alone", "another host"),
        *("another GPU", "two containers", "an error after the start"),
    ],
)  # fmt: skip
def test_a_log_that_does_not_show_it_is_unknown(log: list[str], code: str) -> None:
    assert word(log) == ("unknown", code, "")


def test_an_error_in_the_start_is_seen() -> None:
    report = shown(golden("error"))
    assert (report.judgement.nvlink, report.judgement.code, report.judgement.sureness) == ("no", "GT912", "seen")
    assert "Cuda failure 'invalid argument'" in report.judgement.reason
    again = changed("2.22.3-one-process", (":41:", ":77:"))
    assert word([*golden("error"), *again])[0] == "yes"
    assert word([*again, *golden("error")])[0] == "no"


def test_a_warning_that_is_no_error_of_links_is_a_hint() -> None:
    report = shown([*golden("2.30.7"), "train:41:97 [0] graph/xml.cc:9 (f) NCCL WARN Missing iommu setting"])
    assert report.judgement.nvlink == "yes"
    assert [each.code for each in report.findings if each.verdict == "hint" and each.condition == "nccl-log"] == [
        "GT921"
    ]


def test_an_nvls_line_with_an_error_proves_nothing() -> None:
    failed = "train:42:98 [1] transport/nvls.cc:376 (f) NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory"
    assert word([*golden("nvls"), failed])[:2] == ("no", "GT912")
    assert word([*golden("nvls"), "train:42:98 [1] a.cc:1 NCCL WARN odd"])[:2] == ("unknown", "GT915")


@pytest.mark.parametrize(
    ("spec", "host"),
    [
        ({"hostname": "worker-0"}, "worker-0"),
        ({"hostNetwork": True}, "h20-node-1"),
        ({"hostNetwork": True, "hostname": "worker-0"}, "h20-node-1"),
    ],
)
def test_the_host_of_the_log_is_the_host_name_of_the_pod(spec: dict[str, Any], host: str) -> None:
    manifest = bound(**spec)
    assert word(changed("2.30.7", ("train:", f"{host}:")), manifest=manifest)[0] == "yes"
    assert word(golden("2.30.7"), manifest=manifest)[:2] == ("unknown", "GT918")


def test_a_long_name_and_one_with_dots_are_cut_as_the_kubelet_and_nccl_cut_them() -> None:
    for name, host in (("train.0", "train"), ("a" * 62 + "-bcd", "a" * 62)):
        manifest = bound()
        manifest["metadata"] = manifest["metadata"] | {"name": name}
        assert word(changed("2.30.7", ("train:", f"{host}:")), manifest=manifest)[0] == "yes", name


def test_lines_of_other_pods_in_one_log_count_for_no_pod_but_theirs() -> None:
    """The launcher of an MPIJob prints what all workers say."""
    other = changed("shm", ("train:", "train-worker-1:"), ("busId f000", "busId 48000"), ("busId 2d000", "busId 5a000"))
    assert word([*golden("2.30.7"), *other])[0] == "yes"
    manifest = bound()
    manifest["metadata"] = manifest["metadata"] | {"name": "train-worker-1"}
    both = on(manifest, "h20-node-1", list(H20[2:4]))
    assert word([*golden("2.30.7"), *other], manifest=both)[:2] == ("no", "GT910")


def test_two_containers_of_a_pod_are_told_apart_by_their_logs() -> None:
    first = [line for line in golden("2.30.7") if not line.startswith("train:42")]
    second = [line.replace(":42:", ":41:") for line in golden("2.30.7") if line.startswith("train:42")]
    assert word(first, second)[0] == "yes"
    assert word([*first, *second])[:2] == ("unknown", "GT920")


def test_a_rank_means_another_gpu_in_another_communicator() -> None:
    """Rank 1 of the second communicator is on another host and has the number 0 there: its line is no loss."""
    init = "train:41:89 [0] NCCL INFO comm 0x77aa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId f000 commId 0x99"
    nodes = "train:41:89 [0] NCCL INFO comm 0x77aa rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0"
    remote = "train:41:97 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"
    lines = [*golden("2.30.7"), f"{init} - Init START", nodes, f"{init} - Init COMPLETE"]
    assert word([*lines, remote])[0] == "yes"
    assert word([*lines, remote.replace("1[0]", "1[1]")])[0] == "unknown"  # of one or of the other


def test_a_variable_of_the_manifest_is_the_first_remedy() -> None:
    env = [*CONTROL, {"name": "NCCL_P2P_DISABLE", "value": "1"}]
    manifest = on(pod(container(gpus=2, env=env)), "h20-node-1", list(H20[:2]))
    assert word(golden("shm"), manifest=manifest)[:2] == ("no", "GT412")


@pytest.mark.parametrize(
    "lines",
    [
        ["NCCL " * 100_000],
        ["train:1:1 [0] NCCL INFO " + "Channel 00/0 : " * 50_000],
        ["train:1:1 [0] NCCL INFO comm 0x1 rank " + "9" * 500_000],
        [":" * 500_000 + " NCCL WARN x", "-1:" * 100_000 + "1 [0] NCCL INFO x", "\x1b[2J NCCL INFO \udcff"],
        [f"h{n}:1:1 [0] NCCL WARN {'w' * 2000}" for n in range(2000)],
    ],
    ids=["words", "channels", "digits", "prefixes", "warnings"],
)  # fmt: skip
def test_a_hostile_log_is_read_in_bounds(lines: list[str]) -> None:
    found = read_nccl_logs([lines])
    assert len(found.warned) <= 64
    assert word(lines)[0] == "unknown"


def test_what_is_beyond_the_limit_makes_the_answer_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.insight.explain.nccl_log.LIMIT", 6)
    many = [f"train:41:97 [0] NCCL INFO Channel 00/0 : 0[0] -> {peer}[9] via P2P/CUMEM" for peer in range(2, 9)]
    assert not read_nccl_logs([golden("2.30.7")]).is_cut
    assert word(golden("2.30.7"))[0] == "yes"
    assert word([*golden("2.30.7"), *many])[0] == "unknown"


def test_splits_without_a_name_are_told_apart() -> None:
    found = read_nccl_logs([golden("2.27.7-split")])
    by_communicator: dict[str, set[int]] = {}
    for member in found.members:
        by_communicator.setdefault(member.communicator, set()).add(member.rank)
    assert list(by_communicator.values()) == [{0, 1}, {0, 1}]


def test_a_pod_with_nothing_to_join_needs_no_log() -> None:
    alone = on(pod(container(gpus=1, env=CONTROL)), "h20-node-1", [H20[0]])
    assert word(golden("2.30.7"), manifest=alone)[0] == "-"


def test_a_node_without_bus_ids_is_enough_where_all_gpus_of_the_pod_are_linked() -> None:
    """HAMi's annotations name no bus id."""
    node = machines.h20()
    nameless = dataclasses.replace(node, gpus=tuple(dataclasses.replace(gpu, pci_bus_id="") for gpu in node.gpus))
    assert word(golden("2.30.7"), sources=known(nameless))[0] == "yes"
    assert word(golden("shm"), sources=known(nameless))[:2] == ("no", "GT910")
