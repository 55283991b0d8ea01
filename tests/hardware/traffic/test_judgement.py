"""The hint NVLinkUnused: which traffic is one, and what is silent."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.hardware.traffic.windows import AT, MB, A, B, ago, both, of, steady
from webhook.hardware.traffic.judgement import Sign, pod_traffic, unused
from webhook.hardware.traffic.model import Traffic, Window

HOURS_AGO = ago(7200)


def sign(traffic: Traffic, uuids: Sequence[str] = (A, B), started: object = HOURS_AGO) -> Sign | None:
    found = unused(traffic, uuids, started)  # type: ignore[arg-type]  # a date, or None
    return found.sign if found else None


def changed(windows: tuple[Window, ...], **by_length: dict[str, int]) -> tuple[Window, ...]:
    """The windows of these lengths (``w300``) are others."""
    changes = {int(name[1:]): change for name, change in by_length.items()}
    return tuple(replace(each, **changes.get(each.seconds, {})) for each in windows)


def test_busy_cards_without_a_byte_over_nvlink_are_a_strong_sign() -> None:
    found = unused(both(steady()), (A, B), HOURS_AGO)
    assert found
    assert (found.sign, found.moved.seconds, found.moved.nvlink) == (Sign.STRONG, 600, 0)
    assert (found.moved.pcie, found.moved.utilization) == (2 * 600 * 100 * MB, 1.0)


def test_what_libraries_say_to_each_other_at_the_start_does_not_count() -> None:
    handshake = changed(steady(), w1200={"nvlink": 5 * MB})
    assert sign(both(handshake), started=ago(1230)) is Sign.STRONG


def test_a_byte_after_the_first_busy_minute_makes_it_a_weak_sign() -> None:
    assert sign(both(changed(steady(), w600={"nvlink": 1}, w1200={"nvlink": 5 * MB}))) is Sign.WEAK


def test_next_to_nothing_over_nvlink_is_a_weak_sign() -> None:
    assert sign(both(steady(nvlink=0.4 * MB))) is Sign.WEAK


@pytest.mark.parametrize("rate", [0.5 * MB, MB, 80 * MB, 400_000 * MB])
def test_a_megabyte_each_second_is_silent(rate: float) -> None:
    """As of pipelines, and of tensor-parallel decoding."""
    assert sign(both(steady(nvlink=rate))) is None


def test_traffic_of_one_card_speaks_for_all() -> None:
    assert sign(of(a=steady(), b=steady(nvlink=MB))) is None


def test_nvlink_that_was_used_until_now_and_is_silent_since_is_a_weak_sign_only() -> None:
    used = changed(steady(), w600={"nvlink": 10**12}, w1200={"nvlink": 2 * 10**12})
    assert sign(both(used)) is Sign.WEAK


def test_an_idle_pod_is_silent() -> None:
    assert sign(both(steady(busy=0.0, pcie=0))) is None


def test_cards_that_are_busy_now_and_then_are_silent() -> None:
    assert sign(both(steady(busy=0.6))) is None


def test_one_idle_card_is_enough_to_be_silent() -> None:
    assert sign(of(a=steady(), b=steady(busy=0.1))) is None


def test_without_traffic_over_pcie_the_cards_have_nothing_to_say_to_each_other() -> None:
    assert sign(both(steady(pcie=MB))) is None
    assert sign(of(a=steady(), b=steady(pcie=MB))) is None


@pytest.mark.parametrize("missing", ["nvlink", "pcie", "busy"])
def test_counters_that_are_not_told_are_silent(missing: str) -> None:
    none = steady(**{missing: None})  # type: ignore[arg-type]  # one of the arguments
    assert sign(both(none)) is None
    assert sign(of(a=steady(), b=none)) is None


def test_a_single_card_is_silent() -> None:
    assert sign(both(steady()), uuids=(A,)) is None
    assert sign(both(steady()), uuids=(A, A)) is None


def test_a_card_that_the_agent_does_not_know_is_silent() -> None:
    assert sign(both(steady()), uuids=(A, "GPU-c")) is None
    assert sign(Traffic(at=AT)) is None


def test_a_pod_of_which_no_one_knows_when_it_started_is_silent() -> None:
    assert sign(both(steady()), started=None) is None


def test_what_was_before_the_pod_is_not_judged() -> None:
    assert sign(both(steady()), started=ago(599)) is None
    assert sign(both(steady()), started=ago(601)) is Sign.STRONG


def test_the_first_busy_minute_is_not_judged() -> None:
    late = changed(steady(), w600={"busy": 330}, w1200={"busy": 340})
    assert sign(both(late), started=ago(1300)) is None


def test_a_card_that_began_anew_has_too_short_windows_to_judge() -> None:
    assert sign(of(a=steady(), b=steady(lengths=(60, 300)))) is None


def test_a_pod_that_started_in_the_future_is_silent() -> None:
    assert sign(both(steady()), started=ago(-3600)) is None


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
