"""The change of labels and annotations of a Namespace, with the rights of its caller."""

import asyncio
from collections.abc import Mapping

from webhook.cluster import kinds
from webhook.cluster.api.api_server import SECONDS
from webhook.cluster.api.contexts import Where
from webhook.cluster.api.errors import Conflict
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api, PatchForm
from webhook.words import names
from webhook.words.errors import GpuTopologyError


def change_namespace(
    where: Where,
    name: str,
    version: Mapping[str, str],
    labels: Mapping[str, str | None],
    annotations: Mapping[str, str | None],
) -> None:
    """Change a Namespace in one request, so that no pod meets half of it, and only if it is still as it was read.

    Args:
        where: The cluster.
        name: The name of the namespace.
        version: ``uid`` and ``resourceVersion`` of the namespace when it was read.
        labels: The new values by their keys; None removes a label.
        annotations: The new values by their keys; None removes an annotation.

    Raises:
        GpuTopologyError: the request fails, or the namespace was changed meanwhile.
    """
    session = connect(where, user_agent=names.NAMESPACE_USER_AGENT, seconds=SECONDS)
    patch = {"metadata": {**version, "labels": dict(labels), "annotations": dict(annotations)}}

    async def change() -> None:
        api = Api(session, field_manager=names.NAMESPACE_FIELD_MANAGER)
        try:
            await api.patch(kinds.NAMESPACE, name, "", patch, PatchForm.MERGE)
        except Conflict:
            again = "Call the command again to see what it is now"
            raise GpuTopologyError(f"namespace {name} was changed meanwhile, so nothing was written. {again}") from None
        finally:
            await api.close()

    asyncio.run(change())
