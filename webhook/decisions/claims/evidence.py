"""The known state of the claims of one pod, for readers other than the webhook."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from webhook.decisions.claims.pod import claim_names
from webhook.decisions.claims.slices import Pools
from webhook.objects.claims import ClaimSpec, ResourceClaim, ResourceClaimTemplate
from webhook.objects.pod import Pod

_NO_POOLS = Pools()


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
