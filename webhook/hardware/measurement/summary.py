"""What is published of a report: a summary for the GPUs of one pod, and the measured pairs of a topology.

The summary is an annotation of the pod: compact JSON of limited length. Everyone who may change a pod can write any
text there. So a text is accepted only if it does not contradict itself, and only for the pod itself.
"""

from collections.abc import Collection, Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from webhook.hardware.measurement.report import (
    MAX_CARDS,
    Amount,
    BandwidthReport,
    Cards,
    CardSet,
    Pair,
    Text,
    Uuid,
    Verdict,
    member_name,
)
from webhook.hardware.topology.measured_pairs import MeasuredPair, Measurements
from webhook.words.errors import FormatError
from webhook.words.nesting import decode
from webhook.words.shape import shape_problem
from webhook.words.timestamp import parse_timestamp

MOST_CHARACTERS = 8 * 1024
"""The most characters of a summary. A summary of 64 cards has 3 KiB."""
_WORST_FIRST = (Verdict.NOT_NVLINK, Verdict.SLOWER, Verdict.UNKNOWN, Verdict.AS_EXPECTED)
_MOST_PAIRS = MAX_CARDS * (MAX_CARDS - 1)
_MOST_RATIO = 1.5
"""The greatest ratio to the expected bandwidth. No link is faster, so a higher figure is no valid measurement."""


class SlowestPair(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=member_name):
    """The pair with the lowest share of its expected bandwidth, in GB/s per direction."""

    source: Uuid
    target: Uuid
    measured_gbps: Amount
    expected_gbps: Amount | None = None


class AllReduce(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=member_name):
    """The all-reduce of all cards together, in GB/s."""

    busbw_gbps: Amount
    expected_gbps: Amount | None = None
    verdict: Verdict


class Summary(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"all_reduce": "allReduce", "worse": "notAsExpected"},
):
    """The measurement between the cards of a pod."""

    at: Text
    """RFC 3339."""
    cards: Cards
    verdict: Verdict
    """The worst verdict of all pairs and of the all-reduce."""
    pairs: Annotated[int, Meta(ge=1, le=_MOST_PAIRS)]
    """Number of measured pairs, each in one direction."""
    worse: Annotated[int, Meta(ge=0, le=_MOST_PAIRS)] = 0
    """Number of pairs with another verdict than ``as-expected``."""
    slowest: SlowestPair | None = None
    all_reduce: AllReduce | None = None
    nccl: Text | None = None
    """The version of the NCCL that could be loaded where ``gpu-topology verify`` ran; ``None`` if there was none."""


_DECODER = msgspec.json.Decoder(Summary)


def summary(report: BandwidthReport, own: Collection[str] | None = None) -> Summary | None:
    """Returns the summary of a report for some cards; ``None`` if no pair of them was measured.

    Args:
        report: The report of a machine.
        own: UUIDs of the cards; all if ``None``.
    """
    pairs = [pair for pair in report.pairs if own is None or {pair.source, pair.target} <= set(own)]
    if not pairs:
        return None
    cards = sorted({card for pair in pairs for card in (pair.source, pair.target)})
    together = next((found for found in report.sets if sorted(found.cards) == cards), None)
    all_reduce = _all_reduce(together)
    verdicts = {*(pair.verdict for pair in pairs), *([all_reduce.verdict] if all_reduce else [])}
    return Summary(
        at=report.time,
        cards=cards,
        verdict=next(verdict for verdict in _WORST_FIRST if verdict in verdicts),
        pairs=len(pairs),
        worse=sum(pair.verdict is not Verdict.AS_EXPECTED for pair in pairs),
        slowest=_slowest(pairs),
        all_reduce=all_reduce,
        nccl=report.versions.nccl,
    )


def format_summary(found: Summary) -> str:
    """Writes the summary as one line, which ``parse_summary`` reads."""
    return msgspec.json.encode(found).decode()


def parse_summary(text: str, source: str) -> Summary:
    """Reads a written summary.

    Args:
        text: The value of the annotation.
        source: Its place, for errors.

    Raises:
        FormatError: the text is no summary, is too long, or contradicts itself.
    """
    if len(text) > MOST_CHARACTERS:
        raise FormatError(source, expected=f"at most {MOST_CHARACTERS} characters", found=f"{len(text)}")
    try:
        found = decode(_DECODER, text)
    except msgspec.DecodeError as error:
        raise FormatError(source, expected="a summary of gpu-topology verify", found=shape_problem(error)) from None
    for holds, expected, told in _laws(found):
        if not holds:
            raise FormatError(source, expected=expected, found=told)
    return found


def _laws(found: Summary) -> Iterable[tuple[bool, str, object]]:
    cards, slowest = set(found.cards), found.slowest
    yield parse_timestamp(found.at) is not None, "at: a time of RFC 3339", found.at
    yield all(card.isprintable() for card in cards), "UUIDs", "something else"
    yield len(cards) == len(found.cards), "each card once", "one twice"
    most = len(cards) * (len(cards) - 1)
    yield found.worse <= found.pairs <= most, f"at most {most} pairs", f"{found.worse} of {found.pairs}"
    is_fine = not found.worse and (found.all_reduce is None or found.all_reduce.verdict is Verdict.AS_EXPECTED)
    yield (found.verdict is Verdict.AS_EXPECTED) == is_fine, "the worst verdict", found.verdict
    if slowest:
        ends = {slowest.source, slowest.target}
        yield len(ends) == 2 and ends <= cards, "slowest: two of the cards", "others"


def _all_reduce(found: CardSet | None) -> AllReduce | None:
    if found is None or found.busbw_gbps is None:
        return None
    return AllReduce(
        busbw_gbps=round(found.busbw_gbps, 1), expected_gbps=_rounded(found.expected_gbps), verdict=found.verdict
    )


def _slowest(pairs: Iterable[Pair]) -> SlowestPair | None:
    measured = [(pair.ratio if pair.ratio is not None else 1.0, pair) for pair in pairs if pair.measured_gbps]
    if not measured:
        return None
    _, pair = min(measured, key=lambda entry: entry[0])
    return SlowestPair(
        source=pair.source,
        target=pair.target,
        measured_gbps=round(pair.measured_gbps or 0.0, 1),
        expected_gbps=_rounded(pair.expected_gbps),
    )


def _rounded(gbps: float | None) -> float | None:
    return None if gbps is None else round(gbps, 1)


def measurements(report: BandwidthReport) -> Measurements:
    """Returns the pairs of a report whose verdict is proven. Pairs with the verdict ``unknown`` are left out."""
    pairs = {
        (pair.source, pair.target): MeasuredPair(
            word=pair.link,
            mbps=max(1, round(pair.measured_gbps * 1000)),
            is_slower=pair.verdict is not Verdict.AS_EXPECTED,
        )
        for pair in report.pairs
        if pair.link
        and pair.measured_gbps
        and pair.verdict is not Verdict.UNKNOWN
        and 0 < (pair.ratio or 0) <= _MOST_RATIO
    }
    return Measurements(at=report.time, driver=report.versions.driver or "", pairs=pairs)
