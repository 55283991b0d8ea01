"""The verdicts, each claim with what shows it, what refutes it, and what tells nothing."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gpu import steps
from tests.gpu.judge import Seen, proved, verdicts
from tests.gpu.logs import (
    BRIDGED,
    BROKEN,
    L40S,
    NVLS_ALONE,
    UNREAD,
    WITH_LINKS,
    WITH_NVLS,
    WITHOUT_LINKS,
)
from tests.gpu.machine import machine_of
from tests.gpu.model import Ran, StepResult, Verdict, Word
from tests.gpu.nccl_defaults import NcclDefaults
from tests.gpu.nccl_log import Channel
from tests.gpu.nccl_of_python import nccl_folder
from tests.gpu.pods import CONTROL, EXCLUSIVE, HAMI, KUBERNETES, NODE_PEERS, POD_PEERS, PodCase
from tests.hardware.topology.machines import a100_pcie_bridged, bent, dgx1_v100, hgx_h100, l40s
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.matrix import format_matrix, matrix
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.nccl_file import format_nccl_topology

TOPOLOGY = format_topology(a100_pcie_bridged())
TEXT = format_matrix(matrix(a100_pcie_bridged()))


def ended(code: int | None = 0, problem: str = "", **names: int) -> dict[str, Ran]:
    every = dict.fromkeys(("topology", "nvidia-smi-topo", "verify", "verify-without-p2p", "training"), code)
    every |= {"training-plain": code, "training-without-p2p": code}
    every |= {name.replace("_", "-"): each for name, each in names.items()}
    return {
        name: Ran(name=name, argv=(name,), exit_code=each, problem=problem, seconds=1.0, files=())
        for name, each in every.items()
    }


def judged(claim: str, files: Mapping[str, str], ran: Mapping[str, Ran] | None = None) -> Verdict:
    found = verdicts(Seen(ran or ended(), {name: text.encode() for name, text in files.items()}))
    return next(each for each in found if each.claim == claim)


def trained(seconds: float, backend: str = "nccl") -> str:
    return json.dumps({"backend": backend, "stepSeconds": [seconds] * 3})


def of_training(told: float, plain: float, without: float) -> Verdict:
    files = (steps.TRAINING, steps.TRAINING_PLAIN, steps.TRAINING_WITHOUT)
    return judged("training", dict(zip(files, map(trained, (told, plain, without)), strict=True)))


def report(*words: str) -> dict[str, str]:
    return {steps.REPORT: json.dumps({"pairs": [{"verdict": word} for word in words]})}


HANGING = json.dumps(
    {"pairs": [], "sets": [], "skipped": [{"reason": "step-timed-out"}, *[{"reason": "given-up"}] * 2]}
)


def test_measurements_that_hang_show_nothing() -> None:
    found = judged("links", {steps.REPORT: HANGING})
    assert found.verdict is Word.NOT_TRIED
    assert found.why == "nothing was measured: 2 given-up, 1 step-timed-out"


@pytest.mark.parametrize(
    ("document", "word"),
    [
        (HANGING, Word.NOT_TRIED),
        (json.dumps({"pairs": [{"verdict": "as-expected"}], "skipped": [{"reason": "given-up"}]}), Word.HOLDS),
        ("", Word.HOLDS),
    ],
)
def test_a_control_whose_measurements_hang_does_not_hold(document: str, word: Word) -> None:
    results = [
        StepResult(step=name, says="", verdict=Word.HOLDS, why="") for name in ("verify-without-p2p", "remap-right")
    ]
    found = proved(results, Seen(ended(), {steps.REPORT_WITHOUT: document.encode()}))
    assert [each.verdict for each in found] == [word, Word.HOLDS]


def test_the_same_matrix_twice() -> None:
    found = judged("topology", {steps.TOPOLOGY: TOPOLOGY, steps.TOPOLOGY_TEXT: TEXT})
    assert (found.verdict, found.why) == (Word.HOLDS, "all 12 cells between 4 cards are the same")


def test_another_matrix() -> None:
    other = TEXT.replace("NV12", "NV4")
    assert other != TEXT
    found = judged("topology", {steps.TOPOLOGY: TOPOLOGY, steps.TOPOLOGY_TEXT: other})
    assert found.verdict is Word.FAILS
    assert "NV12 here and NV4 there" in found.why


def test_cells_that_nobody_knows_are_not_compared() -> None:
    placeless = a100_pcie_bridged()
    for index in range(4):
        placeless = bent(placeless, index, parent="", root="", numa_node=None, cpu_affinity="")
    found = judged("topology", {steps.TOPOLOGY: format_topology(placeless), steps.TOPOLOGY_TEXT: TEXT})
    assert (found.verdict, found.why) == (
        Word.HOLDS,
        "4 of 12 cells between 4 cards are the same, 8 are not known on both sides",
    )


def test_one_card_passes_nothing_that_is_about_several() -> None:
    one = replace(a100_pcie_bridged(), gpus=(replace(a100_pcie_bridged().gpus[0], nvlinks=()),))
    files = {steps.TOPOLOGY: format_topology(one), steps.TOPOLOGY_TEXT: format_matrix(matrix(one))}
    for claim in ("topology", "topology-file", "links", "nccl", "training"):
        found = judged(claim, files)
        assert (found.verdict, found.why) == (Word.NOT_TRIED, "there is one card here, and this is about several")
    found = judged("mapping", files, ended(remap_right=0, remap_wrong=11))
    assert (found.verdict, found.why) == (
        Word.HOLDS,
        "exit code 0 with the card of this machine, 11 with one that is not here",
    )


@pytest.mark.parametrize("text", ["", "no devices were found", "GPU0\tGPU1"])
def test_no_matrix_of_the_driver(text: str) -> None:
    found = judged("topology", {steps.TOPOLOGY: TOPOLOGY, steps.TOPOLOGY_TEXT: text})
    assert found.verdict is Word.NOT_TRIED


def test_a_machine_without_cards() -> None:
    assert {each.verdict for each in verdicts(Seen({}, {}))} == {Word.NOT_TRIED}


@pytest.mark.parametrize(
    ("log", "word"),
    [
        (WITH_LINKS, Word.HOLDS),
        (NVLS_ALONE, Word.HOLDS),
        (UNREAD, Word.FAILS),
        (BROKEN, Word.FAILS),
        ("", Word.NOT_TRIED),
    ],
)
def test_the_file_for_nccl(log: str, word: Word) -> None:
    assert judged("topology-file", {steps.NCCL_FILE: ALL, steps.NCCL_LOG: log}).verdict is word


def test_a_file_that_was_not_written_was_read_by_no_one() -> None:
    found = judged("topology-file", {steps.NCCL_FILE: "", steps.NCCL_LOG: WITH_LINKS}, ended(topology_file=1))
    assert (found.verdict, found.why) == (Word.NOT_TRIED, "no topology file was written")
    planned = {step.name: step for step in steps.steps_for(a100_pcie_bridged(), "/work", "python3", has_file=False)}
    assert not any("NCCL_TOPO_FILE" in step.environment for name, step in planned.items() if name.startswith("verify"))
    assert planned["training"].hindrance == "no topology file was written"
    assert planned["training-plain"].hindrance == ""
    with_file = {step.name: step for step in steps.steps_for(a100_pcie_bridged(), "/work", "python3")}
    assert with_file["training"].hindrance == ""
    assert with_file["verify"].environment["NCCL_TOPO_FILE"] == f"/work/{steps.NCCL_FILE}"


@pytest.mark.parametrize(
    ("log", "control", "word"),
    [
        (WITH_LINKS, WITHOUT_LINKS, Word.HOLDS),
        (WITHOUT_LINKS, WITHOUT_LINKS, Word.FAILS),
        (WITH_LINKS, WITH_LINKS, Word.NOT_TRIED),
        (WITH_LINKS, "", Word.NOT_TRIED),
        (WITH_NVLS, WITHOUT_LINKS, Word.HOLDS),
        (NVLS_ALONE, WITHOUT_LINKS, Word.NOT_TRIED),
        (WITH_NVLS, NVLS_ALONE, Word.NOT_TRIED),
        (WITH_NVLS, f"{WITHOUT_LINKS}{NVLS_ALONE}", Word.NOT_TRIED),
    ],
)
def test_how_nccl_connects(log: str, control: str, word: Word) -> None:
    assert judged("nccl", {steps.NCCL_LOG: log, steps.NCCL_LOG_WITHOUT: control}).verdict is word


ALL_SHM = re.sub(r"via P2P/CUMEM", "via SHM/direct/direct", L40S)


@pytest.mark.parametrize(
    ("topology", "log", "word"),
    [
        pytest.param(l40s(), L40S, Word.HOLDS, id="PIX by peer-to-peer access, the rest by shared memory"),
        pytest.param(l40s(), ALL_SHM, Word.FAILS, id="shared memory below a switch"),
        pytest.param(l40s(), L40S.replace("SHM/direct/direct", "NET/Socket/0"), Word.FAILS, id="the network"),
        pytest.param(l40s(), L40S.replace("[3]", "[42000]"), Word.HOLDS, id="bus ids, of NCCL before 2.19"),
        pytest.param(l40s(), L40S.replace("1[1]", "1[9]"), Word.FAILS, id="a card that is not here"),
        pytest.param(a100_pcie_bridged(), BRIDGED, Word.HOLDS, id="bridged pairs"),
        pytest.param(a100_pcie_bridged(), BRIDGED.replace("P2P/CUMEM", "SHM/d"), Word.FAILS, id="a bridge not used"),
        pytest.param(hgx_h100(), L40S, Word.FAILS, id="shared memory on NVSwitches"),
        pytest.param(dgx1_v100(), L40S, Word.FAILS, id="shared memory where a third card joins"),
    ],
)
def test_nccl_is_held_to_its_own_choice_for_this_machine(topology: NodeTopology, log: str, word: Word) -> None:
    files = {steps.TOPOLOGY: format_topology(topology), steps.NCCL_LOG: log, steps.NCCL_LOG_WITHOUT: WITHOUT_LINKS}
    assert judged("nccl", files).verdict is word


def test_two_cards_of_amd_are_peers_over_any_path_and_four_are_not() -> None:
    both = replace(l40s(), gpus=(l40s().gpus[0], l40s().gpus[4]))
    amd = replace(both, cpus=tuple(replace(cpu, vendor="AuthenticAMD") for cpu in both.cpus))
    channel = Channel("0", "4", "SHM")
    assert NcclDefaults(amd).is_peer_to_peer(channel) is True
    assert NcclDefaults(both).is_peer_to_peer(channel) is False
    assert NcclDefaults(replace(amd, gpus=l40s().gpus)).is_peer_to_peer(channel) is False


def test_nvls_without_a_pair_is_told() -> None:
    files = {steps.NCCL_LOG: NVLS_ALONE, steps.NCCL_LOG_WITHOUT: WITHOUT_LINKS}
    assert judged("nccl", files).why == "NCCL connected the cards by NVLS alone, and named no pair of them"


def with_nccl(directory: Path, library: str) -> str:
    """An interpreter of its own with a wheel that has this library."""
    folder = directory / "packages/nvidia/nccl/lib"
    folder.mkdir(parents=True)
    (folder / library).touch()
    python = directory / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={directory}/packages exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return str(python)


def test_the_nccl_of_the_python_with_torch_is_measured(tmp_path: Path) -> None:
    folder = nccl_folder(with_nccl(tmp_path, "libnccl.so.2"))
    assert folder == f"{tmp_path}/packages/nvidia/nccl/lib"
    found = {step.name: step.environment for step in steps.steps_for(a100_pcie_bridged(), "/work", "python3", folder)}
    start = {"nccl-file", "nccl-conf", "nccl-broken-file", "nccl-plain", "nccl-hami-core"}
    start |= {"nccl-cards-plain", "nccl-cards-file"}
    asked = {name for name, each in found.items() if "LD_LIBRARY_PATH" in each}
    assert asked == {"verify", "verify-without-p2p"} | start


def test_a_python_without_nccl_changes_nothing(tmp_path: Path) -> None:
    assert nccl_folder(with_nccl(tmp_path, "libother.so")) == ""
    assert nccl_folder(str(tmp_path / "absent")) == ""
    assert not any("LD_LIBRARY_PATH" in step.environment for step in steps.steps_for(l40s(), "/work", "python3"))


def test_nccl_tells_all_it_connects_and_a_control_has_no_nvls() -> None:
    found = {step.name: step.environment for step in steps.steps_for(a100_pcie_bridged(), "/work", "python3")}
    controls = {"verify-without-p2p", "training-without-p2p"}
    for name in ("verify", "verify-without-p2p"):
        assert found[name]["NCCL_RUNTIME_CONNECT"] == "0"
    for name, environment in found.items():
        switched = {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
        assert (switched.items() <= environment.items()) is (name in controls)
        assert bool(switched.keys() & environment.keys()) is (name in controls)


@pytest.mark.parametrize(
    ("right", "wrong", "word"), [(0, 11, Word.HOLDS), (0, 0, Word.FAILS), (11, 11, Word.FAILS), (18, 18, Word.FAILS)]
)
def test_the_mapping(right: int, wrong: int, word: Word) -> None:
    assert judged("mapping", {}, ended(remap_right=right, remap_wrong=wrong)).verdict is word


def test_a_mapping_that_took_too_long_tells_nothing() -> None:
    late = ended(None, "it was not done after 60 seconds", remap_right=0)
    late |= {"remap-wrong": late["topology"]}
    found = judged("mapping", {}, late)
    assert found.verdict is Word.NOT_TRIED
    assert "not done after 60 seconds" in found.why


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("as-expected", "as-expected"), Word.HOLDS),
        (("as-expected", "unknown"), Word.HOLDS),
        (("as-expected", "slower"), Word.FAILS),
        (("not-nvlink",), Word.FAILS),
        (("unknown",), Word.NOT_TRIED),
        ((), Word.NOT_TRIED),
    ],
)
def test_the_links(words: tuple[str, ...], word: Word) -> None:
    assert judged("links", report(*words)).verdict is word


def test_wrong_data_refutes_a_link_and_what_is_not_known_is_counted() -> None:
    good, unknown = {"verdict": "as-expected", "warnings": []}, {"verdict": "unknown", "warnings": ["no-expectation"]}
    found = judged("links", {steps.REPORT: json.dumps({"pairs": [good, unknown]})})
    assert (found.verdict, found.why) == (Word.HOLDS, "1 of 1 pairs as expected, 1 could not be judged")
    wrong = {"verdict": "unknown", "warnings": ["wrong-data"]}
    found = judged("links", {steps.REPORT: json.dumps({"pairs": [good, wrong]})})
    assert (found.verdict, found.why) == (Word.FAILS, "1 of 2 pairs as expected")


@pytest.mark.parametrize(
    ("told", "plain", "without", "word"),
    [
        (0.100, 0.100, 0.300, Word.HOLDS),
        (0.104, 0.100, 0.300, Word.HOLDS),
        (0.106, 0.100, 0.300, Word.FAILS),
        (0.100, 0.100, 0.101, Word.NOT_TRIED),
    ],
)
def test_the_training(told: float, plain: float, without: float, word: Word) -> None:
    assert of_training(told, plain, without).verdict is word


def test_a_training_on_the_cpu_tells_nothing() -> None:
    files = (steps.TRAINING, steps.TRAINING_PLAIN, steps.TRAINING_WITHOUT)
    assert judged("training", dict.fromkeys(files, trained(0.1, "gloo"))).verdict is Word.NOT_TRIED


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"pairs": 3}', '{"pairs": [3]}', '{"pairs": {"a": 1}}', '"' * 9, "[" * 9999]
)
def test_a_document_that_is_none(text: str) -> None:
    files = (steps.REPORT, steps.TRAINING, steps.TRAINING_PLAIN, steps.TRAINING_WITHOUT, steps.TOPOLOGY)
    found = verdicts(Seen(ended(), dict.fromkeys(files, text.encode())))
    assert {each.verdict for each in found} == {Word.NOT_TRIED}


@pytest.mark.parametrize("answer", [b"", b"[]", b"\xff", b'{"serverVersion": ' + b"[" * 9999, b'{"serverVersion": 3}'])
def test_a_version_that_is_none(answer: bytes) -> None:
    machine = machine_of(Seen({}, {KUBERNETES: answer, HAMI: answer}))
    assert (machine.kubernetes, machine.hami) == ("", "")


def test_the_version_of_the_api_server_and_not_of_kubectl() -> None:
    answer = b'{"clientVersion": {"gitVersion": "v1.35.0"}, "serverVersion": {"gitVersion": "v1.36.3"}}'
    assert machine_of(Seen({}, {KUBERNETES: answer})).kubernetes == "1.36.3"


def test_no_claim_says_that_linked_cards_of_one_container_lose_nvlink_without_injection() -> None:
    """Users report it. HAMi's library takes no path away by itself (docs/explain.md, how sure a cause is)."""
    assert "not proven" in judged("exclusive", {}).says


