"""Evictions, and the PodDisruptionBudgets that limit them."""

from collections.abc import Collection
from contextlib import aclosing

import msgspec

from webhook.cluster import kinds
from webhook.cluster.api.verbs import Api, Paging
from webhook.cluster.kinds import DISRUPTION_BUDGET, POD
from webhook.objects.disruption_budget import DisruptionBudget, read_disruption_budget
from webhook.words.errors import GpuTopologyError

MOST_BUDGETS = 500
"""The most budgets whose pods are listed, with one request each."""


_PER_PAGE = 500


class _Metadata(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Metadata


_NAMED = msgspec.json.Decoder(_Named)


class TooManyBudgets(GpuTopologyError):
    """The cluster has more budgets in the namespaces in question than are looked at."""


async def list_budgets(api: Api, namespaces: Collection[str]) -> list[tuple[DisruptionBudget, list[str]]]:
    """Returns the budgets of some namespaces, each with the names of the pods that it selects.

    The API server applies the selectors.

    Args:
        api: The API server.
        namespaces: The namespaces.

    Raises:
        ApiError: a request fails.
        TooManyBudgets: there are more than :data:`MOST_BUDGETS`.
        msgspec.DecodeError: an answer is no budget or pod.
    """
    found = [
        budget
        for item in await _items(api, DISRUPTION_BUDGET.having())
        if (budget := read_disruption_budget(item)).metadata.namespace in namespaces
    ]
    if len(found) > MOST_BUDGETS:
        raise TooManyBudgets(f"expected at most {MOST_BUDGETS} PodDisruptionBudgets, found {len(found)}")
    return [(budget, await _selected(api, budget)) for budget in found]


async def evict(api: Api, namespace: str, name: str, uid: str) -> None:
    """Evicts a pod, if it is still the same one. The API server refuses what a PodDisruptionBudget does not allow.

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
    return [_NAMED.decode(item).metadata.name for item in await _items(api, pods)]


async def _items(api: Api, collection: kinds.Collection) -> list[bytes]:
    async with aclosing(api.pages(collection, Paging(_PER_PAGE))) as pages:
        return [bytes(item) async for page in pages for item in page.items]
