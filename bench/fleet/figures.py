"""What a run shows, as numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean, quantiles

from bench.fleet.cluster import Pod
from bench.fleet.simulation import Run

WARM_UP = 0.1
"""The first part of the jobs, which comes to an almost empty cluster and does not count."""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Seconds from the creation of a pod until it has its cards."""

    pods: int
    mean: float
    p95: float
    longest: float


@dataclass(frozen=True, kw_only=True)
class OfSlices:
    """The figures of pods with slices."""

    linked: float
    """Share of the pods with slices of several cards of which NVLink joins every two."""
    weakest: float
    """GB/s of the weakest pair of these cards, mean."""
    by_size: dict[int, Waits]
    """The waits of pods by their number of slices."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one or of several runs of a contender."""

    linked: float
    """Share of the pods of several whole cards of which NVLink joins every two."""
    weakest: float
    """GB/s of the weakest pair, mean over the pods of several whole cards."""
    share: float
    """The weakest pair, as a share of that of the best set of the machine, mean."""
    waits: Waits
    by_size: dict[int, Waits]
    """The waits of pods by their number of whole cards."""
    slices: OfSlices | None
    """None: there are no pods with slices."""
    pairs: float
    """Of the free cards the share that is in linked pairs."""
    quads: float
    never: int
    """Pods that never got cards."""
    cpu_ms: float
    """CPU of the contender for each pod."""


def figures_of(runs: Sequence[Run]) -> Figures:
    """Returns the figures of runs of one contender with different seeds."""
    pods = [pod for run in runs for pod in counted(run)]
    whole = [pod for pod in pods if pod.job.is_whole]
    several = _several(whole)
    samples = [sample for run in runs for sample in run.samples[int(len(run.samples) * WARM_UP) :]]
    free = sum(sample.free for sample in samples)
    ends = {id(pod): run.seconds for run in runs for pod in run.pods}
    return Figures(
        linked=_mean(pod.grade[0] for pod in several),
        weakest=_mean(pod.grade[1] for pod in several),
        share=_mean(pod.grade[1] / pod.best[1] for pod in several),
        waits=_waits(pods, ends),
        by_size=_by_size(whole, ends),
        slices=_of_slices([pod for pod in pods if not pod.job.is_whole], ends),
        pairs=2 * sum(sample.pairs for sample in samples) / free if free else nan,
        quads=4 * sum(sample.quads for sample in samples) / free if free else nan,
        never=sum(pod.running is None for pod in pods),
        cpu_ms=1e3 * sum(run.cpu for run in runs) / max(1, sum(len(run.pods) for run in runs)),
    )


def counted(run: Run) -> list[Pod]:
    """Returns the pods that count: those that came after the warm-up."""
    jobs = max((pod.job.number for pod in run.pods), default=0) + 1
    return [pod for pod in run.pods if pod.job.number >= jobs * WARM_UP]


def _of_slices(pods: Sequence[Pod], ends: dict[int, float]) -> OfSlices | None:
    if not pods:
        return None
    several = _several(pods)
    linked, weakest = _mean(pod.grade[0] for pod in several), _mean(pod.grade[1] for pod in several)
    return OfSlices(linked=linked, weakest=weakest, by_size=_by_size(pods, ends))


def _several(pods: Sequence[Pod]) -> list[Pod]:
    """Returns the pods that have several cards, or slices of several."""
    return [pod for pod in pods if pod.job.cards > 1 and pod.running is not None]


def _by_size(pods: Sequence[Pod], ends: dict[int, float]) -> dict[int, Waits]:
    sizes = sorted({pod.job.cards for pod in pods})
    return {size: _waits([pod for pod in pods if pod.job.cards == size], ends) for size in sizes}


def _waits(pods: Sequence[Pod], ends: dict[int, float]) -> Waits:
    """Returns the waits; a pod that never got cards has waited until the end of its run."""
    times = sorted((ends[id(pod)] if pod.running is None else pod.running) - pod.job.at for pod in pods)
    if not times:
        return Waits(pods=0, mean=nan, p95=nan, longest=nan)
    p95 = quantiles(times, n=20)[18] if len(times) > 1 else times[0]
    return Waits(pods=len(times), mean=fmean(times), p95=p95, longest=times[-1])


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return fmean(known) if known else nan
