"""An object as the API server sent it, with what tells which of two states of it is the newer one."""

from typing import NamedTuple

import msgspec

from webhook.words.nesting import decode_answer


class VersionedObject(NamedTuple):
    """One state of one object."""

    name: str
    """Within its collection."""
    version: int
    """Its resourceVersion. Those of one collection grow with time and may be compared (KEP-5504: decimal integers,
    in all served resources; conformance since Kubernetes 1.35, and true of etcd's revisions before)."""
    document: bytes | msgspec.Raw
    """JSON."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


_DECODER = msgspec.json.Decoder(_Object)


def read_versioned(document: bytes | msgspec.Raw, *, all_namespaces: bool = False) -> VersionedObject:
    """The object in a list, an event or an answer.

    Args:
        document: JSON.
        all_namespaces: Whether the collection has objects of several namespaces. Then ``namespace/name`` is the name.

    Raises:
        ValueError: it has no name, no version, or not the namespace that it needs. msgspec.DecodeError is such.
    """
    metadata = decode_answer(_DECODER, document).metadata
    name = metadata.name
    if all_namespaces:
        if not metadata.namespace:
            raise ValueError("expected an object with a namespace, found one without")
        name = f"{metadata.namespace}/{name}"
    return VersionedObject(name, int(metadata.resource_version), document)
