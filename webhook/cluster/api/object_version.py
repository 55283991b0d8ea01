"""One state of an object as the API server sent it, with the version that orders states."""

from typing import NamedTuple

import msgspec

from webhook.words.nesting import decode_answer


class VersionedObject(NamedTuple):
    """One state of one object."""

    name: str
    """The name within its collection."""
    version: int
    """The resourceVersion. Versions of one collection grow with time and may be compared (KEP-5504: decimal integers,
    in all served resources; conformance since Kubernetes 1.35, and true of etcd's revisions before)."""
    document: bytes | msgspec.Raw
    """The object as JSON."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


_DECODER = msgspec.json.Decoder(_Object)


def read_versioned(document: bytes | msgspec.Raw, *, all_namespaces: bool = False) -> VersionedObject:
    """Read the object in a list, an event or an answer.

    Args:
        document: The object as JSON.
        all_namespaces: True if the collection has objects of several namespaces. Then the name is ``namespace/name``.

    Raises:
        ValueError: a name, a version, or a needed namespace is missing. msgspec.DecodeError is a ValueError.
    """
    metadata = decode_answer(_DECODER, document).metadata
    name = metadata.name
    if all_namespaces:
        if not metadata.namespace:
            raise ValueError("expected an object with a namespace, found one without")
        name = f"{metadata.namespace}/{name}"
    return VersionedObject(name, int(metadata.resource_version), document)
