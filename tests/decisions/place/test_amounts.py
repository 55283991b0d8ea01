"""Amounts of resources, as kube-scheduler reckons them."""

import pytest

from webhook.objects.amounts import MOST_RESOURCES, greatest, read_amounts, total
from webhook.objects.pod import Quantity


@pytest.mark.parametrize(
    ("quantities", "amounts"),
    [
        (None, {}),
        ({}, {}),
        ({"cpu": "1"}, {"cpu": 1000}),
        ({"cpu": "250m"}, {"cpu": 250}),
        ({"cpu": 2}, {"cpu": 2000}),
        ({"cpu": 0.5}, {"cpu": 500}),
        # k8s.io/apimachinery resource.Quantity.MilliValue and Value round up.
        ({"cpu": "0.0001"}, {"cpu": 1}),
        ({"memory": "100m"}, {"memory": 1}),
        ({"memory": "1.5Gi"}, {"memory": 3 * 2**29}),
        ({"memory": "1k", "nvidia.com/gpu": "1e1"}, {"memory": 1000, "nvidia.com/gpu": 10}),
        ({"cpu": "many", "memory": "", "pods": "110"}, {"pods": 110}),
    ],
)
def test_quantities(quantities: dict[str, Quantity] | None, amounts: dict[str, int]) -> None:
    assert read_amounts(quantities) == amounts


def test_resources_without_end_are_not_looked_at() -> None:
    assert len(read_amounts({f"example.com/{number}": 1 for number in range(1000)})) == MOST_RESOURCES


def test_together_and_the_greatest() -> None:
    parts: tuple[dict[str, int], ...] = ({"cpu": 1, "memory": 5}, {"cpu": 2}, {})
    assert total(parts) == {"cpu": 3, "memory": 5}
    assert greatest(parts) == {"cpu": 2, "memory": 5}
    assert (total(()), greatest(())) == ({}, {})
