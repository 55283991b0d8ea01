"""The candidates that a cluster has for an incomplete word of the command line: pods, workloads, namespaces, nodes.

Shells ask for them while a user types. So every failure is silent, and means that there are none.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from webhook.cluster.api.contexts import Context
    from webhook.cluster.kinds import Collection


def pods(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the pods of the namespace, or after ``KIND/`` the workloads, or after ``NAMESPACE/`` the pods there."""
    from webhook.cli.kubeconfig import namespace_of_context
    from webhook.cluster.snapshot.pod_reference import collection_of

    front, slash, _ = incomplete.rpartition("/")
    namespace = str(ctx.params.get("namespace") or "")
    found = _names(ctx, lambda cluster: collection_of(front, namespace or namespace_of_context(cluster)))
    return [f"{front}{slash}{name}" for name in found]


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:  # noqa: ARG001 - typer filters by it
    """Return the namespaces."""
    from webhook.cluster import kinds

    return _names(ctx, lambda _: kinds.NAMESPACES)


def nodes(ctx: typer.Context, incomplete: str) -> list[str]:  # noqa: ARG001 - typer filters by it
    """Return the nodes."""
    from webhook.cluster import kinds

    return _names(ctx, lambda _: kinds.NODES)


def _names(ctx: typer.Context, collection: "Callable[[Context | None], Collection]") -> list[str]:
    """Return the names in the cluster that the options so far name; none if they name files."""
    if any(ctx.params.get(option) for option in ("file", "state")):
        return []
    import msgspec

    from webhook.cli.kubeconfig import wanted_cluster
    from webhook.cluster.api.object_names import object_names
    from webhook.words.errors import GpuTopologyError
    from webhook.words.printable import printable

    kubeconfig, context = ctx.params.get("kubeconfig"), ctx.params.get("context")
    try:
        cluster = wanted_cluster(Path(str(kubeconfig)) if kubeconfig else None, str(context or ""))
        # Kubernetes names nothing so; a shell would take a line break for two candidates.
        return [name for name in object_names(cluster, collection(cluster)) if printable(name) == name]
    except (GpuTopologyError, msgspec.DecodeError, OSError, UnicodeError):  # TimeoutError is an OSError
        return []
