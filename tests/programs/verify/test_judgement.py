"""What follows from the rates that two pods reached, and how it is told."""

from dataclasses import replace

import msgspec
import pytest

from tests.hardware.topology.machines import dgx1_v100, hgx_h100, l40s
from webhook.hardware.measurement.peers import (
    Conclusion,
    HandleKind,
    Outcome,
    PeerReport,
    PeerVerdict,
    conclusion,
    judged,
)
from webhook.hardware.measurement.report import Verdict, Warn
from webhook.hardware.topology.model import NodeTopology
from webhook.insight.drawings.peers import peer_text


def uuid(topology: NodeTopology, index: int) -> str:
    return topology.gpus[index].uuid


def result(taker: str | None, *gbps: float) -> Outcome:
    return Outcome(kind=HandleKind.IPC, verdict=PeerVerdict.WORKS, samples_gbps=list(gbps), taker_card=taker)


REFUSED = Outcome(
    kind=HandleKind.IPC, verdict=PeerVerdict.REFUSED, reason="cuIpcOpenMemHandle_v2 returned 201", code=201
)
NOT_TRIED = Outcome(kind=HandleKind.FABRIC, verdict=PeerVerdict.NOT_TRIED, reason="step-timed-out")
WRONG = Outcome(kind=HandleKind.IPC, verdict=PeerVerdict.WRONG_DATA, samples_gbps=[370.0])


def between(topology: NodeTopology, one: int, other: int, *gbps: float) -> Outcome:
    (found,) = judged([result(uuid(topology, other), *gbps)], uuid(topology, one), topology)
    return found


@pytest.mark.parametrize(
    ("topology", "pair", "gbps", "speed", "link"),
    [
        (hgx_h100(), (0, 1), 365.7, Verdict.AS_EXPECTED, "NV18"),
        (hgx_h100(), (0, 1), 300.0, Verdict.SLOWER, "NV18"),
        (dgx1_v100(), (0, 3), 38.0, Verdict.AS_EXPECTED, "NV2"),
        (dgx1_v100(), (0, 1), 19.0, Verdict.AS_EXPECTED, "NV1"),
        (l40s(), (0, 1), 23.0, Verdict.AS_EXPECTED, "PIX"),
        (l40s(), (0, 1), 9.0, Verdict.SLOWER, "PIX"),
    ],
)
def test_the_rate_is_judged_by_the_link(
    topology: NodeTopology, pair: tuple[int, int], gbps: float, speed: Verdict, link: str
) -> None:
    found = between(topology, *pair, gbps, gbps, gbps)
    assert (found.speed, found.link, found.warnings) == (speed, link, [])
    assert found.measured_gbps == gbps
    assert found.ratio == pytest.approx(gbps / (found.expected_gbps or 0.0))


def test_a_rate_far_below_the_link_is_slower_and_proves_no_way() -> None:
    """The rate of seed 001."""
    found = between(hgx_h100(), 0, 1, 0.365)
    assert (found.speed, found.warnings) == (Verdict.SLOWER, [Warn.WAY_UNPROVEN])


def test_the_median_counts_and_unsteady_samples_are_told() -> None:
    found = between(hgx_h100(), 0, 1, 100.0, 368.0, 369.0)
    assert (found.measured_gbps, found.speed, found.warnings) == (368.0, Verdict.AS_EXPECTED, [Warn.UNSTEADY])


def test_a_rate_that_pcie_could_have_proves_no_nvlink() -> None:
    """A fast PCIe slot beside one old NVLink."""
    topology = dgx1_v100()
    gpus = tuple(replace(gpu, pcie=hgx_h100().gpus[0].pcie) for gpu in topology.gpus)
    found = between(replace(topology, gpus=gpus), 0, 1, 20.0)
    assert (found.speed, found.warnings) == (Verdict.UNKNOWN, [Warn.WAY_UNPROVEN])


@pytest.mark.parametrize("taker", [None, "GPU-of-another-machine", uuid(hgx_h100(), 0)])
def test_without_two_known_cards_nothing_is_expected(taker: str | None) -> None:
    topology = hgx_h100()
    (found,) = judged([result(taker, 365.0)], uuid(topology, 0), topology)
    assert (found.measured_gbps, found.expected_gbps, found.speed) == (365.0, None, Verdict.UNKNOWN)


def test_without_gpus_nothing_is_expected() -> None:
    (found,) = judged([result("GPU-1", 365.0)], "GPU-0", replace(hgx_h100(), gpus=()))
    assert (found.expected_gbps, found.speed) == (None, Verdict.UNKNOWN)
    assert found.warnings == [Warn.WAY_UNPROVEN, Warn.NO_EXPECTATION]


