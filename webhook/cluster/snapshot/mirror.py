"""The values that a mirror keeps of objects, and their weights."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from webhook.cluster.redaction.objects import Object
from webhook.cluster.snapshot.documents import reduced
from webhook.cluster.snapshot.model import KnownPod, known_pod
from webhook.cluster.state.cache import Cache, Document
from webhook.words.errors import ManifestError
from webhook.words.nesting import decode_answer

_ANY = msgspec.json.Decoder()


class Kept(NamedTuple):
    """The kept fields of an object that is no pod."""

    objects: tuple[Object, ...]
    weight: int
    """The number of bytes as JSON."""


def read_pod(document: Document, _: str, before: KnownPod | None) -> KnownPod:
    """Read the kept fields of a pod. An equal value from before is returned itself, as after a heartbeat.

    Raises:
        ManifestError: the document is no pod.
    """
    (kept,) = reduced([_decoded(document, "v1", "Pod")])
    found = known_pod(kept)
    return before if before is not None and before.document == found.document else found


def weigh_pod(pod: KnownPod) -> int:
    """Return the number of bytes."""
    return len(pod.document)


def reader_of(version: str, kind: str) -> Callable[[Document, str, Kept | None], Kept]:
    """Return a function that reads objects of a kind.

    Args:
        version: The ``apiVersion`` of the kind.
        kind: The name of the kind in manifests.
    """

    def read(document: Document, _: str, before: Kept | None) -> Kept:
        found = tuple(reduced([_decoded(document, version, kind)]))
        if before is not None and before.objects == found:
            return before  # no change, so it is not weighed again
        return Kept(found, sum(len(msgspec.json.encode(each)) for each in found))

    return read


def weigh(found: Kept) -> int:
    """Return the number of bytes."""
    return found.weight


def objects_of(cache: Cache[Kept]) -> Iterator[Object]:
    """Yield all objects in a mirror."""
    return (each for found in cache.values().values() for each in found.objects)


def _decoded(document: Document, version: str, kind: str) -> Object:
    try:
        found = decode_answer(_ANY, document)
    except msgspec.DecodeError as error:
        raise ManifestError(f"expected a {kind}, found something else: {error}") from None
    return {**found, "apiVersion": version, "kind": kind}
