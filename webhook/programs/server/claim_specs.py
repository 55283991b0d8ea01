"""The objects that hold the claims of a pod while it is created: ResourceClaims that the pod names, and templates."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from webhook.decisions.claims.pod import MOST_CLAIMS, used_entries
from webhook.objects.claims import ClaimSpec, decode_claim, decode_template
from webhook.objects.pod import Pod, PodSpec
from webhook.words.errors import FormatError

Kind = Literal["claim", "template"]


class SpecSource(NamedTuple):
    """The object whose spec describes the devices of one entry of ``spec.resourceClaims``."""

    kind: Kind
    name: str


def spec_sources(pod: Pod) -> Mapping[str, SpecSource]:
    """Return the objects to read, by entries of ``spec.resourceClaims`` that containers use; of 32 entries at most.

    Entries of one object count as well: what a claim asks for is added up for each of them.

    The claims in the status of the pod are not read, because the creator of the pod may have written any name there.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    used = used_entries(pod)
    found = dict[str, SpecSource]()
    for entry in (pod.spec or PodSpec()).resource_claims:
        if len(found) == MOST_CLAIMS:
            break
        if entry.name not in used:
            continue
        if entry.resource_claim_name:
            found[entry.name] = SpecSource("claim", entry.resource_claim_name)
        elif entry.resource_claim_template_name:
            found[entry.name] = SpecSource("template", entry.resource_claim_template_name)
    return found


def read_spec(document: bytes | None, source: SpecSource) -> ClaimSpec | None:
    """Return the spec in an object; ``None`` if there is no such object, or it cannot be read."""
    if document is None:
        return None
    try:
        if source.kind == "claim":
            return decode_claim(document, f"ResourceClaim {source.name}").spec
        return decode_template(document, f"ResourceClaimTemplate {source.name}").spec.spec
    except FormatError:
        return None
