"""The amounts of the resources of a node that a pod takes, as kube-scheduler counts them."""

from collections.abc import Iterable, Mapping
from math import ceil

from webhook.objects.pod import Quantity
from webhook.words.errors import FormatError
from webhook.words.quantity import parse_quantity

CPU, PODS = "cpu", "pods"
MOST_RESOURCES = 64
"""The most resources of one pod or node that are looked at."""

Amounts = Mapping[str, int]
"""The amount of each resource, by its name: thousandths of a CPU, else units, such as bytes of memory."""


def read_amounts(quantities: Mapping[str, Quantity] | None) -> dict[str, int]:
    """Returns the amounts of a list of resources, without invalid quantities, which the API server never accepts."""
    found: dict[str, int] = {}
    for name, quantity in (quantities or {}).items():
        if len(found) == MOST_RESOURCES:
            break
        try:
            number = parse_quantity(quantity, source=name)
        except FormatError:
            continue
        found[name] = ceil(number * 1000 if name == CPU else number)
    return found


def total(parts: Iterable[Amounts]) -> dict[str, int]:
    """Returns the sum of several amounts."""
    found: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, 0) + amount
    return found


def greatest(parts: Iterable[Amounts]) -> dict[str, int]:
    """Returns the greatest amount of each resource."""
    found: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = max(found.get(name, 0), amount)
    return found
