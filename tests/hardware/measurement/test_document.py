"""The written form of a report, and two reports beside each other."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.hardware.measurement.report import (
    BandwidthReport,
    Card,
    CardSet,
    How,
    Omission,
    Pair,
    Skipped,
    Versions,
    compare,
    format_report,
    parse_report,
)
from webhook.hardware.measurement.verdict import Expected, judged_pair, judged_set
from webhook.words.errors import FormatError, GpuTopologyError, ManifestError

ONE, OTHER = "GPU-00000000-0000-0000-0000-000000000000", "GPU-00000000-0000-0000-0000-000000000001"
NV18 = Expected("NV18", 370.8, True, 48.0)


def report(rates: list[float], *, together: float = 370.0) -> BandwidthReport:
    copied = 10**9
    found = Pair(
        source=ONE,
        target=OTHER,
        peer_access=True,
        rank=1,
        staged_samples_gbps=[9.0],
        samples_gbps=rates,
        latency_us=2.5,
        copied_bytes=copied,
        sent_bytes=copied,
        received_bytes=copied,
    )
    reduced = CardSet(
        cards=[ONE, OTHER], samples_gbps=[together], reduced_bytes=10**9, reductions=1, sent_bytes=[10**9, 10**9]
    )
    return BandwidthReport(
        node="node-1",
        time="2026-11-23T04:00:00+00:00",
        versions=Versions(tool="0.1.0"),
        how=How(copy_bytes=1, copies=1, staged_copies=1, samples=1, warm_ups=0, step_seconds=60.0),
        environment=["NCCL_DEBUG"],
        preloaded=[],
        cards=[Card(uuid=ONE, index=0), Card(uuid=OTHER, index=1)],
        pairs=[judged_pair(found, NV18)],
        sets=[judged_set(reduced, NV18)],
        skipped=[Omission(cards=[OTHER, ONE], reason=Skipped.FAILED, function="cuInit", code=999)],
        warnings=[],
    )


def document(**changes: Any) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(format_report(report([370.0, 371.0]))) | changes)


def test_a_report_is_read_back_as_it_was_written() -> None:
    written = format_report(report([370.0, 371.0]))
    assert format_report(parse_report(written.encode(), source="here")) == written


def test_units_stand_in_the_names_and_what_is_not_known_is_null() -> None:
    written = msgspec.json.decode(format_report(report([370.0])))
    assert (written["apiVersion"], written["kind"]) == ("gpu.topology/v1", "BandwidthReport")
    pair = written["pairs"][0]
    assert (pair["measuredGBps"], pair["spreadGBps"], pair["samplesGBps"]) == (370.0, None, [370.0])
    assert (pair["expectedGBps"], pair["ratio"], pair["latencyMicroseconds"]) == (370.8, 0.998, 2.5)
    assert (pair["nvlinkSentBytes"], pair["withoutPeerAccessGBps"]) == (10**9, 9.0)
    assert written["versions"]["nccl"] is None
    assert written["sets"][0]["busbwGBps"] == 370.0


def test_members_of_a_newer_program_are_ignored() -> None:
    assert parse_report(document(humidity=3), source="here") == parse_report(document(), source="here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "Pod"}, 'here: expected BandwidthReport of gpu.topology/v1, found "Pod of gpu.topology/v1"'),
        ({"apiVersion": "gpu.topology/v2"}, "found .BandwidthReport of gpu.topology/v2"),
        ({"node": 7}, "node: expected a text, found a whole number"),
        ({"cards": []}, r"here: pairs\[0\]: expected two cards of the report"),
        ({"cards": [{"uuid": ONE, "index": 0}] * 2}, "here: cards: expected each card once"),
        ({"pairs": [{}]}, "expected the member source, found none"),
        ({"cards": [{"uuid": "x" * 65, "index": 0}]}, "Expected `str` of length <= 64"),
    ],
    ids=["kind", "version", "type", "unknown card", "card twice", "empty pair", "long uuid"],
)
def test_a_report_that_is_none_says_where_and_what(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GpuTopologyError, match=message):
        parse_report(document(**changes), source="here")


@pytest.mark.parametrize("number", ["-1", "1e999", "NaN", '"370"', "1e10"])
def test_a_rate_that_is_no_rate_is_refused(number: str) -> None:
    text = format_report(report([370.0])).replace('"measuredGBps": 370.0', f'"measuredGBps": {number}')
    with pytest.raises(ManifestError, match="here: no BandwidthReport can be read: "):
        parse_report(text.encode(), source="here")


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=9,
)


@given(st.sampled_from(sorted(msgspec.json.decode(document()))), _JSON)
def test_whatever_stands_in_a_member_it_is_read_or_refused(member: str, value: Any) -> None:
    with suppress(FormatError, ManifestError):
        assert format_report(parse_report(document(**{member: value}), source="here"))


@given(st.binary(max_size=200))
def test_whatever_the_bytes_they_are_refused_by_name(data: bytes) -> None:
    with pytest.raises(ManifestError, match="here: no BandwidthReport can be read: "):
        parse_report(data, source="here")


def test_a_report_beside_itself_has_nothing_slower() -> None:
    same = compare(report([370.0, 360.0]), report([370.0, 360.0]))
    assert (same.compared, same.slower, same.missing) == (2, (), ())


def test_slower_is_what_lies_beyond_the_spread_of_both() -> None:
    assert compare(report([370.0, 340.0]), report([330.0, 331.0])).slower == ()
    (change,) = compare(report([370.0, 371.0]), report([330.0, 331.0])).slower
    assert (change.cards, change.before_gbps, change.now_gbps) == ((ONE, OTHER), 370.5, 330.5)


def test_two_per_cent_are_no_change_however_steady() -> None:
    assert compare(report([370.0, 370.0]), report([363.0, 363.0])).slower == ()
    assert len(compare(report([370.0, 370.0]), report([362.0, 362.0])).slower) == 1


def test_an_all_reduce_that_became_slower_is_told() -> None:
    (change,) = compare(report([370.0]), report([370.0], together=200.0)).slower
    assert change.cards == ("all-reduce", ONE, OTHER)


def test_what_is_missing_now_is_told() -> None:
    now = msgspec.structs.replace(report([370.0]), sets=[])
    assert compare(report([370.0]), now).missing == (("all-reduce", ONE, OTHER),)
