"""What the GPUs of a pod moved lately, and the hint that it was not over NVLink."""

from dataclasses import replace
from typing import Any

import pytest

from tests.hardware.topology import machines
from tests.hardware.traffic.windows import AT, MB, ago, steady
from tests.insight.explain.situations import H20, annotated, failing, finding, known, on, told
from tests.pods import Manifest, container, pod
from webhook.hardware.traffic.model import Traffic, Window
from webhook.insight.explain.findings import Finding, Report

STARTED = "2026-11-23T01:20:00Z"


def running(manifest: Manifest, started: str = STARTED) -> Manifest:
    return manifest | {"status": {"phase": "Running", "startTime": started}}


def four(**annotations: str) -> Manifest:
    return running(on(annotated(pod(container(gpus=4)), **annotations), "h20-node-1", list(H20[:4])))


def explained(
    manifest: Manifest, windows: tuple[Window, ...] | None = None, *, topology: Any = None, **more: Any
) -> Report:
    topology = topology or machines.h20()
    cards = {gpu.uuid: steady() if windows is None else windows for gpu in topology.gpus}
    sources = known(topology, traffic=Traffic(at=AT, cards=cards))
    return told(manifest, sources=sources, **{"asked_at": ago(-20), **more})


def of_traffic(report: Report) -> list[Finding]:
    return [finding for group in report.groups if group.title == "Traffic" for finding in group.findings]


def test_what_moved_is_a_line_of_its_own() -> None:
    report = explained(four(), steady(nvlink=100_000 * MB, busy=0.97))
    (found,) = of_traffic(report)
    assert (found.condition, found.verdict) == ("traffic", "holds")
    assert found.evidence == (
        "in the last 5 min until 03:20:10 UTC GPU0, GPU1, GPU2 and GPU3 moved 120 TB over NVLink and 120 GB over PCIe "
        "(sent and received) and were utilised to 97%"
    )


def test_nvlink_that_seems_unused_is_a_hint_and_changes_nothing_else() -> None:
    quiet, used = explained(four()), explained(four(), steady(nvlink=100_000 * MB))
    found = finding(quiet, "nvlink-use")
    assert (found.verdict, found.code, found.stops) == ("hint", "GT900", False)
    assert found.evidence.startswith("GPU0, GPU1, GPU2 and GPU3 are busy, moved 120 GB over PCIe in the last 5 min")
    assert (quiet.fails, quiet.reach, quiet.conclusion) == (used.fails, used.reach, used.conclusion)
    assert failing(quiet) == failing(used)


@pytest.mark.parametrize(
    "windows",
    [steady(nvlink=MB), steady(busy=0.0, pcie=0), steady(nvlink=None), steady(pcie=None)],
    ids=["pipeline", "idle", "no counters of NVLink", "no counters of PCIe"],
)
def test_all_else_is_no_hint(windows: tuple[Window, ...]) -> None:
    assert [found.condition for found in of_traffic(explained(four(), windows))] == ["traffic"]


def test_who_expects_no_nvlink_gets_no_hint() -> None:
    assert [found.condition for found in of_traffic(explained(four(**{"expect-nvlink": "false"})))] == ["traffic"]


def test_what_is_not_told_is_not_said() -> None:
    (found,) = of_traffic(explained(four(), steady(nvlink=None, busy=None)))
    assert "NVLink" not in found.evidence
    assert "utilised" not in found.evidence
    assert of_traffic(explained(four(), steady(nvlink=None, pcie=None, busy=None))) == []


def test_cards_of_two_containers_are_judged_apart_unless_they_exchange_memory() -> None:
    two = running(on(pod(container("a", gpus=1), container("b", gpus=1)), "h20-node-1", [H20[0]], [H20[1]]))
    assert [found.condition for found in of_traffic(explained(two))] == ["traffic"]
    peers = annotated(two, profile="pod-peers")
    assert finding(explained(peers), "nvlink-use").code == "GT900"


def test_slices_have_the_traffic_of_others_too_so_nothing_is_said() -> None:
    slices = container(resources={"limits": {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "1000"}})
    assert of_traffic(explained(running(on(pod(slices), "h20-node-1", list(H20[:2]))))) == []


def test_cards_without_nvlink_are_no_hint() -> None:
    bridged = replace(machines.dgx1_v100(), node="h20-node-1")
    apart = running(on(pod(container(gpus=2)), "h20-node-1", [machines.uuid(0), machines.uuid(5)]))
    assert [found.condition for found in of_traffic(explained(apart, topology=bridged))] == ["traffic"]


@pytest.mark.parametrize(
    "report",
    [
        lambda: explained(four() | {"status": {"phase": "Pending", "startTime": STARTED}}),
        lambda: explained(four() | {"status": {"phase": "Running"}}),
        lambda: explained(four() | {"status": {"phase": "Running", "startTime": "soon"}}),
        lambda: explained(running(four(), "2026-11-23T03:20:00Z")),
        lambda: explained(four(), asked_at=None),
        lambda: explained(four(), asked_at=ago(-1000)),
        lambda: told(four(), asked_at=ago(-20)),
        lambda: explained(pod(container(gpus=4))),
    ],
    ids=["pending", "no start", "odd start", "just started", "from files", "old", "no agent", "no node"],
)
def test_nothing_is_said_where_nothing_is_known(report: Any) -> None:
    assert of_traffic(report()) == []
