"""An object as the API server sent it, with what tells which of two states of it is the newer one."""

from typing import NamedTuple

import msgspec


class VersionedObject(NamedTuple):
    """One state of one object."""

    name: str
    version: int
    """Its resourceVersion. Those of one collection grow with time and may be compared (KEP-5504: decimal integers,
    in all served resources; conformance since Kubernetes 1.35, and true of etcd's revisions before)."""
    document: bytes | msgspec.Raw
    """JSON."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str


class _Object(msgspec.Struct):
    metadata: _Metadata


_DECODER = msgspec.json.Decoder(_Object)


def read_versioned(document: bytes | msgspec.Raw) -> VersionedObject:
    """The object in a list, an event or an answer.

    Raises:
        ValueError: it has no name or no version. msgspec's errors are such.
    """
    metadata = _DECODER.decode(document).metadata
    return VersionedObject(metadata.name, int(metadata.resource_version), document)