def test_what_the_other_side_says_follows_from_its_samples_is_not_believed() -> None:
    boasted = msgspec.structs.replace(result(uuid(hgx_h100(), 1), 9.0), measured_gbps=370.0, speed=Verdict.AS_EXPECTED)
    (found,) = judged([boasted], uuid(hgx_h100(), 0), hgx_h100())
    assert (found.measured_gbps, found.speed) == (9.0, Verdict.SLOWER)
    refused = msgspec.structs.replace(REFUSED, measured_gbps=370.0, speed=Verdict.AS_EXPECTED)
    assert judged([refused], uuid(hgx_h100(), 0), hgx_h100()) == [REFUSED]


def test_what_does_not_work_is_not_judged() -> None:
    assert judged([REFUSED, NOT_TRIED, WRONG], "GPU-0", hgx_h100()) == [REFUSED, NOT_TRIED, WRONG]


FAST, SLOW = between(hgx_h100(), 0, 1, 365.7), between(hgx_h100(), 0, 1, 0.365)
UNKNOWN = between(hgx_h100(), 0, 0, 365.7)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([FAST, REFUSED, NOT_TRIED], Conclusion.AS_EXPECTED),
        ([SLOW, FAST], Conclusion.AS_EXPECTED),
        ([SLOW, REFUSED], Conclusion.SLOWER),
        ([UNKNOWN], Conclusion.UNKNOWN),
        ([FAST, WRONG], Conclusion.WRONG_DATA),
        ([REFUSED, NOT_TRIED], Conclusion.NO_WAY),
        ([NOT_TRIED], Conclusion.NO_WAY),
        ([], Conclusion.NO_WAY),
    ],
)
def test_wrong_data_or_else_the_best_rate_decides(outcomes: list[Outcome], expected: Conclusion) -> None:
    assert conclusion(outcomes) is expected


def told(outcomes: list[Outcome], card: str | None = None) -> list[str]:
    topology = hgx_h100()
    report = PeerReport(
        node="gpu-1",
        time="2026-11-25T14:00:00+00:00",
        card=card or uuid(topology, 0),
        offered_card_visible=True,
        outcomes=outcomes,
        verdict=conclusion(outcomes),
    )
    return peer_text(report, {gpu.uuid: gpu.label for gpu in topology.gpus}).splitlines()


def test_a_slow_rate_has_an_advice() -> None:
    assert told([SLOW]) == [
        "Node gpu-1: GPU0 of the pod that listens ==NV18==> GPU1 of its peer",
        "",
        "handle    result  GB/s  of expected  verdict",
        "cuda-ipc  works   0.4   0%           slower (way-unproven)",
        "",
        (
            "Verdict: slower. The pods reach 0.4 GB/s (cuda-ipc), 0% of the 370.8 GB/s that NV18 should carry. Measure "
            "the same GPUs in one container with gpu-topology verify --gpus: if they are slow there too, the links are "
            "the cause and not the pods."
        ),
    ]


def test_without_an_expected_rate_the_other_side_may_know_one() -> None:
    (stranger,) = judged([result("GPU-of-another-pod", 365.7)], uuid(hgx_h100(), 0), hgx_h100())
    assert told([stranger]) == [
        "Node gpu-1: GPU0 of the pod that listens ==?==> GPU-of-another-pod of its peer",
        "",
        "handle    result  GB/s   verdict",
        "cuda-ipc  works   365.7  unknown (way-unproven, no-expectation)",
        "",
        (
            "Verdict: unknown. The pods reach 365.7 GB/s (cuda-ipc). This side knows no rate to expect, because it "
            "does not see both GPUs or their link. The other side may."
        ),
    ]


def test_on_one_gpu_no_link_is_measured() -> None:
    said = "Both used the same GPU, so no link was measured. Name another one with --gpus on one side."
    assert told([UNKNOWN])[-1].endswith(said)


@pytest.mark.parametrize(
    ("outcomes", "sentence"),
    [
        (
            [REFUSED, NOT_TRIED],
            (
                "Verdict: no-way. The driver refuses every kind of handle, so these pods have no way to each other's "
                "GPU memory."
            ),
        ),
        ([NOT_TRIED], "Verdict: no-way. No kind of handle could be tried."),
        (
            [FAST, WRONG],
            "Verdict: wrong-data. The memory of the other pod held other data than that pod wrote.",
        ),
    ],
)
def test_what_does_not_work_is_told_in_a_sentence(outcomes: list[Outcome], sentence: str) -> None:
    assert told(outcomes)[-1] == sentence
