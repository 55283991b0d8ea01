"""The topology of a cluster's node: its agent's publication, or else HAMi's annotations."""

from webhook.cli.complaint import complain
from webhook.cli.snapshots import setting_of
from webhook.cluster.api.contexts import Where
from webhook.cluster.snapshot.pod_surroundings import around
from webhook.hardware.topology.model import NodeTopology
from webhook.words.errors import GpuTopologyError


def node_of_cluster(where: Where, name: str) -> NodeTopology:
    """Return the present topology of that node.

    Raises:
        GpuTopologyError: there is no such node, its GPUs are not known, or a request fails.
    """
    with around(where, setting_of(None), complain) as cluster:
        cluster.look_at_node(name, must_be_read=True, with_age=False)
        sources = cluster.snapshot().sources(name)
    known = sources.published or sources.annotated
    if known is None:
        raise GpuTopologyError(f"node {name}: no agent has published its GPUs, and HAMi has registered none")
    return known.topology
