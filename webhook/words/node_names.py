"""What the objects that belong to a node are called, however long the node's own name is.

The name of a node has up to 253 characters (a DNS subdomain). So has that of a ConfigMap, but ours has a prefix; the
value of a label has 63 (k8s.io/apimachinery, pkg/util/validation). What does not fit is cut and ends with a digest of
the whole. The published document holds the full name, and a reader compares it.
"""

import hashlib

from webhook.words import names

NAME_LIMIT = 253
LABEL_LIMIT = 63
DIGEST_LENGTH = 10


def config_map_name(node: str) -> str:
    """Name of the ConfigMap with the topology of ``node``: ``gpu-topology-<node>``, or its beginning and a digest."""
    return fitted(names.NODE_CONFIG_MAP_PREFIX + node, NAME_LIMIT)


def taint_rule_name(node: str, driver: str, pool: str, device: str) -> str:
    """Name of the DeviceTaintRule for a device of ``node``: ``gpu-topology-<node>-<device>-<digest>``.

    The digest is of all four, because node and device alone may be read in several ways: ``a-b`` and ``c``, ``a`` and
    ``b-c``. None of them contains a line feed.
    """
    digest = _digest(f"{node}\n{driver}\n{pool}\n{device}")
    readable = f"{names.NODE_CONFIG_MAP_PREFIX}{node}-{device}"
    return f"{readable[: NAME_LIMIT - DIGEST_LENGTH - 1].rstrip('-.')}-{digest}"


def node_label(node: str) -> str:
    """Value of the label ``gpu.topology/node``: the name of the node, or its beginning and a digest."""
    return fitted(node, LABEL_LIMIT)


def fitted(name: str, limit: int) -> str:
    """``name`` if it has at most ``limit`` characters; else its beginning, ``-`` and a digest of the whole.

    Within a DNS subdomain a dash may not follow a dot, so the beginning loses what it ends with.
    """
    if len(name) <= limit:
        return name
    return f"{name[: limit - DIGEST_LENGTH - 1].rstrip('-.')}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