def of_pods(injected: tuple[str, ...], control: tuple[str, ...]) -> Verdict:
    files = {
        case.report: json.dumps({"pairs": [{"verdict": word} for word in words]})
        for case, words in ((EXCLUSIVE, injected), (CONTROL, control))
    }
    return judged("exclusive", files, ended(exclusive_create=0, exclusive_wait=0, exclusive_log=0))


GOOD, LOST = ("as-expected",), ("not-nvlink",)


@pytest.mark.parametrize(
    ("injected", "control", "word"),
    [
        (GOOD, LOST, Word.HOLDS),
        (GOOD, (), Word.HOLDS),
        (LOST, LOST, Word.FAILS),
        (GOOD, GOOD, Word.NOT_TRIED),
        ((), LOST, Word.NOT_TRIED),
    ],
)
def test_a_pod_beside_the_same_without_injection(
    injected: tuple[str, ...], control: tuple[str, ...], word: Word
) -> None:
    assert of_pods(injected, control).verdict is word


def trials(*words: str) -> str:
    return json.dumps({"outcomes": [{"kind": "cuda-ipc", "verdict": word} for word in words]})


@pytest.mark.parametrize("case", [POD_PEERS, NODE_PEERS])
@pytest.mark.parametrize(
    ("text", "word"),
    [
        (trials("refused", "works"), Word.HOLDS),
        (trials("refused", "wrong-data", "not-tried"), Word.FAILS),
        (trials(), Word.NOT_TRIED),
        ("connection refused", Word.NOT_TRIED),
    ],
)
def test_pods_that_exchange_memory(case: PodCase, text: str, word: Word) -> None:
    ran = ended() | {f"{case.name}-log": ended()["verify"]}
    assert judged(case.name, {case.report: text}, ran).verdict is word


