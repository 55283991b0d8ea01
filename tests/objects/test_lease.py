"""The Lease says when a topology was true, and what cannot be read says nothing."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.lease import lasts, lease_spec, micro_time, renewed_at

AT = datetime(2026, 11, 20, 21, 51, 20, tzinfo=UTC)


def test_a_renewal_says_who_when_and_for_how_long() -> None:
    assert lease_spec("node-1", at=AT, interval=60.0) == {
        "holderIdentity": "node-1",
        "leaseDurationSeconds": 600,
        "renewTime": "2026-11-20T21:51:20.000000Z",
    }


def test_the_holder_has_the_full_name_of_the_node() -> None:
    assert lease_spec("n" * 253, at=AT, interval=60.0)["holderIdentity"] == "n" * 253


@pytest.mark.parametrize(
    ("interval", "seconds"), [(1.0, 600), (60.0, 600), (200.0, 600), (200.5, 602), (3600.0, 10800), (86400.0, 259200)]
)
def test_it_holds_for_ten_minutes_and_at_least_three_intervals(interval: float, seconds: int) -> None:
    assert lease_spec("node-1", at=AT, interval=interval)["leaseDurationSeconds"] == seconds


def test_times_are_in_utc_with_microseconds() -> None:
    zone = timezone(timedelta(hours=2))
    assert micro_time(datetime(2026, 11, 20, 20, 30, 15, 250, tzinfo=zone)) == "2026-11-20T18:30:15.000250Z"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-11-20T21:51:20.000000Z", AT),
        ("2026-11-20T21:51:20Z", AT),
        ("2026-11-20T23:51:20.000000+02:00", AT),
        ("2026-11-20T21:51:20.000250Z", datetime(2026, 11, 20, 21, 51, 20, 250, tzinfo=UTC)),
        ("2026-11-20T21:51:20.000250999Z", datetime(2026, 11, 20, 21, 51, 20, 250, tzinfo=UTC)),
    ],
)
def test_the_time_of_a_renewal_is_read(text: str, found: datetime) -> None:
    renewed = renewed_at({"spec": {"renewTime": text}})
    assert renewed == found
    assert renewed is not None
    assert renewed.tzinfo is UTC


@pytest.mark.parametrize(
    "lease",
    [
        {},
        {"spec": None},
        {"spec": []},
        {"spec": "2026-11-20T21:51:20.000000Z"},
        {"spec": {}},
        {"spec": {"renewTime": None}},
        {"spec": {"renewTime": 1795211480}},
        {"spec": {"renewTime": ""}},
        {"spec": {"renewTime": "yesterday"}},
        {"spec": {"renewTime": "2026-11-20"}},
        {"spec": {"renewTime": "2026-11-20T21:51:20"}},
        {"spec": {"renewTime": "2026-13-20T21:51:20Z"}},
        {"spec": {"renewTime": "0001-01-01T00:00:00+23:59"}},
    ],
)
def test_a_lease_that_does_not_say_when_is_no_error(lease: dict[str, Any]) -> None:
    assert renewed_at(lease) is None


@given(st.text() | st.from_regex(r"[0-9:.TZ+-]{0,40}"))
def test_no_text_is_an_error(text: str) -> None:
    found = renewed_at({"spec": {"renewTime": text}})
    assert found is None or found.tzinfo is UTC


@given(st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - the zone is given apart
def test_what_is_written_is_read_again(at: datetime) -> None:
    assert renewed_at({"spec": lease_spec("node-1", at=at, interval=60.0)}) == at


@pytest.mark.parametrize(
    ("lease", "seconds"),
    [
        ({"spec": {"leaseDurationSeconds": 600}}, 600.0),
        ({"spec": {"leaseDurationSeconds": -5}}, 0.0),
        ({"spec": {"leaseDurationSeconds": "600"}}, 0.0),
        ({"spec": None}, 0.0),
        ({}, 0.0),
    ],
)
def test_a_lease_says_for_how_long_its_agent_vouches(lease: dict[str, Any], seconds: float) -> None:
    assert lasts(lease) == seconds
