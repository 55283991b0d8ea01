"""What a mirror keeps of an object of the API server, and what that weighs."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from webhook.analyze.kept import Object
from webhook.analyze.snapshot import KnownPod, known_pod
from webhook.cli.snapshot.documents import reduced
from webhook.model.errors import ManifestError
from webhook.model.nesting import decode_answer
from webhook.state.cache import Cache, Document

_ANY = msgspec.json.Decoder()


class Kept(NamedTuple):
    """What is kept of an object that is no pod."""

    objects: tuple[Object, ...]
    weight: int
    """Bytes, as JSON."""


def read_pod(document: Document, _: str, before: KnownPod | None) -> KnownPod:
    """What is kept of a pod; the value from before if that is the same, as it is after a heartbeat.

    Raises:
        ManifestError: it is no pod.
    """
    (kept,) = reduced([_decoded(document, "v1", "Pod")])
    found = known_pod(kept)
    return before if before == found else found


def weigh_pod(pod: KnownPod) -> int:
    """Bytes."""
    return len(pod.document)


def reader_of(version: str, kind: str) -> Callable[[Document, str, Kept | None], Kept]:
    """Reads objects of a kind.

    Args:
        version: The ``apiVersion`` of the kind.
        kind: As it stands in manifests.
    """

    def read(document: Document, _: str, before: Kept | None) -> Kept:
        found = tuple(reduced([_decoded(document, version, kind)]))
        if before is not None and before.objects == found:
            return before  # it is no change, and not weighed again
        return Kept(found, sum(len(msgspec.json.encode(each)) for each in found))

    return read


def weigh(found: Kept) -> int:
    """Bytes."""
    return found.weight


def objects_of(cache: Cache[Kept]) -> Iterator[Object]:
    """All that a mirror keeps."""
    return (each for found in cache.values().values() for each in found.objects)


def _decoded(document: Document, version: str, kind: str) -> Object:
    try:
        found = decode_answer(_ANY, document)
    except msgspec.DecodeError as error:
        raise ManifestError(f"expected a {kind}, found something else: {error}") from None
    return {**found, "apiVersion": version, "kind": kind}
