"""The comparison of two reports of the same cards: pairs and sets that became slower."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webhook.hardware.measurement.report import BandwidthReport, CardSet, Pair, Verdict

_LEAST = 0.02
"""Share of the earlier rate up to which a loss is ignored, however steady the samples are."""


@dataclass(frozen=True, slots=True)
class Change:
    """A pair or a set that became slower."""

    cards: tuple[str, ...]
    """UUIDs of the cards; of a pair its source and its target."""
    before_gbps: float
    now_gbps: float
    verdict_before: Verdict
    verdict_now: Verdict

    @property
    def ratio(self) -> float:
        """The ratio of the present rate to the earlier one."""
        return self.now_gbps / self.before_gbps


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of the comparison of two reports."""

    compared: int
    """Number of pairs and sets that are in both reports."""
    missing: tuple[tuple[str, ...], ...]
    """Pairs and sets that are only in the earlier report."""
    slower: tuple[Change, ...]


def compare(before: BandwidthReport, now: BandwidthReport) -> Comparison:
    """Compares two reports. A loss counts if it is greater than the spread of the samples of either run."""
    earlier, later = _rates(before), _rates(now)
    both = [cards for cards in earlier if cards in later]
    slower = tuple(_slower(cards, earlier[cards], later[cards]) for cards in both)
    return Comparison(
        compared=len(both),
        missing=tuple(cards for cards in earlier if cards not in later),
        slower=tuple(change for change in slower if change),
    )


@dataclass(frozen=True, slots=True)
class _Rate:
    gbps: float
    spread: float
    verdict: Verdict


def _rates(report: BandwidthReport) -> dict[tuple[str, ...], _Rate]:
    return dict(_each(report.pairs, report.sets))


def _each(pairs: Sequence[Pair], sets: Sequence[CardSet]) -> Iterator[tuple[tuple[str, ...], _Rate]]:
    for pair in pairs:
        if pair.measured_gbps:
            yield (pair.source, pair.target), _Rate(pair.measured_gbps, pair.spread_gbps or 0.0, pair.verdict)
    for found in sets:
        if found.busbw_gbps:
            cards = ("all-reduce", *sorted(found.cards))
            yield cards, _Rate(found.busbw_gbps, found.spread_gbps or 0.0, found.verdict)


def _slower(cards: tuple[str, ...], before: _Rate, now: _Rate) -> Change | None:
    noise = max(before.spread, now.spread, _LEAST * before.gbps)
    if now.gbps >= before.gbps - noise:
        return None
    return Change(cards, before.gbps, now.gbps, before.verdict, now.verdict)
