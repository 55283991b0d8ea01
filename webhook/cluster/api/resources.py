"""The names of collections that the command line uses; :mod:`webhook.cluster.kinds` has the collections."""

from webhook.cluster import kinds
from webhook.cluster.kinds import NAMESPACES, NODES, PODS, WHOLE_NODES
from webhook.cluster.kinds import Collection as Resource

ALL_CONFIG_MAPS, ALL_LEASES = kinds.config_maps(), kinds.leases()

__all__ = ["ALL_CONFIG_MAPS", "ALL_LEASES", "NAMESPACES", "NODES", "PODS", "WHOLE_NODES", "Resource"]
