"""The known claims of all pods of a cluster."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from webhook.cluster.redaction.claims import CLAIM, SLICE, TEMPLATE
from webhook.cluster.redaction.objects import Object, identity
from webhook.decisions.claims.evidence import KnownClaims, claim_title, template_title
from webhook.decisions.claims.pod import MOST_CLAIMS, claim_names
from webhook.decisions.claims.slices import Pools, SlicePart, slice_part
from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import decode_claim, decode_slice, decode_template
from webhook.objects.pod import Pod
from webhook.words.errors import FormatError
from webhook.words.printable import fitted

_NOT_HELD = "no file holds {}"
_RESOURCES = {CLAIM: "resourceclaims", TEMPLATE: "resourceclaimtemplates", SLICE: "resourceslices"}
_Key = tuple[str, str]
_T = TypeVar("_T")


class ClusterClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The ResourceClaims, the templates, and the devices that drivers publish."""

    claims: Mapping[_Key, bytes] = {}
    """The kept fields of claims as JSON, by namespace and name. Of thousands, few are decoded at a time."""
    templates: Mapping[_Key, bytes] = {}
    pools: Pools = Pools()
    problems: Mapping[str, str] = {}
    """The reason why further objects may exist, by kind; without the kinds that were read completely."""

    def of(self, pod: Pod, namespace: str) -> KnownClaims:
        """Return the known claims of a pod.

        Raises:
            MalformedPod: a field has another type than in a pod.
        """
        names, unread = claim_names(pod), dict[str, str]()
        reading = _Reading(namespace, unread, self.problems)
        claims = reading.objects(CLAIM, self.claims, names.by_entry.values(), decode_claim, claim_title)
        missing = [name for entry, name in names.templates.items() if names.by_entry.get(entry) not in claims]
        templates = reading.objects(TEMPLATE, self.templates, missing, decode_template, template_title)
        return KnownClaims(
            claims=claims,
            templates=templates,
            pools=self.pools,
            unread=unread,
            pools_problem=self.problems.get(SLICE, ""),
        )


NO_CLAIMS = ClusterClaims()


class _Reading(msgspec.Struct):
    namespace: str
    unread: dict[str, str]
    problems: Mapping[str, str]

    def objects(
        self,
        kind: str,
        known: Mapping[_Key, bytes],
        names: Iterable[str],
        decode: Callable[[bytes, str], _T],
        title: Callable[[str], str],
    ) -> dict[str, _T]:
        """Decode the known objects. Missing ones are noted as unread, unless their kind was read completely."""
        found = {}
        for name in list(dict.fromkeys(names))[:MOST_CLAIMS]:
            document = known.get((self.namespace, name))
            if document is None:
                if kind in self.problems:
                    self.unread[title(name)] = self.problems[kind]
                continue
            try:
                found[name] = decode(document, title(fitted(name)))
            except FormatError as error:
                self.unread[title(name)] = str(error)
        return found


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


def _encoded(documents: Iterable[Object]) -> dict[_Key, bytes]:
    return {identity(document): msgspec.json.encode(document) for document in documents}


def _part(document: Object, settings: ClaimSettings) -> SlicePart | None:
    """Return the part of a slice; None for a slice that no API server would accept."""
    try:
        return slice_part(decode_slice(msgspec.json.encode(document), SLICE), settings)
    except FormatError:
        return None
