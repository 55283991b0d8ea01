"""The samples beside the rounds: what is told of them, for how long, and what goes wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from tests.hardware.topology.machines import hgx_h100
from tests.nvml.machines import hgx_h100 as played_h100
from tests.nvml.stub import Play
from tests.programs.agent.looks import look, node_object
from webhook.hardware.discovery.counters import CounterReader
from webhook.hardware.discovery.facts import ByteCounter, CardCounters, Direction
from webhook.hardware.traffic.model import Traffic, parse_traffic
from webhook.programs.agent.metrics import families
from webhook.programs.agent.publication import lease_manifest
from webhook.programs.agent.status import Status
from webhook.programs.agent.traffic import Sampler
from webhook.words import names

NOW = datetime(2026, 11, 23, 3, 20, 10, tzinfo=UTC)


@dataclass
class Place:
    """A sampler with its time and its cards."""

    seconds: float = 100.0
    now: datetime = NOW
    cards: Sequence[CardCounters] = ()
    bugs: list[int] = field(default_factory=list)
    spent: float = 0.0
    costs: float = 0.001
    """Seconds of CPU that a reading takes."""

    def sampler(self) -> Sampler:
        return Sampler(
            self._read,
            interval=15.0,
            clock=lambda: self.seconds,
            spent=lambda: self.spent,
            now=lambda: self.now,
            bug=lambda: self.bugs.append(1),
        )

    def _read(self) -> Sequence[CardCounters]:
        self.spent += self.costs
        if self.cards is None:
            raise ZeroDivisionError
        return self.cards


def moved(number: int) -> CardCounters:
    return CardCounters(index=3, uuid="GPU-c", nvlink={(way, 0): ByteCounter(number, 2**64) for way in Direction})


@pytest.fixture
def place() -> Place:
    return Place()


def test_there_is_nothing_before_the_first_sample(place: Place) -> None:
    sampler = place.sampler()
    assert sampler.sampled is None
    assert sampler.traffic is None


def test_a_sample_is_told_until_the_next_ones_fail_to_come(place: Place) -> None:
    place.cards = (moved(1),)
    sampler = place.sampler()
    sampler.sample()
    assert sampler.traffic == Traffic(at=NOW, cards={"GPU-c": ()})
    place.seconds += 60.0
    assert sampler.sampled
    place.seconds += 1.0
    assert sampler.sampled is None
    assert sampler.traffic is None


@pytest.mark.parametrize(("costs", "pause"), [(0.006, 15.0), (0.075, 15.0), (0.25, 50.0), (60.0, 600.0)])
def test_samples_take_half_a_per_cent_of_a_core_at_most(costs: float, pause: float, place: Place) -> None:
    place.costs, place.cards = costs, (moved(1),)
    sampler = place.sampler()
    sampler.sample()
    assert sampler.pause == pytest.approx(pause)
    place.seconds += 3.9 * pause
    assert sampler.sampled


def test_a_node_without_cards_tells_nothing(place: Place) -> None:
    sampler = place.sampler()
    sampler.sample()
    assert sampler.traffic is None


def test_a_bug_in_one_sample_does_not_end_the_samples(place: Place) -> None:
    sampler = place.sampler()
    place.cards = None  # type: ignore[assignment]  # an odd machine
    sampler.sample()
    place.cards = (moved(1),)
    sampler.sample()
    assert (place.bugs, sampler.traffic is not None, sampler.busy_since) == ([1], True, None)


@pytest.mark.parametrize("year", [1970, 2100])
def test_a_clock_on_the_wall_that_jumps_changes_no_window(year: int, place: Place) -> None:
    sampler = place.sampler()
    for number in range(10):
        place.cards = (moved(number * 10),)
        place.now = NOW.replace(year=year if number == 8 else 2026)
        sampler.sample()
        place.seconds += 15.0
    assert sampler.traffic
    assert sampler.traffic.at == NOW
    assert [(each.seconds, each.nvlink) for each in sampler.traffic.cards["GPU-c"]] == [(60, 80)]


def test_scripted_counters_reach_the_metrics(play: Play) -> None:
    reader = CounterReader()
    sampler = Sampler(
        reader.read, interval=15.0, clock=lambda: 5.0, spent=lambda: 0.0, now=lambda: NOW, bug=pytest.fail
    )
    for kib in (1000, 1010):
        play(played_h100().with_counters(0, nvlink_kib=(kib, kib + 1), pcie=(kib, 5), busy=64))
        sampler.sample()
    assert sampler.sampled
    found = families(Status(confirmed_at=0.0), sampler.sampled, node="n1", now=5.0, version="1")
    samples = {
        (each.name.removeprefix("gpu_topology_"), each.labels.get("gpu"), each.labels.get("direction")): each.value
        for family in found
        for each in family.samples
        if "uuid" in each.labels
    }
    assert samples == {
        ("nvlink_bytes_total", "0", "tx"): 18 * 10 * 1024,
        ("nvlink_bytes_total", "0", "rx"): 18 * 10 * 1024,
        ("pcie_bytes_total", "0", "tx"): 10,
        ("pcie_bytes_total", "0", "rx"): 0,
        ("gpu_utilization_ratio", "0", None): 0.64,
    }


def test_the_lease_says_what_moved(place: Place) -> None:
    sampler = place.sampler()
    for number in range(6):
        place.cards = (moved(number),)
        sampler.sample()
        place.seconds += 15.0
    node = node_object("hgx-h100")
    lease = lease_manifest(node, namespace="gpu-topology", interval=60.0, at=NOW, traffic=sampler.traffic)
    assert parse_traffic(lease["metadata"]["annotations"][names.TRAFFIC], "the Lease") == sampler.traffic


def test_a_lease_without_traffic_has_no_annotation() -> None:
    lease = lease_manifest(node_object("hgx-h100"), namespace="gpu-topology", interval=60.0, at=NOW)
    assert "annotations" not in lease["metadata"]


def test_cards_that_are_not_sampled_have_no_traffic_in_the_metrics() -> None:
    status = Status(confirmed_at=0.0, look=look(hgx_h100()))
    names_ = {family.name for family in families(status, None, node="n1", now=1.0, version="1")}
    assert "gpu_topology_nvlink_bytes" not in names_
