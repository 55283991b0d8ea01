"""Evictions, and the PodDisruptionBudgets that limit them."""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from webhook.cluster import kinds
from webhook.cluster.api.verbs import MOST_PER_PAGE, Api, Paging
from webhook.cluster.kinds import DISRUPTION_BUDGET, POD
from webhook.objects.disruption_budget import DisruptionBudget, read_disruption_budget
from webhook.words.nesting import decode_answer

MOST_OF_ONE, MOST_BUDGETS = 100, 1000
"""The most budgets of one namespace, and of all, whose pods are listed, with one request each."""


class _Metadata(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Metadata


_NAMED = msgspec.json.Decoder(_Named)


class Listed(NamedTuple):
    """The budgets of some namespaces."""

    found: list[tuple[DisruptionBudget, list[str]]]
    """The budgets, each with the names of the pods that it selects."""
    unknown: frozenset[str]
    """The namespaces with too many budgets to list the pods of each."""


async def list_budgets(api: Api, namespaces: Collection[str]) -> Listed:
    """Return the budgets of some namespaces. The API server applies the selectors.

    No namespace hides the budgets of another one: those of the namespaces with the fewest are listed first.

    Args:
        api: The API server.
        namespaces: The namespaces.

    Raises:
        ApiError: a request fails.
        msgspec.DecodeError: an answer is no budget or pod.
    """
    own: dict[str, list[DisruptionBudget]] = {}
    unknown = set[str]()
    async for item in _items(api, DISRUPTION_BUDGET.having()):
        budget = read_disruption_budget(item)
        of_one = own.setdefault(budget.metadata.namespace, [])
        if budget.metadata.namespace in namespaces and len(of_one) <= MOST_OF_ONE:
            of_one.append(budget)
    found: list[tuple[DisruptionBudget, list[str]]] = []
    for namespace, budgets in sorted(own.items(), key=lambda entry: (len(entry[1]), entry[0])):
        if len(budgets) > MOST_OF_ONE or len(found) + len(budgets) > MOST_BUDGETS:
            unknown.add(namespace)
        else:
            found += [(budget, await _selected(api, budget)) for budget in budgets]
    return Listed(found, frozenset(unknown))


async def evict(api: Api, namespace: str, name: str, uid: str) -> None:
    """Evict a pod, if it is still the same one. The API server refuses what a PodDisruptionBudget does not allow.

    Raises:
        ApiError: the request failed or was refused.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    await api.ask(f"evict pod {namespace}/{name}", "POST", POD.path(namespace, name, "eviction"), body)


async def _selected(api: Api, budget: DisruptionBudget) -> list[str]:
    selector = budget.label_selector
    if selector is None:
        return []
    pods = POD.having(namespace=budget.metadata.namespace, labels=selector, metadata_only=True)
    return [decode_answer(_NAMED, item).metadata.name async for item in _items(api, pods)]


async def _items(api: Api, collection: kinds.Collection) -> AsyncGenerator[bytes, None]:
    async with aclosing(api.pages(collection, Paging(MOST_PER_PAGE))) as pages:
        async for page in pages:
            for item in page.items:
                yield bytes(item)
