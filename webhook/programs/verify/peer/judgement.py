"""The judgement of what two pods reached between their cards, by what the link between these should carry."""

from collections.abc import Sequence

import msgspec

from webhook.hardware.measurement.expectations import Expectations, Expected
from webhook.hardware.measurement.report import Verdict, Warn
from webhook.hardware.measurement.samples import is_unsteady, middle
from webhook.hardware.measurement.verdict import Evidence, judge
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.verify.peer.words import Conclusion, Outcome, PeerVerdict

_CONCLUSIONS = {
    Verdict.AS_EXPECTED: Conclusion.AS_EXPECTED,
    Verdict.SLOWER: Conclusion.SLOWER,
    Verdict.NOT_NVLINK: Conclusion.SLOWER,
    Verdict.UNKNOWN: Conclusion.UNKNOWN,
}


def judged(outcomes: Sequence[Outcome], offered: str, topology: NodeTopology | None) -> list[Outcome]:
    """Returns the outcomes with the expected rate and what follows from it.

    Args:
        outcomes: The outcomes of all trials.
        offered: The UUID of the offered card.
        topology: The machine as this side sees it; None if it is not known.
    """
    expectations = Expectations(topology) if topology else None
    return [_judged(outcome, offered, expectations) for outcome in outcomes]


def conclusion(outcomes: Sequence[Outcome]) -> Conclusion:
    """Returns what follows from judged outcomes: wrong data if there are any, otherwise the best rate decides."""
    if any(outcome.verdict is PeerVerdict.WRONG_DATA for outcome in outcomes):
        return Conclusion.WRONG_DATA
    best = best_of(outcomes)
    if best is None:
        return Conclusion.NO_WAY
    return _CONCLUSIONS[best.speed] if best.speed else Conclusion.UNKNOWN


def best_of(outcomes: Sequence[Outcome]) -> Outcome | None:
    """Returns the outcome with the greatest rate among those that work; None if none works."""
    working = [outcome for outcome in outcomes if outcome.verdict is PeerVerdict.WORKS]
    return max(working, key=lambda outcome: outcome.measured_gbps or 0.0, default=None)


def _judged(outcome: Outcome, offered: str, expectations: Expectations | None) -> Outcome:
    if outcome.verdict is not PeerVerdict.WORKS:
        return outcome
    measured, expected = middle(outcome.gbps), _expected(offered, outcome.taker_card, expectations)
    # Neither side may see both cards, so no counters are read, and only the rate can prove NVLink.
    speed, warnings = judge(Evidence(gbps=measured, due_bytes=0, moved=(), peer_access=True), expected)
    told = [warning for warning in warnings if warning is not Warn.NO_COUNTERS]
    return msgspec.structs.replace(
        outcome,
        measured_gbps=measured,
        link=expected.link if expected else None,
        expected_gbps=expected.gbps if expected else None,
        ratio=measured / expected.gbps if expected and measured is not None else None,
        speed=speed,
        warnings=[*told, *([Warn.UNSTEADY] if is_unsteady(outcome.gbps) else [])],
    )


def _expected(offered: str, taker: str | None, expectations: Expectations | None) -> Expected | None:
    """Returns what to expect between two cards; None for one card, within which no link is used."""
    if expectations is None or taker is None or taker == offered:
        return None
    return expectations.pair(offered, taker)
