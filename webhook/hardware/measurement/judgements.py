"""Judged measurements: results with expectations and verdicts, as parts of a report."""

from collections.abc import Sequence

from webhook.hardware.measurement.expectations import Expected
from webhook.hardware.measurement.messages import PairMeasured, Reduced, SetMeasured
from webhook.hardware.measurement.report import CardSet, Pair, ReducedSize, Warn
from webhook.hardware.measurement.samples import is_unsteady, middle, rates, spread
from webhook.hardware.measurement.verdict import CARRIED_OF_SET, MESH_SHARE, SWITCHED_SHARES, Evidence, judge
from webhook.hardware.topology.sets import LinkClass


def judged_pair(source: str, target: str, found: PairMeasured, expected: Expected | None) -> Pair:
    """Returns the measured pair with its verdict."""
    samples = found.gbps if found.peer_access else found.staged_gbps
    seen = Evidence(
        gbps=middle(samples),
        due_bytes=found.copied_bytes,
        moved=(found.sent_bytes, found.received_bytes),
        peer_access=found.peer_access,
        intact=found.intact,
        staged_gbps=middle(found.staged_gbps),
    )
    verdict, warnings = judge(seen, expected)
    return Pair(
        source=source,
        target=target,
        link=expected.link if expected else None,
        chipset=(expected.chipset or None) if expected else None,
        peer_access=found.peer_access,
        rank=found.rank,
        measured_gbps=seen.gbps,
        spread_gbps=spread(samples),
        samples_gbps=samples,
        staged_gbps=middle(found.staged_gbps),
        staged_samples_gbps=found.staged_gbps,
        latency_us=middle(found.latency_us),
        copied_bytes=found.copied_bytes,
        sent_bytes=found.sent_bytes,
        received_bytes=found.received_bytes,
        expected_gbps=expected.gbps if expected else None,
        pcie_gbps=expected.pcie_gbps if expected else None,
        ratio=_ratio(seen.gbps, expected),
        verdict=verdict,
        warnings=_with_unsteady(samples, warnings),
    )


def judged_set(cards: Sequence[str], found: SetMeasured, expected: Expected | None) -> CardSet:
    """Returns the measured all-reduce with its verdict."""
    factor, share = ring_factor(len(cards)), _share(expected, found.reduced_bytes)
    algbw = rates(found.reduced_bytes, found.milliseconds)
    busbw = [rate * factor for rate in algbw]
    seen = Evidence(
        gbps=middle(busbw),
        due_bytes=found.reduced_bytes * found.reductions * factor,
        moved=found.sent_bytes,
        peer_access=True,  # NCCL decides for itself
        carried=CARRIED_OF_SET,
        share=share or 0.0,
    )
    verdict, warnings = judge(seen, expected if share else None)
    return CardSet(
        cards=list(cards),
        link=expected.link if expected else None,
        algbw_gbps=middle(algbw),
        busbw_gbps=seen.gbps,
        spread_gbps=spread(busbw),
        samples_gbps=busbw,
        reduced_bytes=found.reduced_bytes,
        reductions=found.reductions,
        sent_bytes=found.sent_bytes,
        expected_gbps=expected.gbps if expected else None,
        pcie_gbps=expected.pcie_gbps if expected else None,
        ratio=_ratio(seen.gbps, expected),
        nvls=bool(expected and expected.ring_gbps),
        latency_us=middle(found.latency_us),
        smaller=[_smaller(size, factor) for size in found.smaller],
        verdict=verdict,
        warnings=_with_unsteady(busbw, warnings),
    )


def _share(expected: Expected | None, size: int) -> float | None:
    """Returns the share of the expected bandwidth that an all-reduce of a size must reach; None if none is known."""
    if expected is None or expected.link != LinkClass.NVSWITCH:
        return MESH_SHARE
    return next((share for least, share in SWITCHED_SHARES if size >= least), None)


def _smaller(found: Reduced, factor: float) -> ReducedSize:
    rate = middle(rates(found.bytes, found.milliseconds))
    return ReducedSize(reduced_bytes=found.bytes, busbw_gbps=None if rate is None else rate * factor)


def ring_factor(count: int) -> float:
    """Returns the bytes that each of ``count`` cards sends per reduced byte: 2(n-1)/n, as in nccl-tests."""
    return 2 * (count - 1) / count


def _ratio(gbps: float | None, expected: Expected | None) -> float | None:
    return gbps / expected.gbps if gbps is not None and expected and expected.gbps else None


def _with_unsteady(samples: Sequence[float], warnings: Sequence[Warn]) -> list[Warn]:
    return [*warnings, *([Warn.UNSTEADY] if is_unsteady(samples) else [])]
