"""The known claims of a cluster, and those of one pod, for readers other than the webhook."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

import msgspec

from webhook.decisions.claims.pod import MOST_CLAIMS, claim_names
from webhook.decisions.claims.slices import Pools
from webhook.objects.claims import (
    CLAIM,
    SLICE,
    TEMPLATE,
    ClaimSpec,
    ResourceClaim,
    ResourceClaimTemplate,
    decode_claim,
    decode_template,
)
from webhook.objects.pod import Pod
from webhook.words.errors import FormatError
from webhook.words.printable import fitted

_NO_POOLS = Pools()
_Key = tuple[str, str]
_T = TypeVar("_T")


class KnownClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The ResourceClaims and templates of a pod, and the devices that are published."""

    claims: Mapping[str, ResourceClaim] = MappingProxyType({})
    """The ResourceClaims, by their names."""
    templates: Mapping[str, ResourceClaimTemplate] = MappingProxyType({})
    """The ResourceClaimTemplates, by their names; without those whose claim is known."""
    pools: Pools = _NO_POOLS
    """The devices that are published."""
    unread: Mapping[str, str] = MappingProxyType({})
    """The reasons why claims and templates could not be read, by :func:`claim_title` and :func:`template_title`. A
    claim or template that is neither here nor above does not exist."""
    pools_problem: str = ""
    """The reason why the ResourceSlices could not be read; empty if they could."""

    def specs(self, pod: Pod) -> dict[str, ClaimSpec | None]:
        """Returns the specs of the claims of a pod, by entries of ``spec.resourceClaims``; ``None`` where not known.

        Raises:
            MalformedPod: a field has another type than in a pod.
        """
        names, found = claim_names(pod), dict[str, ClaimSpec | None]()
        for entry, template in names.templates.items():
            made_from = self.templates.get(template)
            found[entry] = made_from.spec.spec if made_from else None
        for entry, name in names.by_entry.items():
            claim = self.claims.get(name)
            if claim or entry not in found:
                found[entry] = claim.spec if claim else None
        return found

    def under(self, others: "KnownClaims") -> "KnownClaims":
        """Returns these claims together with others; where both have a name, the other claim or template counts."""
        return msgspec.structs.replace(
            self, claims={**self.claims, **others.claims}, templates={**self.templates, **others.templates}
        )


def claim_title(name: str) -> str:
    """Returns the title of a ResourceClaim in messages."""
    return f"ResourceClaim {name}"


def template_title(name: str) -> str:
    """Returns the title of a ResourceClaimTemplate in messages."""
    return f"ResourceClaimTemplate {name}"


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
