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
    """Return the objects to read, by entries of ``spec.resourceClaims`` that containers use; at most 32 different ones.

    The claims in the status of the pod are not read, because the creator of the pod may have written any name there.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    used = used_entries(pod)
    found, known = dict[str, SpecSource](), set[SpecSource]()
    for entry in (pod.spec or PodSpec()).resource_claims:
        if entry.name not in used:
            continue
        if entry.resource_claim_name:
            source = SpecSource("claim", entry.resource_claim_name)
        elif entry.resource_claim_template_name:
            source = SpecSource("template", entry.resource_claim_template_name)
        else:
            continue
        if source in known or len(known) < MOST_CLAIMS:
            known.add(source)
            found[entry.name] = source
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
