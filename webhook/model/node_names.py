"""What the objects that belong to a node are called, however long the node's own name is.

The name of a node has up to 253 characters (a DNS subdomain). So has that of a ConfigMap, but ours has a prefix; the
value of a label has 63 (k8s.io/apimachinery, pkg/util/validation). What does not fit is cut and ends with a digest of
the whole. The published document holds the full name, and a reader compares it.
"""

import hashlib

from webhook.model import names

NAME_LIMIT = 253
LABEL_LIMIT = 63
DIGEST_LENGTH = 10


def config_map_name(node: str) -> str:
    """Name of the ConfigMap with the topology of ``node``: ``gpu-topology-<node>``, or its beginning and a digest."""
    return fitted(names.NODE_CONFIG_MAP_PREFIX + node, NAME_LIMIT)


def node_label(node: str) -> str:
    """Value of the label ``gpu.topology/node``: the name of the node, or its beginning and a digest."""
    return fitted(node, LABEL_LIMIT)


def fitted(name: str, limit: int) -> str:
    """``name`` if it has at most ``limit`` characters; else its beginning, ``-`` and a digest of the whole.

    Within a DNS subdomain a dash may not follow a dot, so the beginning loses what it ends with.
    """
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{name[: limit - DIGEST_LENGTH - 1].rstrip('-.')}-{digest}"
