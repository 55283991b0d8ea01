"""What a report says of pairs, as part of a topology."""

from webhook.hardware.measurement.report import BandwidthReport, Pair, Verdict
from webhook.hardware.topology.measured_pairs import MeasuredPair, Measurements

_MOST = 1.5
"""Times what is expected: no link is faster, so such a figure is no measurement."""


def measurements(report: BandwidthReport) -> Measurements:
    """The pairs whose verdict is proven. What nothing proves changes no figure."""
    pairs = {
        (pair.source, pair.target): MeasuredPair(
            word=pair.link, mbps=max(1, round(pair.measured_gbps * 1000)), is_slower=_is_slower(pair)
        )
        for pair in report.pairs
        if pair.link and pair.measured_gbps and _is_believed(pair)
    }
    return Measurements(at=report.time, driver=report.versions.driver or "", pairs=pairs)


def _is_slower(pair: Pair) -> bool:
    return pair.verdict is not Verdict.AS_EXPECTED


def _is_believed(pair: Pair) -> bool:
    ratio = pair.ratio
    return pair.verdict is not Verdict.UNKNOWN and ratio is not None and 0 < ratio <= _MOST
