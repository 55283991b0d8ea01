"""The Lease says when a topology was true, and what cannot be read says nothing."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.lease import lasts, leader_spec, lease_spec, look, may_lead, micro_time, renewed_at

AT = datetime(2026, 11, 20, 21, 51, 20, tzinfo=UTC)
DAY = timedelta(days=1)


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


def lease(version: str, holder: str | None, seconds: object = 60) -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": version},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": "1999-01-01T00:00:00Z"},
    }


@pytest.mark.parametrize(
    ("found", "now", "may"),
    [
        (lease("1", "other"), 59.0, False),
        (lease("1", "other"), 60.0, True),
        (lease("1", "other", 600), 60.0, False),
        (lease("1", "other", "soon"), 60.0, True),
        (lease("1", "me"), 0.0, True),
        (lease("1", ""), 0.0, True),
        (lease("1", None), 0.0, True),
        ({"metadata": {"resourceVersion": "1"}}, 0.0, True),
    ],
)
def test_who_may_lead(found: dict[str, Any], now: float, may: bool) -> None:
    assert may_lead(found, look(None, found, 0.0), "me", now, least=60) is may


def test_a_leader_counts_as_silent_only_from_its_last_sign_of_life() -> None:
    observed = look(look(None, lease("1", "other"), 0), lease("1", "other"), 50)
    assert observed.since == 0
    assert look(observed, lease("2", "other"), 55).since == 55


def test_transitions_are_counted_for_people() -> None:
    first = leader_spec(None, "me", AT, duration=60)
    assert (first["leaseTransitions"], first["acquireTime"]) == (0, "2026-11-20T21:51:20.000000Z")
    again = leader_spec({"spec": first}, "me", AT + DAY, duration=60)
    assert (again["leaseTransitions"], again["acquireTime"]) == (0, first["acquireTime"])
    other = leader_spec({"spec": again}, "other", AT + DAY, duration=59.5)
    assert (other["leaseTransitions"], other["leaseDurationSeconds"]) == (1, 60)
    assert leader_spec({"spec": other}, "other", AT, duration=60, held=False)["holderIdentity"] == ""