def test_without_a_cluster_no_pod_is_tried() -> None:
    assert judged("exclusive", {}).why == "no namespace of a cluster was named: --namespace"


BRIDGED_CARDS = a100_pcie_bridged()
ALL = format_nccl_topology(BRIDGED_CARDS)


def dumped(theirs: str, topology: NodeTopology = BRIDGED_CARDS, name: str = steps.CARDS_DUMP) -> Verdict:
    return judged(
        "topology-dump",
        {steps.TOPOLOGY: format_topology(topology), steps.NCCL_FILE: ALL, name: theirs},
        ended(nccl_cards_plain=0),
    )


def test_the_file_is_held_against_what_nccl_finds_by_itself() -> None:
    found = dumped(ALL)
    assert (found.verdict, found.why) == (Word.HOLDS, "NVLinks, C2C and NUMA node of 4 cards are the same")
    found = dumped(ALL.replace('count="12"', 'count="8"'))
    assert found.verdict is Word.FAILS
    assert "has 12 NVLinks to" in found.why
    assert "and 8 as NCCL finds" in found.why
    assert (dumped("").verdict, dumped("").why) == (Word.NOT_TRIED, "NCCL wrote no topology of its own")


def test_of_one_card_the_topology_of_its_own_rank_is_compared() -> None:
    one = replace(a100_pcie_bridged(), gpus=(replace(a100_pcie_bridged().gpus[0], nvlinks=()),))
    only = format_nccl_topology(one)
    assert dumped(only, one, steps.CARD_DUMP).why.startswith("NVLinks, C2C and NUMA node of 1 card, whose links")
    assert dumped(only.replace("numaid=", 'numaid="7" was='), one, steps.CARD_DUMP).verdict is Word.FAILS
    assert dumped(only, one).verdict is Word.NOT_TRIED


