"""What is known of the claims of one pod, for whoever looks at it without being the webhook."""

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
    """By their names."""
    templates: Mapping[str, ResourceClaimTemplate] = MappingProxyType({})
    """By their names; without those whose claim is known."""
    pools: Pools = _NO_POOLS
    """The devices that are published."""
    unread: Mapping[str, str] = MappingProxyType({})
    """Why claims and templates could not be read, by :func:`claim_title` and :func:`template_title`. What is neither
    here nor above does not exist."""
    pools_problem: str = ""
    """Why the ResourceSlices could not be read; empty if they could."""

    def specs(self, pod: Pod) -> dict[str, ClaimSpec | None]:
        """What the claims of the pod ask for, by entries of ``spec.resourceClaims``; ``None`` where it is not known.

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
        """These, with the claims and templates of others, which count more."""
        return msgspec.structs.replace(
            self, claims={**self.claims, **others.claims}, templates={**self.templates, **others.templates}
        )


def claim_title(name: str) -> str:
    """How messages call a ResourceClaim."""
    return f"ResourceClaim {name}"


def template_title(name: str) -> str:
    """How messages call a ResourceClaimTemplate."""
    return f"ResourceClaimTemplate {name}"
