"""The verdicts: which way the bytes took, and whether they were fast enough; each with its opposite."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.hardware.discovery.facts import ByteCounter, CardCounters, Direction
from webhook.hardware.measurement.plan import may_use_nvls
from webhook.hardware.measurement.report import CardSet, Verdict, Warn
from webhook.hardware.measurement.verdict import Evidence, Expected, is_unsteady, judge, judged_set, middle, spread
from webhook.programs.verify.measure import are_at_rest, moved

NV18 = Expected("NV18", 370.8, True, 48.0)
NV18_NO_SLOT = Expected("NV18", 370.8, True, None)
NV1_ON_GEN4 = Expected("NV1", 20.0, True, 24.0)
PHB = Expected("PHB", 24.0, False, 24.0)
MIXED = Expected("NVLink-partial", 10.0, False, 12.0, partly_nvlink=True)
DUE = 1e9
ALL, NONE, HALF = (10**9, 10**9), (0, 0), (5 * 10**8, 10**9)
SILENT = (None, None)


def verdict(
    gbps: float | None, moved: tuple[int | None, ...], expected: Expected | None = NV18, *, access: bool = True
) -> tuple[str, list[str]]:
    found, warnings = judge(Evidence(gbps=gbps, due_bytes=DUE, moved=moved, peer_access=access), expected)
    return str(found), [str(warning) for warning in warnings]


@pytest.mark.parametrize(
    ("gbps", "counted", "expected", "judged", "warned"),
    [
        pytest.param(375.0, ALL, NV18, "as-expected", [], id="healthy"),
        pytest.param(334.0, ALL, NV18, "as-expected", [], id="just fast enough"),
        pytest.param(333.0, ALL, NV18, "slower", [], id="just too slow"),
        pytest.param(375.0, NONE, NV18, "as-expected", ["counters-at-rest"], id="fast, and the counters stood still"),
        pytest.param(250.0, NONE, NV18, "slower", ["counters-at-rest"], id="slow, but beyond PCIe"),
        pytest.param(239.0, NONE, NV18, "not-nvlink", [], id="a slot reported far too slow, the counters stood still"),
        pytest.param(375.0, NONE, NV18_NO_SLOT, "not-nvlink", [], id="fast, the counters stood still, no slot known"),
        pytest.param(38.0, NONE, NV18, "not-nvlink", [], id="over PCIe"),
        pytest.param(375.0, HALF, NV18, "unknown", ["counters-disagree"], id="one card counted half"),
        pytest.param(100.0, HALF, NV18, "slower", ["counters-disagree"], id="slow whichever way"),
        pytest.param(375.0, SILENT, NV18, "as-expected", ["no-nvlink-counters"], id="no counters, well above PCIe"),
        pytest.param(63.0, SILENT, NV18, "slower", ["no-nvlink-counters"], id="no counters, above PCIe and slow"),
        pytest.param(38.0, SILENT, NV18, "slower", ["no-nvlink-counters", "way-unproven"], id="no counters, slow"),
        pytest.param(375.0, (), NV18, "as-expected", ["no-nvlink-counters"], id="a report without any counter"),
        pytest.param(375.0, (10**9, None), NV18, "as-expected", ["no-nvlink-counters"], id="one card has counters"),
        pytest.param(24.0, ALL, NV1_ON_GEN4, "as-expected", [], id="one old link, counted"),
        pytest.param(24.0, NONE, NV1_ON_GEN4, "not-nvlink", [], id="one old link, not counted"),
        pytest.param(
            24.0, SILENT, NV1_ON_GEN4, "unknown", ["no-nvlink-counters", "way-unproven"], id="one old link, no counters"
        ),
        pytest.param(20.0, NONE, PHB, "as-expected", [], id="PCIe as expected"),
        pytest.param(14.0, NONE, PHB, "slower", [], id="PCIe slow"),
        pytest.param(20.0, SILENT, PHB, "as-expected", [], id="PCIe needs no counters"),
        pytest.param(
            300.0, NONE, PHB, "as-expected", ["counters-at-rest", "unexpected-nvlink"], id="NVLink that nothing counts"
        ),
        pytest.param(300.0, ALL, PHB, "as-expected", ["unexpected-nvlink"], id="NVLink that the topology lacks"),
        pytest.param(20.0, HALF, PHB, "as-expected", ["counters-disagree"], id="a part over NVLink that is not there"),
        pytest.param(9.0, HALF, MIXED, "as-expected", [], id="NVLink carried its part of a ring"),
        pytest.param(9.0, ALL, MIXED, "as-expected", [], id="NVLink carried what proves a ring elsewhere"),
        pytest.param(5.0, HALF, MIXED, "slower", [], id="a ring over PCIe too, and slow"),
        pytest.param(300.0, ALL, None, "unknown", ["no-expectation"], id="nothing known"),
        pytest.param(None, ALL, NV18, "unknown", ["no-expectation"], id="nothing measured"),
    ],
)
def test_a_rate_and_counters_have_one_verdict(
    gbps: float | None, counted: tuple[int | None, ...], expected: Expected | None, judged: str, warned: list[str]
) -> None:
    assert verdict(gbps, counted, expected) == (judged, warned)


def test_without_peer_access_nothing_goes_over_nvlink_whatever_the_rate() -> None:
    assert verdict(375.0, SILENT, access=False) == ("not-nvlink", ["no-peer-access"])
    assert verdict(20.0, NONE, PHB, access=False) == ("as-expected", ["no-peer-access"])


@pytest.mark.parametrize(
    ("staged_gbps", "judged"),
    [
        (22.0, (Verdict.AS_EXPECTED, [Warn.PEER_ACCESS_SLOWER])),
        (9.0, (Verdict.SLOWER, [])),
        (None, (Verdict.SLOWER, [])),
    ],
)
def test_a_chipset_that_forwards_copies_slowly_is_no_broken_path(
    staged_gbps: float | None, judged: tuple[Verdict, list[Warn]]
) -> None:
    seen = Evidence(gbps=9.9, due_bytes=DUE, moved=NONE, peer_access=True, staged_gbps=staged_gbps)
    assert judge(seen, PHB) == judged


def test_wrong_data_have_no_verdict() -> None:
    seen = Evidence(gbps=375.0, due_bytes=DUE, moved=ALL, peer_access=True, intact=False)
    assert judge(seen, NV18) == (Verdict.UNKNOWN, [Warn.WRONG_DATA])


@given(
    st.floats(min_value=0.01, max_value=2000),
    st.floats(min_value=1, max_value=2),
    st.sampled_from([ALL, NONE, HALF, SILENT]),
    st.sampled_from([NV18, NV1_ON_GEN4, PHB]),
)
def test_faster_is_never_judged_worse(
    gbps: float, factor: float, counted: tuple[int | None, ...], expected: Expected
) -> None:
    before, after = verdict(gbps, counted, expected)[0], verdict(gbps * factor, counted, expected)[0]
    worst_first = ["not-nvlink", "slower", "unknown", "as-expected"]
    assert worst_first.index(after) >= worst_first.index(before)


@given(st.floats(min_value=0, max_value=5 * 48, exclude_max=True))
def test_counters_that_stand_still_never_let_nvlink_be_as_expected(gbps: float) -> None:
    assert verdict(gbps, NONE) == ("not-nvlink", [])


@given(st.floats(min_value=5 * 48, max_value=2000))
def test_counters_that_stand_still_are_named_where_no_slot_is_so_fast(gbps: float) -> None:
    assert verdict(gbps, NONE) == ("as-expected" if gbps >= 0.9 * 370.8 else "slower", ["counters-at-rest"])


def card(kib: int, *, bits: int = 64, link: int = 0, uuid: str = "GPU-1") -> CardCounters:
    counter = ByteCounter(kib * 1024, 2**bits * 1024)
    return CardCounters(index=0, uuid=uuid, nvlink={(Direction.TX, link): counter})


def test_a_counter_that_begins_anew_goes_on() -> None:
    assert moved([card(2**32 - 4, bits=32)], [card(6, bits=32)], "GPU-1", Direction.TX) == 10 * 1024


def test_a_card_without_counters_moved_nobody_knows_what() -> None:
    assert moved([card(1)], [card(2)], "GPU-1", Direction.RX) is None
    assert moved([card(1, uuid="GPU-2")], [card(2)], "GPU-1", Direction.TX) is None
    assert moved([card(1, link=1)], [card(2)], "GPU-1", Direction.TX) is None


def reading(*bytes_: int, at: int = 0) -> list[CardCounters]:
    """A card whose driver counts in as many forms as there are numbers."""
    forms = tuple({(Direction.TX, 0): ByteCounter(number, 2**64)} for number in bytes_)
    return [CardCounters(index=0, uuid="GPU-1", nvlink=forms[0], nvlink_forms=forms, nvlink_read_us=at)]


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_the_form_that_moved_wins_wherever_it_stood(one: int, other: int, risen: int, still: int) -> None:
    for before, after in (((one, other), (one + risen, other)), ((one, other), (one, other + risen))):
        assert moved(reading(*before), reading(*after), "GPU-1", Direction.TX) == risen
    assert moved(reading(still), reading(still), "GPU-1", Direction.TX) == 0


@pytest.mark.parametrize(
    ("before", "after", "rests"),
    [
        pytest.param(reading(5, at=100), reading(5, at=101), True, id="read anew twice, and equal"),
        pytest.param(reading(5, at=100), reading(6, at=101), False, id="it still rises"),
        pytest.param(reading(5, 0, at=100), reading(5, 1, at=101), False, id="the other form still rises"),
        pytest.param(reading(5, at=99), reading(5, at=101), False, id="the earlier one is from before the end"),
        pytest.param(reading(5, at=100), reading(5, at=100), False, id="one value, read once"),
        pytest.param(reading(5), reading(5), True, id="a driver without times"),
        pytest.param(reading(5), reading(6), False, id="a driver without times, and it rises"),
        pytest.param([], reading(6, at=101), True, id="no counters"),
    ],
)
def test_counters_rest_when_they_were_read_anew_after_the_work_and_are_equal(
    before: list[CardCounters], after: list[CardCounters], rests: bool
) -> None:
    assert are_at_rest(before, after, ["GPU-1"], 100) is rests


def test_several_samples_have_a_middle_and_one_has_no_spread() -> None:
    assert (middle([3.0, 1.0, 100.0]), spread([3.0, 1.0, 100.0])) == (3.0, 99.0)
    assert (middle([5.0]), spread([5.0])) == (5.0, None)
    assert (middle([]), spread([])) == (None, None)


def test_samples_that_differ_by_more_than_a_tenth_are_unsteady() -> None:
    assert is_unsteady([100.0, 111.0, 100.0])
    assert not is_unsteady([100.0, 110.0, 100.0])


@pytest.mark.parametrize(
    ("environment", "version", "may"),
    [
        ({}, "2.27.3", True),
        ({}, "2.18.3", True),
        ({}, "2.17.1", False),
        ({}, "", False),
        ({"NCCL_NVLS_ENABLE": "0"}, "2.27.3", False),
        ({"NCCL_NVLS_ENABLE": "2"}, "2.27.3", True),
        ({"NCCL_ALGO": "Ring"}, "2.27.3", False),
    ],
)
def test_nccl_may_use_nvls_unless_a_variable_or_its_age_forbids(
    environment: dict[str, str], version: str, may: bool
) -> None:
    assert may_use_nvls(environment, version) is may


@pytest.mark.parametrize(
    ("link", "size", "verdict"),
    [
        ("NVSwitch", 1024**3, "slower"),
        ("NVSwitch", 256 * 1024**2, "as-expected"),
        ("NVSwitch", 1024**2, "unknown"),
        ("NVLink-partial", 1024**3, "as-expected"),
        ("NVLink-partial", 1024**2, "as-expected"),
    ],
)
def test_the_share_that_an_all_reduce_must_reach_follows_from_its_links_and_its_size(
    link: str, size: int, verdict: str
) -> None:
    """240 GB/s of 370.8 with two cards."""
    found = CardSet(
        cards=["GPU-0", "GPU-1"], samples_gbps=[240.0], reduced_bytes=size, reductions=1, sent_bytes=[size, size]
    )
    assert judged_set(found, Expected(link, 370.8, True, 48.0)).verdict == verdict
