"""``--verify-at-start``: what a stand-in for the driver lets measure goes with the topology, once for each driver."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.machines import Way
from tests.cuda.stub import PlayBench, bench_of, cuda_libraries, play_bench
from tests.hardware.topology.machines import bent, hgx_h100
from tests.programs.server.conftest import until
from tests.programs.verify.test_run import QUICK, BenchOf, h100
from webhook.hardware.discovery.machine import discover
from webhook.hardware.measurement.report import BandwidthReport
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.measuring import AGAIN_AFTER, Measuring
from webhook.programs.verify.run import NothingToMeasure, Wanted, measured
from webhook.words.timestamp import format_timestamp

__all__ = ["bench_of", "cuda_libraries", "play_bench"]

AT = datetime(2026, 11, 23, 4, 0, tzinfo=UTC)
TWO = replace(hgx_h100(), gpus=hgx_h100().gpus[:2])


@dataclass
class Lines:
    """The log of an agent."""

    path: Path
    descriptor: int
    counted: list[None] = field(default_factory=list)

    def measuring(self, measure: Callable[[], BandwidthReport]) -> Measuring:
        """As of an agent that has just started; each call of ``measure`` is counted."""

        def count() -> BandwidthReport:
            self.counted.append(None)
            return measure()

        return Measuring(count, AgentLog(self.descriptor, node="node-1"))

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Lines]:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    yield Lines(path, descriptor)
    os.close(descriptor)


def nothing() -> BandwidthReport:
    raise NothingToMeasure("none of 2 GPUs can be measured")


def odd() -> BandwidthReport:
    raise ZeroDivisionError("an odd driver")


def figures(topology: NodeTopology) -> list[tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]]:
    return [(gpu.measured, gpu.slower) for gpu in topology.gpus]


def test_what_the_driver_lets_measure_goes_with_the_topology(
    bench_of: BenchOf, play_bench: PlayBench, log: Lines
) -> None:
    root = play_bench(h100(bench_of).with_way(0, 1, Way(gbps=120.0, over="nvlink")))
    found = discover(node="node-1", root=root)
    wanted = Wanted(node="node-1", root=root, method=QUICK, all_reduce=False)
    measuring = log.measuring(lambda: measured(wanted))
    assert measuring.told(found) == found
    announced = measuring.announced(found, None, AT)
    assert (announced.measured_at, figures(announced)) == (format_timestamp(AT), [((), ()), ((), ())])
    measuring.begin()
    until(lambda: bool(figures(measuring.told(found))[1][0]), "figures")
    one, other = measuring.told(found).gpus
    assert dict(one.slower) == {"GPU1": pytest.approx(120_000, rel=0.01)}
    assert dict(other.measured) == {"GPU0": pytest.approx(370_800, rel=0.01)}
    assert (one.measured, other.slower) == ((), ())
    until(lambda: bool(log.read()), "a line")
    (line,) = log.read()
    assert (line["level"], line["message"], line["pairs"], line["slower"]) == ("warning", "measured", 2, 1)


def test_a_measurement_does_not_begin_before_it_is_announced(log: Lines) -> None:
    measuring = log.measuring(nothing)
    measuring.begin()
    assert log.counted == []


def test_it_is_announced_and_begun_once(log: Lines) -> None:
    measuring = log.measuring(nothing)
    for hours in (0, 1, 50):
        told = measuring.announced(TWO, None, AT + timedelta(hours=hours))
        measuring.begin()
        assert told.measured_at == format_timestamp(AT)
    until(lambda: bool(log.read()), "a line")
    assert len(log.counted) == 1
    assert log.read()[0]["text"] == "none of 2 GPUs can be measured"


def test_a_measurement_that_meets_a_bug_is_told_and_ends_nothing(log: Lines) -> None:
    measuring = log.measuring(odd)
    measuring.announced(TWO, None, AT)
    measuring.begin()
    until(lambda: bool(log.read()), "a line")
    assert "an odd driver" in str(log.read()[0])
    assert measuring.told(TWO).measured_at == format_timestamp(AT)


@pytest.mark.parametrize(
    ("published", "later", "measures"),
    [
        (None, timedelta(0), True),
        (replace(TWO, measured_at=format_timestamp(AT)), timedelta(hours=1), False),
        (replace(TWO, measured_at=format_timestamp(AT)), AGAIN_AFTER, True),
        (replace(TWO, measured_at="yesterday"), timedelta(0), True),
        (replace(TWO, measured_at=format_timestamp(AT), driver_version="1.0"), timedelta(hours=1), True),
    ],
    ids=["never", "an hour ago", "a day ago", "at no time", "with another driver"],
)
def test_an_agent_that_starts_anew_measures_what_was_not_measured_lately(
    published: NodeTopology | None, later: timedelta, log: Lines, *, measures: bool
) -> None:
    measuring = log.measuring(nothing)
    measuring.announced(TWO, published, AT + later)
    measuring.begin()
    if measures:
        until(lambda: bool(log.read()), "a line")
    assert len(log.counted) == measures


def test_a_node_that_is_measured_wholly_is_not_measured_again_and_keeps_its_figures(log: Lines) -> None:
    whole = bent(bent(TWO, 0, measured=(("GPU1", 371_000),)), 1, slower=(("GPU0", 90_000),))
    published = replace(whole, measured_at=format_timestamp(AT))
    measuring = log.measuring(nothing)
    told = measuring.announced(TWO, published, AT + timedelta(days=400))
    measuring.begin()
    assert told == published
    assert log.counted == []


def test_a_node_with_one_gpu_is_not_measured(log: Lines) -> None:
    one = replace(TWO, gpus=TWO.gpus[:1])
    measuring = log.measuring(nothing)
    assert measuring.announced(one, None, AT) == one
    measuring.begin()
    assert log.counted == []
