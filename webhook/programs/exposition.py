"""The metrics of a program in the formats of Prometheus: families from plain numbers, and the answer to a scrape."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

PREFIX = "gpu_topology_"

Values = Mapping[tuple[str, ...], float]
"""The numbers of a metric, by the values of its labels in the order of the labels' names."""


def counter(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    """Return a metric that only grows. Prometheus sees ``_total`` after its name."""
    return _filled(CounterMetricFamily(PREFIX + name, text, labels=labels), values)


def gauge(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    """Return a metric that goes up and down."""
    return _filled(GaugeMetricFamily(PREFIX + name, text, labels=labels), values)


def info(name: str, text: str, **labels: str) -> Metric:
    """Return a gauge with the value 1, whose labels are the information."""
    return gauge(f"{name}_info", text, tuple(labels), {tuple(labels.values()): 1})


def histogram(name: str, text: str, bounds: Iterable[float], buckets: Sequence[int], total: float) -> Metric:
    """Return a metric of the distribution of values.

    Args:
        name: The name without :data:`PREFIX`.
        text: The help text.
        bounds: The upper bounds of the buckets, except of the last, which has none.
        buckets: The number of values in each bucket, without those in the buckets before it.
        total: The sum of all values.
    """
    family = HistogramMetricFamily(PREFIX + name, text, labels=())
    pairs = zip([*map(str, bounds), "+Inf"], map(float, accumulate(buckets)), strict=True)
    family.add_metric((), list(pairs), total)
    return family


def one_of(words: Iterable[str], word: str) -> dict[tuple[str, ...], float]:
    """Return the values of a gauge with one label: 1 for ``word``, and 0 for the others of ``words``."""
    return {(str(each),): float(each == word) for each in words}


class Spread:
    """The counts of a histogram, to which values are added one by one.

    Args:
        bounds: The upper bounds of the buckets, except of the last, which has none.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        """The number of values up to each bound but above the one before; last, the number above all bounds."""
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.total += value

    def metric(self, name: str, text: str) -> Metric:
        """Return the values as a metric; see :func:`histogram`."""
        return histogram(name, text, self.bounds, tuple(self.buckets), self.total)


class Exposition:
    """The answers to scrapes, from the families that ``collect`` makes at that moment."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Families(collect))

    def answer(self, accept: str) -> tuple[str, bytes]:
        """Return content type and body, in the format that the header ``Accept`` asks for."""
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
