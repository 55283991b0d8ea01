"""The fields of a Node that are read."""

import msgspec

from webhook.objects.pod import Fields, Quantity
from webhook.words.nesting import Document, decode_answer


class Taint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class NodeMetadata(Fields):
    """The ``metadata`` of a Node."""

    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class NodeSpec(Fields):
    """The ``spec`` of a Node."""

    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class NodeStatus(Fields):
    """The ``status`` of a Node."""

    allocatable: dict[str, Quantity] | None = None


class Node(Fields):
    """A Node."""

    metadata: NodeMetadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


def decode_node(document: Document) -> Node:
    """Returns a Node as the API server stores it.

    Args:
        document: The Node as JSON.

    Raises:
        msgspec.DecodeError: a field has another type than in a Node.
    """
    return decode_answer(_NODE, document)


_NODE = msgspec.json.Decoder(Node)
