"""What ``gpu-topology verify`` measured between the GPUs of a pod, as the pod's annotation says."""

import json
from typing import Any

import pytest

from tests.insight.explain.situations import H20, annotated, finding, on, told
from tests.pods import Manifest, container, pod
from webhook.insight.explain.findings import Report


def tells(cards: list[str], **changes: Any) -> str:
    good = {
        "at": "2026-11-23T04:00:00Z",
        "cards": cards,
        "verdict": "as-expected",
        "pairs": 2,
        "slowest": {"source": cards[0], "target": cards[1], "measuredGBps": 369.5, "expectedGBps": 370.8},
        "allReduce": {"busbwGBps": 368.4, "expectedGBps": 370.8, "verdict": "as-expected"},
    }
    return json.dumps(good | changes)


def measured(text: str | None) -> Report:
    wish: Manifest = on(pod(container(gpus=2)), "h20-node-1", list(H20[:2]))
    return told(wish if text is None else annotated(wish, measured=text))


def conditions(report: Report) -> list[str]:
    return [found.condition for found in report.findings]


def test_what_is_as_expected_is_told_with_its_figures() -> None:
    found = finding(measured(tells(list(H20[:2]))), "measured")
    assert found.verdict == "holds"
    assert found.evidence == (
        "gpu-topology verify measured GPU0 and GPU1 at 2026-11-23T04:00:00Z: 2 of 2 ways are as fast as expected; the "
        "slowest is GPU0 to GPU1, 369.5 of 370.8 GB/s; an all-reduce has 368.4 of 370.8 GB/s (busbw)"
    )


def test_what_is_slower_is_a_hint_that_names_the_slowest_way() -> None:
    slowest = {"source": H20[1], "target": H20[0], "measuredGBps": 90, "expectedGBps": 370.8}
    report = measured(tells(list(H20[:2]), verdict="slower", notAsExpected=1, slowest=slowest))
    found = finding(report, "measured")
    assert (found.verdict, found.code) == ("hint", "GT902")
    assert "1 of 2 ways are as fast as expected; the slowest is GPU1 to GPU0, 90 of 370.8 GB/s" in found.evidence
    assert report.fails == measured(None).fails
    assert report.reach == measured(None).reach


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("fast", "GT903"),
        (tells(list(H20[:2]), verdict="slower"), "GT903"),
        (tells([H20[0], H20[5]]), "GT904"),
    ],
    ids=["no JSON", "contradicts itself", "of other GPUs"],
)
def test_what_cannot_be_or_is_of_other_gpus_is_a_hint(text: str, code: str) -> None:
    found = finding(measured(text), "measured")
    assert (found.verdict, found.code) == ("hint", code)


@pytest.mark.parametrize(
    ("nccl", "is_told"), [("2.32.4", True), ("2.33.1", True), ("3.0.0", True), ("2.32.3", False), ("2.9.9", False)]
)
def test_a_release_of_nccl_that_is_newer_than_all_facts_is_a_hint(nccl: str, is_told: bool) -> None:
    report = measured(tells(list(H20[:2]), nccl=nccl))
    assert ("nccl-release" in conditions(report)) == is_told
    assert report.reach == measured(None).reach
    if is_told:
        found = finding(report, "nccl-release")
        assert (found.verdict, found.code) == ("hint", "GT470")
        assert f"the pod has NCCL {nccl}" in found.evidence


@pytest.mark.parametrize("changes", [{}, {"nccl": None}, {"nccl": ""}, {"nccl": "master"}, {"nccl": "\u0665.1.1"}])
def test_a_release_that_is_not_known_is_no_hint(changes: dict[str, Any]) -> None:
    assert "nccl-release" not in conditions(measured(tells(list(H20[:2]), **changes)))
