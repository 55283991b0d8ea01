"""The measured pairs of a report, in the form that a topology takes."""

from webhook.hardware.measurement.report import BandwidthReport, Pair, Verdict
from webhook.hardware.topology.measured_pairs import MeasuredPair, Measurements

_MOST = 1.5
"""The greatest ratio to the expected bandwidth. No link is faster, so a higher figure is no valid measurement."""


def measurements(report: BandwidthReport) -> Measurements:
    """Returns the pairs of a report whose verdict is proven. Pairs with the verdict ``unknown`` are left out."""
    pairs = {
        (pair.source, pair.target): MeasuredPair(
            word=pair.link,
            mbps=max(1, round(pair.measured_gbps * 1000)),
            is_slower=pair.verdict is not Verdict.AS_EXPECTED,
        )
        for pair in report.pairs
        if pair.link and pair.measured_gbps and _is_believed(pair)
    }
    return Measurements(at=report.time, driver=report.versions.driver or "", pairs=pairs)


def _is_believed(pair: Pair) -> bool:
    ratio = pair.ratio
    return pair.verdict is not Verdict.UNKNOWN and ratio is not None and 0 < ratio <= _MOST
