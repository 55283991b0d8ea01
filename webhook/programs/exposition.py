"""Metrics as Prometheus gets them: families from plain numbers, and the answer to a scrape."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

PREFIX = "gpu_topology_"

Values = Mapping[tuple[str, ...], float]
"""Numbers by the values of the labels, in the order of their names."""


def counter(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    """Something that only grows; Prometheus sees ``_total`` after the name."""
    return _filled(CounterMetricFamily(PREFIX + name, text, labels=labels), values)


def gauge(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    """Something that goes up and down."""
    return _filled(GaugeMetricFamily(PREFIX + name, text, labels=labels), values)


def info(name: str, text: str, **labels: str) -> Metric:
    """A gauge that is 1: what it has to say stands in its labels."""
    return gauge(f"{name}_info", text, tuple(labels), {tuple(labels.values()): 1})


def histogram(name: str, text: str, bounds: Iterable[float], buckets: Sequence[int], total: float) -> Metric:
    """How values are spread.

    Args:
        name: Without the prefix.
        text: For people.
        bounds: Upper bounds of the buckets but the last.
        buckets: How many values fell into each bucket and into none before it; the last one has no bound.
        total: The sum of all values.
    """
    family = HistogramMetricFamily(PREFIX + name, text, labels=())
    pairs = zip([*map(str, bounds), "+Inf"], map(float, accumulate(buckets)), strict=True)
    family.add_metric((), list(pairs), total)
    return family


def one_of(words: Iterable[str], word: str) -> dict[tuple[str, ...], float]:
    """1 for ``word``, 0 for the others."""
    return {(str(each),): float(each == word) for each in words}


class Spread:
    """Values for a histogram, counted where they fall.

    Args:
        bounds: Upper bounds of the buckets but the last, which has none.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        """How many were at most each bound, but above the one before; the last: above all."""
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.total += value

    def metric(self, name: str, text: str) -> Metric:
        """The histogram, as :func:`histogram` makes it."""
        return histogram(name, text, self.bounds, tuple(self.buckets), self.total)


class Exposition:
    """Answers scrapes with the families that ``collect`` makes at that moment."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Families(collect))

    def answer(self, accept: str) -> tuple[str, bytes]:
        """Content type and body, in the format that the header ``Accept`` asks for."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self._registry)


class _Families(Collector):
    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        return self._collect()


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: Values) -> Metric:
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family
