"""The names of the objects that belong to a node, for node names of any length.

The name of a node has up to 253 characters (a DNS subdomain). So has that of a ConfigMap, but that one has a prefix.
The value of a label has 63 (k8s.io/apimachinery, pkg/util/validation). A name that does not fit is cut and ends with a
digest of the whole name. The published document holds the full name, and a reader compares it.
"""

import hashlib

from webhook.words import names

NAME_LIMIT = 253
LABEL_LIMIT = 63
DIGEST_LENGTH = 10
RULE_NODE_LIMIT = NAME_LIMIT - len(names.NODE_CONFIG_MAP_PREFIX) - LABEL_LIMIT - len("-") - DIGEST_LENGTH - len(".")
"""165. The chart's policy has the number too."""


def config_map_name(node: str) -> str:
    """Returns the name of the ConfigMap with the topology of a node.

    It is ``gpu-topology-<node>``, or the beginning of that and a digest.
    """
    return fitted(names.NODE_CONFIG_MAP_PREFIX + node, NAME_LIMIT)


def taint_rule_name(node: str, driver: str, pool: str, device: str) -> str:
    """Returns the name of the DeviceTaintRule for a device of a node: ``gpu-topology-<device>-<digest>.<node>``.

    The name of a device has no dot (k8s.io/api resource/v1, Device: a DNS label), so the node is what follows the first
    one, and the chart's policy compares it: with the node in front, ``a`` could take the names of ``a-b``. The digest
    is of all four values. None of them contains a line feed.
    """
    digest = _digest(f"{node}\n{driver}\n{pool}\n{device}")
    readable = f"{names.NODE_CONFIG_MAP_PREFIX}{device[:LABEL_LIMIT]}-{digest}."
    return readable + fitted(node, RULE_NODE_LIMIT)


def node_label(node: str) -> str:
    """Returns the value of the label ``gpu.topology/node``: the name of the node, or its beginning and a digest."""
    return fitted(node, LABEL_LIMIT)


def fitted(name: str, limit: int) -> str:
    """Returns ``name`` if it has at most ``limit`` characters; else its beginning, ``-`` and a digest of the whole.

    Within a DNS subdomain a dash may not follow a dot, so dots and dashes at the end of the beginning are removed.
    """
    if len(name) <= limit:
        return name
    return f"{name[: limit - DIGEST_LENGTH - 1].rstrip('-.')}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