def milliseconds(*times: float) -> str:
    return json.dumps({"milliseconds": times})


@pytest.mark.parametrize(
    ("told", "plain", "word"),
    [
        (milliseconds(1.0, 9.0, 1.04), milliseconds(1.0), Word.HOLDS),
        (milliseconds(1.06), milliseconds(1.0), Word.FAILS),
        (milliseconds(0.5), milliseconds(1.0), Word.HOLDS),
        (milliseconds(), milliseconds(1.0), Word.NOT_TRIED),
        (milliseconds(1.0), "", Word.NOT_TRIED),
        (milliseconds(1.0), '{"milliseconds": ["a", true, -1.0]}', Word.NOT_TRIED),
    ],
)
def test_an_all_reduce_with_the_file_beside_one_without(told: str, plain: str, word: Word) -> None:
    assert judged("topology-effect", {steps.CARDS_FILE: told, steps.CARDS_PLAIN: plain}).verdict is word


def pair(sent: int | None, received: int | None, link: str = "NV18", *, access: bool = True) -> dict[str, object]:
    counted = {"nvlinkSentBytes": sent, "nvlinkReceivedBytes": received}
    return {"link": link, "peerAccess": access, "copiedBytes": 1000, **counted}


@pytest.mark.parametrize(
    ("pairs", "word", "why"),
    [
        ([pair(1000, 1010)], Word.HOLDS, "1 to 1.01 of the bytes that were copied, in 1 of 1 directions"),
        ([pair(1000, 1000), pair(500, 1000)], Word.FAILS, "0.5 to 1 of the bytes"),
        ([pair(1000, 1000), pair(1000, 1300)], Word.FAILS, "1 to 1.3 of the bytes"),
        ([pair(0, 0)], Word.FAILS, "0 to 0 of the bytes"),
        ([pair(1000, 1000), pair(None, 1000)], Word.HOLDS, "in 1 of 2 directions"),
        ([pair(None, None)], Word.NOT_TRIED, "no pair over NVLink was measured"),
        ([pair(0, 0, "PIX"), pair(0, 0, access=False)], Word.NOT_TRIED, "no pair over NVLink was measured"),
        ([], Word.NOT_TRIED, "no pair over NVLink was measured"),
    ],
)
def test_counters_beside_the_bytes_that_were_sent(pairs: list[object], word: Word, why: str) -> None:
    found = judged("counters", {steps.REPORT: json.dumps({"pairs": pairs})})
    assert (found.verdict, why in found.why) == (word, True), found.why


def test_a_step_that_was_not_run_says_why() -> None:
    seen = Seen({}, {}, {"training": "no Python with PyTorch was named: --python"})
    found = next(each for each in verdicts(seen) if each.claim == "training")
    assert (found.verdict, found.why) == (Word.NOT_TRIED, "no Python with PyTorch was named: --python")
