"""The claims, templates and slices in the documents of a cluster."""

from collections.abc import Iterable, Mapping

import msgspec

from webhook.cluster.redaction.objects import Object, identity
from webhook.decisions.claims.evidence import ClusterClaims
from webhook.decisions.claims.slices import Pools, SlicePart, slice_part
from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import CLAIM, SLICE, TEMPLATE, decode_slice
from webhook.words.errors import FormatError

_NOT_HELD = "no file holds {}"
_RESOURCES = {CLAIM: "resourceclaims", TEMPLATE: "resourceclaimtemplates", SLICE: "resourceslices"}


def read_claims(
    by_kind: Mapping[str, list[Object]], settings: ClaimSettings, read: Iterable[str], problems: Mapping[str, str]
) -> ClusterClaims:
    """Read the claims in the documents of a cluster.

    Args:
        by_kind: The kept documents, by kind.
        settings: The settings that name the drivers of GPUs.
        read: The kinds that were read completely.
        problems: The reasons why the others could not be read, by resource.
    """
    are_all = frozenset(read)
    return ClusterClaims(
        claims=_encoded(by_kind.get(CLAIM, ())),
        templates=_encoded(by_kind.get(TEMPLATE, ())),
        pools=Pools(part for each in by_kind.get(SLICE, ()) if (part := _part(each, settings))),
        problems={
            kind: problems.get(resource) or _NOT_HELD.format("any" if kind == SLICE else "it")
            for kind, resource in _RESOURCES.items()
            if kind not in are_all and not (kind == SLICE and by_kind.get(SLICE))
        },
    )


def _encoded(documents: Iterable[Object]) -> dict[tuple[str, str], bytes]:
    return {identity(document): msgspec.json.encode(document) for document in documents}


def _part(document: Object, settings: ClaimSettings) -> SlicePart | None:
    """Return the part of a slice; None for a slice that no API server would accept."""
    try:
        return slice_part(decode_slice(msgspec.json.encode(document), SLICE), settings)
    except FormatError:
        return None
