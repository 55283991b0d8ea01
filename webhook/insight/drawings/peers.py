"""A report of two pods as text: what each kind of handle came to, and the verdict."""

from collections.abc import Mapping, Sequence

from webhook.hardware.measurement.peers import Conclusion, Outcome, PeerReport, PeerVerdict, best_of
from webhook.insight.drawings.tables import columns

_HEADINGS = ("handle", "result", "GB/s", "of expected", "verdict")


def peer_text(report: PeerReport, labels: Mapping[str, str]) -> str:
    """Returns a report as text.

    Args:
        report: The report of one side, with judged outcomes.
        labels: The names of the cards that this side knows, such as ``GPU0``, by UUID.
    """
    table = columns(_HEADINGS, [_row(outcome) for outcome in report.outcomes]).plain
    return "\n\n".join((_ends(report, labels), table, _verdict(report)))


def _ends(report: PeerReport, labels: Mapping[str, str]) -> str:
    taker = next((outcome.taker_card for outcome in report.outcomes if outcome.taker_card), None)
    link = next((outcome.link for outcome in report.outcomes if outcome.link), "?")
    source = labels.get(report.card, report.card)
    target = labels.get(taker, taker) if taker else "no GPU"
    return f"Node {report.node}: {source} of the pod that listens =={link}==> {target} of its peer"


def _row(outcome: Outcome) -> Sequence[str]:
    why = f": {outcome.reason}" if outcome.reason else ""
    return (
        outcome.kind,
        f"{outcome.verdict}{why}",
        "" if outcome.measured_gbps is None else f"{outcome.measured_gbps:.1f}",
        "" if outcome.ratio is None else f"{outcome.ratio:.0%}",
        " ".join([outcome.speed, *([f"({', '.join(outcome.warnings)})"] if outcome.warnings else [])])
        if outcome.speed
        else "",
    )


def _verdict(report: PeerReport) -> str:
    best = best_of(report.outcomes)
    said = {
        Conclusion.AS_EXPECTED: _as_expected,
        Conclusion.SLOWER: _slower,
        Conclusion.UNKNOWN: _unknown,
    }
    if best and report.verdict in said:
        return f"Verdict: {report.verdict}. {said[report.verdict](best, report)}"
    if report.verdict is Conclusion.WRONG_DATA:
        return f"Verdict: {report.verdict}. The memory of the other pod held other data than that pod wrote."
    return f"Verdict: {report.verdict}. {_no_way(report.outcomes)}"


def _as_expected(best: Outcome, _: PeerReport) -> str:
    return f"The pods reach {_rate(best)}, {best.ratio:.0%} of what {best.link} should carry."


def _slower(best: Outcome, _: PeerReport) -> str:
    return (
        f"The pods reach {_rate(best)}, {best.ratio:.0%} of the {best.expected_gbps:.1f} GB/s that {best.link} should "
        "carry. Measure the same GPUs in one container with gpu-topology verify --gpus: if they are slow there too, "
        "the links are the cause and not the pods."
    )


def _unknown(best: Outcome, report: PeerReport) -> str:
    if best.taker_card == report.card:
        why = "Both used the same GPU, so no link was measured. Name another one with --gpus on one side."
    elif best.expected_gbps is None:
        why = "This side knows no rate to expect, because it does not see both GPUs or their link. The other side may."
    else:
        why = f"PCIe could be as fast, so nothing proves that {best.link} carried it."
    return f"The pods reach {_rate(best)}. {why}"


def _no_way(outcomes: Sequence[Outcome]) -> str:
    if any(outcome.verdict is PeerVerdict.REFUSED for outcome in outcomes):
        return "The driver refuses every kind of handle, so these pods have no way to each other's GPU memory."
    return "No kind of handle could be tried."


def _rate(best: Outcome) -> str:
    return f"{best.measured_gbps or 0.0:.1f} GB/s ({best.kind})"
