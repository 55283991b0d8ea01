"""The names of the objects of a collection, for the completion of command lines: few, soon, or none."""

import asyncio
from contextlib import aclosing

import msgspec

from webhook.cluster.api.contexts import Where
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api, Paging
from webhook.cluster.kinds import Collection
from webhook.words import names

MOST = 500
"""The most names. A shell asks before it shows more than about a hundred."""
SECONDS = 2.0
"""The time within which the API server answers, with the renewal of credentials."""


class _Metadata(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Metadata


def object_names(where: Where, collection: Collection) -> list[str]:
    """Return the names of the first objects.

    Raises:
        GpuTopologyError: the kubeconfig cannot be used, or the request fails.
        TimeoutError: there was no answer in time.
        msgspec.DecodeError: an object has no name.
    """
    return asyncio.run(_first_names(where, collection))


async def _first_names(where: Where, collection: Collection) -> list[str]:
    async with asyncio.timeout(SECONDS):
        api = Api(connect(where, user_agent=names.EXPLAIN_USER_AGENT, seconds=SECONDS))
        try:
            async with aclosing(api.pages(collection, Paging(MOST))) as pages:
                async for page in pages:
                    return [msgspec.json.decode(item, type=_Named).metadata.name for item in page.items]
            return []
        finally:
            await api.close()
