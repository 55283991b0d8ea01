"""The matrix of measured rates as a picture: one cell for each pair, the redder the farther below the expected rate."""

from collections.abc import Iterator, Mapping

from webhook.hardware.measurement.report import BandwidthReport, Pair, Verdict
from webhook.insight.drawings.bandwidth import labels_of
from webhook.insight.drawings.elements import Box, element, fit, text, tooltip
from webhook.insight.drawings.palette import SANS
from webhook.insight.drawings.sheet import sheet

_CELL_WIDTH, _CELL_HEIGHT, _LABEL, _MARGIN, _HEAD, _FOOT = 66.0, 34.0, 64.0, 24.0, 92.0, 52.0
_LEAST_WIDTH = 540.0
_SHADES = ((1.0, "#2da44e"), (0.9, "#6fdd8b"), (0.6, "#fae17d"), (0.3, "#ffa657"), (0.0, "#ff8182"))
"""The colours of cells, each with the least share of the expected rate for which it is used."""
_NO_EXPECTATION, _ITSELF = "#eaeef2", "#f6f8fa"
_MARKS: Mapping[Verdict, str] = {Verdict.SLOWER: "slower", Verdict.NOT_NVLINK: "no NVLink", Verdict.UNKNOWN: "unknown"}
_STYLE = f"""
.bandwidth text {{ font-family: {SANS}; font-size: 12px; fill: #1f2328; }}
.bandwidth .title {{ font-size: 20px; font-weight: 600; }}
.bandwidth .subtitle {{ font-size: 12px; fill: #59636e; }}
.bandwidth .label {{ font-weight: 600; text-anchor: middle; }}
.bandwidth .rate {{ text-anchor: middle; }}
.bandwidth .mark {{ font-size: 9px; text-anchor: middle; fill: #82071e; }}
.bandwidth .paper {{ fill: #ffffff; stroke: #d0d7de; }}
"""


def heat_matrix(report: BandwidthReport) -> str:
    """Returns the picture as an SVG document, in ASCII. Copies go from the GPU of a row to that of a column."""
    labels = labels_of(report)
    side = len(labels)
    width = max(2 * _MARGIN + _LABEL + side * _CELL_WIDTH, _LEAST_WIDTH)
    height = _HEAD + (side + 1) * _CELL_HEIGHT + _FOOT
    summary = _summary(report)
    parts = [
        text(fit(report.node, width - 2 * _MARGIN, 20), _MARGIN, 36, "title"),
        text(fit(summary, width - 2 * _MARGIN, 12), _MARGIN, 58, "subtitle"),
        text("GB/s from the GPU of the row to that of the column", _MARGIN, 76, "subtitle"),
        *_headings(labels),
        *_cells(report, labels),
        *_key(height - _FOOT + 16),
    ]
    return sheet(
        "bandwidth",
        parts,
        title=f"Measured bandwidth of {report.node}",
        shows=summary,
        style=_STYLE,
        width=width,
        height=height,
    )


def _summary(report: BandwidthReport) -> str:
    verdicts = [pair.verdict for pair in report.pairs]
    told = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict if verdict in verdicts)
    sets = "".join(f"; all-reduce {found.busbw_gbps:.0f} GB/s" for found in report.sets if found.busbw_gbps is not None)
    return f"{report.time}: {told or 'nothing measured'}{sets}"


def _headings(labels: Mapping[str, str]) -> Iterator[str]:
    for place, label in enumerate(labels.values()):
        column, row = _box(0, place + 1), _box(place + 1, 0)
        yield text(label, column.center, column.level + 4, "label")
        yield text(label, row.x + _LABEL / 2, row.level + 4, "label")


def _box(row: int, column: int) -> Box:
    """Returns the box of a cell; row 0 and column 0 are the headings."""
    x = _MARGIN if column == 0 else _MARGIN + _LABEL + (column - 1) * _CELL_WIDTH
    return Box(x, _HEAD + row * _CELL_HEIGHT, _CELL_WIDTH - 2, _CELL_HEIGHT - 2)


def _cells(report: BandwidthReport, labels: Mapping[str, str]) -> Iterator[str]:
    pairs = {(pair.source, pair.target): pair for pair in report.pairs}
    for row, (source, of) in enumerate(labels.items(), 1):
        for column, (target, to) in enumerate(labels.items(), 1):
            pair = pairs.get((source, target))
            yield _cell(_box(row, column), pair, f"{of} to {to}", itself=row == column)


def _cell(box: Box, pair: Pair | None, names: str, *, itself: bool) -> str:
    if pair is None or pair.measured_gbps is None:
        return _rectangle(box, _ITSELF, "" if itself else tooltip(f"{names}: not measured"))
    mark = _MARKS.get(pair.verdict, "")
    rate = f"{pair.measured_gbps:.1f}"
    expected = "nothing known" if pair.expected_gbps is None else f"{pair.expected_gbps:.1f} GB/s"
    told = f"{names}: {rate} GB/s, expected {expected}, {pair.verdict}"
    shown = [text(rate, box.center, box.level + (0 if mark else 4), "rate")]
    shown += [text(mark, box.center, box.level + 11, "mark")] if mark else []
    return element("g", tooltip(told), _rectangle(box, _shade(pair)), *shown)


def _shade(pair: Pair) -> str:
    if pair.ratio is None:
        return _NO_EXPECTATION
    return next(shade for least, shade in _SHADES if round(pair.ratio, 2) >= least)


def _rectangle(box: Box, fill: str, *children: str) -> str:
    return element("rect", *children, x=box.x, y=box.y, width=box.width, height=box.height, rx=4.0, fill=fill)


def _key(y: float) -> Iterator[str]:
    for place, (least, shade) in enumerate(_SHADES):
        box = Box(_MARGIN + place * 96, y, 14, 14)
        yield _rectangle(box, shade)
        words = f"from {least:.0%}" if least else "below"
        yield text(words, box.right + 6, box.bottom - 2, "subtitle")
