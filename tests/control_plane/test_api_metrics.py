"""Quantiles of the API server's histograms, as PromQL computes them."""

from tests.control_plane.api_metrics import Histogram, histogram_of

LINES = [
    "# TYPE waited_seconds histogram",
    'waited_seconds_bucket{operation="CREATE",type="admit",le="0.005"} 60',
    'waited_seconds_bucket{operation="CREATE",type="admit",le="0.025"} 90',
    'waited_seconds_bucket{operation="CREATE",type="admit",le="+Inf"} 100',
    'waited_seconds_bucket{operation="UPDATE",type="admit",le="0.005"} 100',
    'waited_seconds_bucket{operation="UPDATE",type="admit",le="0.025"} 100',
    'waited_seconds_bucket{operation="UPDATE",type="admit",le="+Inf"} 100',
    "waited_seconds_count 200",
]


def test_histograms_of_one_name_are_added() -> None:
    seen = histogram_of(LINES, "waited_seconds")
    assert seen == Histogram({0.005: 160, 0.025: 190, float("inf"): 200})
    assert seen.count == 200


def test_a_quantile_lies_on_a_straight_line_through_its_bucket() -> None:
    seen = histogram_of(LINES, "waited_seconds")
    assert seen.quantile(0.4) == 0.0025
    assert seen.quantile(0.875) == 0.015
    assert seen.quantile(0.99) == 0.025  # all that is known of the last bucket is where it begins


def test_what_was_counted_before_does_not_count() -> None:
    seen = histogram_of(LINES, "waited_seconds").since(Histogram({0.005: 160, 0.025: 180, float("inf"): 180}))
    assert (seen.count, seen.cumulative[0.025]) == (20, 10)
    assert Histogram({}).since(Histogram({})).count == 0
