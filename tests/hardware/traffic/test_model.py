"""The hint that NVLink seems unused: which traffic is one, and what is silent."""

from collections.abc import Sequence

import pytest

from tests.hardware.traffic.windows import AT, MB, A, B, ago, both, of, steady
from webhook.hardware.traffic.model import Traffic, pod_traffic, unused

HOURS_AGO = ago(7200)


def is_unused(traffic: Traffic, uuids: Sequence[str] = (A, B), started: object = HOURS_AGO) -> bool:
    return unused(traffic, uuids, started) is not None  # type: ignore[arg-type]  # a date, or None


def test_busy_cards_without_a_byte_over_nvlink_are_a_sign() -> None:
    found = unused(both(steady()), (A, B), HOURS_AGO)
    assert found
    assert (found.seconds, found.nvlink, found.pcie, found.utilization) == (300, 0, 2 * 300 * 100 * MB, 1.0)


def test_next_to_nothing_over_nvlink_is_a_sign() -> None:
    assert is_unused(both(steady(nvlink=0.4 * MB)))


@pytest.mark.parametrize("rate", [0.5 * MB, MB, 80 * MB, 400_000 * MB])
def test_a_megabyte_each_second_is_silent(rate: float) -> None:
    """As of pipelines, and of tensor-parallel decoding."""
    assert not is_unused(both(steady(nvlink=rate)))


def test_traffic_of_one_card_speaks_for_all() -> None:
    assert not is_unused(of(a=steady(), b=steady(nvlink=MB)))


@pytest.mark.parametrize("busy", [0.0, 0.79], ids=["idle", "now and then"])
def test_one_card_that_is_not_busy_is_enough_to_be_silent(busy: float) -> None:
    assert is_unused(of(a=steady(), b=steady(busy=0.8)))
    assert not is_unused(of(a=steady(), b=steady(busy=busy)))


def test_without_traffic_over_pcie_the_cards_have_nothing_to_say_to_each_other() -> None:
    assert not is_unused(both(steady(pcie=MB)))
    assert not is_unused(of(a=steady(), b=steady(pcie=MB)))


@pytest.mark.parametrize("missing", ["nvlink", "pcie", "busy"])
def test_counters_that_are_not_told_are_silent(missing: str) -> None:
    none = steady(**{missing: None})  # type: ignore[arg-type]  # one of the arguments
    assert not is_unused(both(none))
    assert not is_unused(of(a=steady(), b=none))


@pytest.mark.parametrize("uuids", [(A,), (A, A), (A, "GPU-c")], ids=["single", "twice", "unknown"])
def test_what_is_no_set_of_known_cards_is_silent(uuids: Sequence[str]) -> None:
    assert not is_unused(both(steady()), uuids=uuids)
    assert not is_unused(Traffic(at=AT, cards={}))


def test_what_was_before_the_pod_is_not_judged() -> None:
    assert not is_unused(both(steady()), started=ago(299))
    assert is_unused(both(steady()), started=ago(301))
    assert not is_unused(both(steady()), started=ago(-3600))
    assert not is_unused(both(steady()), started=None)


def test_a_card_that_began_anew_has_too_short_windows_to_judge() -> None:
    assert not is_unused(of(a=steady(), b=steady(lengths=(60,))))


def test_what_moved_lately_is_told_of_all_cards_together() -> None:
    found = pod_traffic(of(a=steady(nvlink=MB), b=steady(nvlink=3 * MB, busy=0.5)), (A, B), HOURS_AGO)
    assert found
    assert (found.seconds, found.nvlink, found.pcie, found.utilization) == (300, 1200 * MB, 60000 * MB, 0.75)


def test_what_moved_lately_begins_with_the_pod() -> None:
    found = pod_traffic(both(steady()), (A, B), ago(100))
    assert found
    assert found.seconds == 60
    assert pod_traffic(both(steady()), (A, B), ago(30)) is None


def test_what_one_card_does_not_tell_is_not_told_of_all() -> None:
    found = pod_traffic(of(a=steady(), b=steady(nvlink=None)), (A, B), HOURS_AGO)
    assert found
    assert (found.nvlink, found.pcie) == (None, 2 * 300 * 100 * MB)
