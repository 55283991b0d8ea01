"""The limitation of an overview to some nodes, or to the pods of one namespace."""

from collections.abc import Collection

import msgspec

from webhook.insight.overview.model import Overview
from webhook.words.catalogue.rights import NODES_NOT_SHOWN
from webhook.words.errors import GpuTopologyError
from webhook.words.printable import fitted


def limited(whole: Overview, *, namespace: str | None, nodes: Collection[str]) -> Overview:
    """Returns the overview with these nodes and the pods of this namespace only.

    Cards keep their holders of other namespaces.

    Args:
        whole: The overview of the cluster.
        namespace: The namespace whose pods are shown; None: all namespaces.
        nodes: Names of the nodes that are shown, with the pods on them; empty: all nodes, and pods without a node.

    Raises:
        GpuTopologyError: there is no such node, or nodes could not be listed.
    """
    known = {node.name for node in whole.nodes}
    missing = sorted(set(nodes) - known)
    if missing and whole.nodes_problem:
        raise GpuTopologyError(NODES_NOT_SHOWN.say(problem=whole.nodes_problem).advice)
    if missing:
        raise GpuTopologyError(f"there is no node {fitted(missing[0])} with GPUs")
    return msgspec.structs.replace(
        whole,
        nodes=tuple(node for node in whole.nodes if not nodes or node.name in nodes),
        pods=tuple(
            pod for pod in whole.pods if namespace in (None, pod.namespace) and (not nodes or pod.node in nodes)
        ),
    )
