"""A bandwidth report as text: the matrix of measured rates, and a line for each result that is not as expected."""

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from webhook.hardware.measurement.report import (
    BandwidthReport,
    CardSet,
    Change,
    Comparison,
    Omission,
    Pair,
    Verdict,
    Warn,
)
from webhook.insight.drawings.tables import Column, matrix_table
from webhook.programs.verify.library import explained

_STYLES: Mapping[Verdict, str] = {
    Verdict.AS_EXPECTED: "green",
    Verdict.SLOWER: "yellow",
    Verdict.NOT_NVLINK: "red",
    Verdict.UNKNOWN: "magenta",
}
_MARKS: Mapping[Verdict, str] = {
    Verdict.AS_EXPECTED: "",
    Verdict.SLOWER: "-",
    Verdict.NOT_NVLINK: "!",
    Verdict.UNKNOWN: "?",
}
_NOT_MEASURED = "n/a"


def measured_matrix(report: BandwidthReport, width: int | None = None) -> Text:
    """Returns the matrix of rates in GB/s, from the card of each row to that of each column; marks show verdicts.

    Args:
        report: The report of one machine.
        width: Columns of the terminal; without a width the matrix is one part.
    """
    labels = labels_of(report)
    pairs = {(pair.source, pair.target): pair for pair in report.pairs}
    columns = [
        Column(Text(labels[target], style="bold"), [_cell(source, target, pairs) for source in labels])
        for target in labels
    ]
    return matrix_table([Text(label, style="bold") for label in labels.values()], columns, width)


def labels_of(report: BandwidthReport) -> dict[str, str]:
    """Returns the names of the measured cards, such as ``GPU0``, by UUID, in the order of their indices."""
    told = {uuid for pair in report.pairs for uuid in (pair.source, pair.target)}
    cards = sorted(report.cards, key=lambda card: card.index)
    return {card.uuid: f"GPU{card.index}" for card in cards if card.uuid in told}


def _cell(source: str, target: str, pairs: Mapping[tuple[str, str], Pair]) -> Text:
    if source == target:
        return Text("X")
    pair = pairs.get((source, target))
    if pair is None or pair.measured_gbps is None:
        return Text(_NOT_MEASURED)
    return Text(f"{pair.measured_gbps:.1f}{_MARKS[pair.verdict]}", style=_STYLES[pair.verdict])


def lines(report: BandwidthReport) -> Iterator[str]:
    """Yields lines for what the matrix does not show: sets, pairs that are not as expected, skipped measurements."""
    labels = {card.uuid: f"GPU{card.index}" for card in report.cards}
    yield from map(_set_line, report.sets)
    yield from (_pair_line(pair, labels) for pair in report.pairs if _is_worth_a_line(pair))
    yield from (_skipped_line(omission, labels) for omission in report.skipped)
    yield from (f"warning: {warning}" for warning in report.warnings)


def _is_worth_a_line(pair: Pair) -> bool:
    return pair.verdict is not Verdict.AS_EXPECTED or Warn.PEER_ACCESS_SLOWER in pair.warnings


def last_result(report: BandwidthReport) -> str:
    """Returns the line of the latest result of a report; empty if it has none."""
    labels = {card.uuid: f"GPU{card.index}" for card in report.cards}
    if report.sets:
        return _set_line(report.sets[-1])
    return _pair_line(report.pairs[-1], labels) if report.pairs else ""


def legend(report: BandwidthReport) -> str:
    """Returns the meanings of the marks that the matrix has."""
    there = {pair.verdict for pair in report.pairs}
    return ", ".join(f"{mark} {verdict}" for verdict, mark in _MARKS.items() if mark and verdict in there)


def comparison_lines(found: Comparison, report: BandwidthReport) -> Iterator[str]:
    """Yields lines about the measurements that became slower since an earlier report."""
    labels = {card.uuid: f"GPU{card.index}" for card in report.cards}
    yield f"compared with the earlier report: {found.compared} measurements, {len(found.slower)} became slower"
    yield from (_change_line(change, labels) for change in found.slower)
    if found.missing:
        yield f"{len(found.missing)} of the earlier report were not measured now"


def _change_line(change: Change, labels: Mapping[str, str]) -> str:
    return (
        f"{_names(change.cards, labels)}: {change.before_gbps:.1f} GB/s before, {change.now_gbps:.1f} now"
        f" ({change.now_gbps / change.before_gbps:.2f})"
    )


def _names(cards: Sequence[str], labels: Mapping[str, str]) -> str:
    names = [labels.get(card, card) for card in cards]
    return " to ".join(names) if len(names) == 2 else " ".join(names)


def _pair_line(pair: Pair, labels: Mapping[str, str]) -> str:
    return f"{_names((pair.source, pair.target), labels)}: {_judged(pair.verdict, pair.warnings)}; {_rates(pair)}"


def _rates(pair: Pair) -> str:
    expected = "nothing known" if pair.expected_gbps is None else f"{pair.expected_gbps:.1f} GB/s over {pair.link}"
    expected += f" through {pair.chipset}" if pair.chipset else ""
    told = [f"measured {_gbps(pair.measured_gbps)}", f"expected {expected}"]
    if pair.sent_bytes is not None:
        told.append(f"NVLink moved {pair.sent_bytes / 1e9:.2f} of {pair.copied_bytes / 1e9:.2f} GB")
    return ", ".join(told)


def _set_line(found: CardSet) -> str:
    expected = "nothing known" if found.expected_gbps is None else f"{found.expected_gbps:.1f}"
    return (
        f"all-reduce of {len(found.cards)} GPUs: busbw {_gbps(found.busbw_gbps)}, algbw {_gbps(found.algbw_gbps)},"
        f" expected busbw {expected}{' by NVLS' if found.nvls else ''}: {_judged(found.verdict, found.warnings)}"
    )


def _skipped_line(omission: Omission, labels: Mapping[str, str]) -> str:
    said = [explained(omission.function, omission.code or 0)] if omission.function else []
    said += [omission.problem] if omission.problem else []
    why = f" ({'; '.join(said)})" if said else ""
    return f"{_names(omission.cards, labels) or 'NCCL'}: skipped, {omission.reason}{why}"


def _judged(verdict: Verdict, warnings: Sequence[Warn]) -> str:
    return " ".join([verdict, *([f"({', '.join(warnings)})"] if warnings else [])])


def _gbps(value: float | None) -> str:
    return _NOT_MEASURED if value is None else f"{value:.1f} GB/s"
