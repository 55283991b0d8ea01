"""What a run says of a pod, as one line that is believed only if nothing in it contradicts itself."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cuda.machines import Way
from tests.cuda.stub import PlayBench
from tests.nvml import machines
from tests.programs.verify.test_run import BenchOf, h100, measured
from webhook.hardware.measurement.report import MAX_CARDS, Verdict
from webhook.hardware.measurement.summary import (
    MOST_CHARACTERS,
    AllReduce,
    SlowestPair,
    Summary,
    format_summary,
    parse_summary,
    summary,
)
from webhook.words.errors import FormatError

AT = "2026-11-23T04:00:00Z"
GOOD: dict[str, Any] = {
    "at": AT,
    "cards": ["GPU-a", "GPU-b", "GPU-c"],
    "verdict": "slower",
    "pairs": 6,
    "notAsExpected": 1,
    "slowest": {"source": "GPU-a", "target": "GPU-b", "measuredGBps": 90.5, "expectedGBps": 370.8},
    "allReduce": {"busbwGBps": 369.0, "expectedGBps": 370.8, "verdict": "as-expected"},
}

amounts = st.integers(0, 10_000_000).map(lambda tenths: tenths / 10)


@st.composite
def summaries(draw: st.DrawFn) -> Summary:
    cards = [f"GPU-{number}" for number in range(draw(st.integers(2, MAX_CARDS)))]
    pairs = draw(st.integers(1, len(cards) * (len(cards) - 1)))
    worse = draw(st.integers(0, pairs))
    together = draw(
        st.none()
        | st.builds(AllReduce, busbw_gbps=amounts, expected_gbps=st.none() | amounts, verdict=st.sampled_from(Verdict))
    )
    is_fine = not worse and (together is None or together.verdict is Verdict.AS_EXPECTED)
    others = [verdict for verdict in Verdict if verdict is not Verdict.AS_EXPECTED]
    slowest = SlowestPair(
        source=cards[0], target=cards[-1], measured_gbps=draw(amounts), expected_gbps=draw(st.none() | amounts)
    )
    return Summary(
        at=AT,
        cards=cards,
        verdict=Verdict.AS_EXPECTED if is_fine else draw(st.sampled_from(others)),
        pairs=pairs,
        worse=worse,
        slowest=draw(st.sampled_from([None, slowest])),
        all_reduce=together,
        nccl=draw(st.none() | st.just("2.32.3")),
    )


@given(summaries())
def test_what_is_written_is_read_back_and_is_short(found: Summary) -> None:
    text = format_summary(found)
    assert parse_summary(text, "here") == found
    assert len(text) <= MOST_CHARACTERS
    assert "\n" not in text


@given(st.text() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r"^here: expected"):
        parse_summary(text, "here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"at": "yesterday"}, "at: a time of RFC 3339"),
        ({"cards": ["GPU-a", "GPU-b", "GPU-b"]}, "each card once"),
        ({"cards": ["GPU-a", "GPU-b", "GPU-\x1b[2J"]}, "UUIDs"),
        ({"cards": ["GPU-a"]}, "a summary of gpu-topology verify"),
        ({"cards": [f"GPU-{number}" for number in range(65)]}, "a summary of gpu-topology verify"),
        ({"pairs": 7}, "at most 6 pairs"),
        ({"notAsExpected": 7}, "at most 6 pairs"),
        ({"notAsExpected": 0}, "the worst verdict"),
        ({"verdict": "as-expected"}, "the worst verdict"),
        ({"verdict": "perfect"}, "a summary of gpu-topology verify"),
        ({"slowest": GOOD["slowest"] | {"target": "GPU-z"}}, "slowest: two of the cards"),
        ({"slowest": GOOD["slowest"] | {"target": "GPU-a"}}, "slowest: two of the cards"),
        ({"slowest": GOOD["slowest"] | {"measuredGBps": -1}}, "a summary of gpu-topology verify"),
        ({"slowest": GOOD["slowest"] | {"measuredGBps": 1e300}}, "a summary of gpu-topology verify"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    assert parse_summary(json.dumps(GOOD), "here").worse == 1
    with pytest.raises(FormatError, match=f"^here: expected {message}"):
        parse_summary(json.dumps(GOOD | changes), "here")


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(FormatError, match="expected at most 8192 characters"):
        parse_summary(json.dumps(GOOD) + " " * MOST_CHARACTERS, "here")


@pytest.mark.slow
def test_a_sound_machine_is_summed_up_as_expected(bench_of: BenchOf, play_bench: PlayBench) -> None:
    found = summary(measured(play_bench(h100(bench_of))))
    assert found is not None
    assert (found.verdict, found.pairs, found.worse, len(found.cards)) == (Verdict.AS_EXPECTED, 2, 0, 2)
    assert found.all_reduce is not None
    assert found.all_reduce.verdict is Verdict.AS_EXPECTED


@pytest.mark.slow
def test_the_worst_verdict_and_the_slowest_pair_are_told(bench_of: BenchOf, play_bench: PlayBench) -> None:
    root = play_bench(h100(bench_of).with_way(0, 1, Way(gbps=48.0)))
    report = measured(root, all_reduce=False)
    found = summary(report)
    assert found is not None
    assert (found.verdict, found.pairs, found.worse, found.all_reduce) == (Verdict.NOT_NVLINK, 2, 1, None)
    assert found.slowest is not None
    assert (found.slowest.source, found.slowest.target) == (report.pairs[0].source, report.pairs[0].target)
    assert found.slowest.measured_gbps == pytest.approx(48.0, rel=0.01)
    assert found.slowest.expected_gbps == 370.8


@pytest.mark.slow
def test_of_a_whole_machine_only_the_ways_between_the_pods_own_cards_are_told(
    bench_of: BenchOf, play_bench: PlayBench
) -> None:
    report = measured(play_bench(bench_of(machines.hgx_h100()).with_way(0, 1, Way(gbps=48.0))))
    uuids = [card.uuid for card in report.cards]
    found = summary(report, uuids[2:5])
    assert found is not None
    assert (found.cards, found.pairs, found.verdict) == (sorted(uuids[2:5]), 6, Verdict.AS_EXPECTED)
    assert found.all_reduce is None  # that was of all eight
    assert summary(report, uuids[:1]) is None
    assert summary(report, ["GPU-of-another-node", "GPU-of-a-third"]) is None
