"""A cluster as the planner sees it: pods, nodes and the publications of agents, read once."""

from webhook.cli.complaint import complain
from webhook.cli.snapshots import setting_of
from webhook.cluster.api.contexts import Where
from webhook.cluster.snapshot.lists import PodsForbidden, read_cluster
from webhook.cluster.snapshot.model import Snapshot, read_snapshot
from webhook.decisions.claims.slices import Pools
from webhook.decisions.configuration import CertificateSettings
from webhook.decisions.place.world import World
from webhook.insight.analyze.free_cards import FilledWorld
from webhook.objects.claims import SLICE
from webhook.words.catalogue.rights import READER_MISSING
from webhook.words.errors import GpuTopologyError
from webhook.words.printable import printable

_OF_LINKS = "only HAMi's annotations tell of links"
_KINDS = frozenset({"Node", "Pod", "ConfigMap", "Lease"})


def read_world_and_devices(where: Where) -> tuple[World, Pools]:
    """Read the present cluster, and the devices that DRA drivers publish; none if they may not be read.

    Raises:
        GpuTopologyError: as for :func:`read_world`.
    """
    snapshot = _read(where, _KINDS | {SLICE})
    return FilledWorld(snapshot).world, snapshot.claims.pools


def read_world(where: Where) -> World:
    """Read the present cluster.

    ConfigMaps and Leases of agents that may not be read are left out, with a note on standard error. Then links are
    known from HAMi's annotations alone.

    Args:
        where: The cluster.

    Raises:
        GpuTopologyError: a request fails, or pods or nodes may not be listed.
    """
    return FilledWorld(_read(where, _KINDS)).world


def _read(where: Where, kinds: frozenset[str]) -> Snapshot:
    try:
        documents = read_cluster(where, None, CertificateSettings(), kinds=kinds)
    except PodsForbidden as error:
        raise GpuTopologyError(f"{error.problem}. {READER_MISSING.fix}") from None
    snapshot = read_snapshot(documents.others, documents.pods, setting_of(None))
    if "leases" in snapshot.problems:  # without Leases it is not known which agents are alive
        others = [document for document in documents.others if document["kind"] != "ConfigMap"]
        snapshot = read_snapshot(others, documents.pods, setting_of(None))
    if problem := snapshot.problems.get("nodes"):
        raise GpuTopologyError(f"{problem}. {READER_MISSING.fix}")
    for each in snapshot.unread:
        said = "partitions of NVSwitches are not known" if each.what == "resourceslices" else _OF_LINKS
        without = f"Without {each.what} {said}"
        complain(printable(f"gpu-topology: left out: {each.problem}. {without}"))
    return snapshot
