"""To which claims the containers of a pod refer, and which ResourceClaims those are."""

from collections.abc import Mapping, Set
from typing import NamedTuple

import msgspec

from webhook.objects.pod import Container, InitContainer, Pod, PodClaim, PodSpec, is_present
from webhook.words import names

MOST_CLAIMS = 32
"""Of one pod that are read. The API server allows more only of claims that few pods have."""


class ClaimUse(NamedTuple):
    """That a container uses a claim."""

    entry: str
    """The name of an entry of ``spec.resourceClaims``, or :data:`EXTENDED`."""
    request: str
    """One request of the claim; empty: all of them."""


EXTENDED = ""
"""In place of an entry: the claim that serves extended resources, of which the pod's spec says nothing."""


class ClaimNames(msgspec.Struct, frozen=True, gc=False):
    """The ResourceClaims of a pod."""

    by_entry: Mapping[str, str]
    """By entries of ``spec.resourceClaims``, and by :data:`EXTENDED`; without what is not made yet, or not needed."""
    templates: Mapping[str, str]
    """The ResourceClaimTemplates, by entries."""


def claim_uses(pod: Pod) -> dict[str, list[ClaimUse]]:
    """The claims that containers use, by the names of the containers; without those that use none.

    The remap container is left out: it sees what the others were given, and was given nothing itself.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    spec, found = pod.spec or PodSpec(), dict[str, list[ClaimUse]]()
    if is_present(spec.resource_claims_json):
        declared = {claim.name for claim in spec.resource_claims}
        containers: list[Container] = [*(spec.init_containers or ()), *(spec.containers or ())]
        for container in containers:
            claims = container.resources.claims if container.resources else ()
            uses = [ClaimUse(claim.name, claim.request or "") for claim in claims if claim.name in declared]
            if uses and not _is_remap_container(container):
                found[container.name] = uses
    extended = pod.status.extended_claim if pod.status else None
    for mapping in (extended.request_mappings if extended else None) or ():
        found.setdefault(mapping.container_name, []).append(ClaimUse(EXTENDED, mapping.request_name))
    return found


def used_entries(pod: Pod) -> Set[str]:
    """The entries of all :func:`claim_uses`, in their order.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    return dict.fromkeys(use.entry for uses in claim_uses(pod).values() for use in uses).keys()


def _is_remap_container(container: Container) -> bool:
    is_named = isinstance(container, InitContainer) and container.name.startswith(names.REMAP_CONTAINER)
    return is_named and container.command == list(names.REMAP_COMMAND)


def claim_names(pod: Pod) -> ClaimNames:
    """The names of the ResourceClaims and templates, found as the kubelet finds them.

    k8s.io/dynamic-resource-allocation, resourceclaim/resourceclaim.go, Name.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    spec = pod.spec or PodSpec()
    entries: list[PodClaim] = spec.resource_claims
    made = {status.name: status.resource_claim_name for status in (pod.status.resource_claims if pod.status else ())}
    by_entry = {entry.name: entry.resource_claim_name or made.get(entry.name) for entry in entries}
    extended = pod.status.extended_claim if pod.status else None
    if extended:
        by_entry[EXTENDED] = extended.resource_claim_name
    return ClaimNames(
        by_entry={entry: name for entry, name in by_entry.items() if name},
        templates={
            entry.name: entry.resource_claim_template_name
            for entry in entries
            if entry.resource_claim_template_name and not entry.resource_claim_name
        },
    )


def shared_entries(pod: Pod) -> frozenset[str]:
    """The entries that name a ResourceClaim themselves: other pods may share it. A template makes one for each pod."""
    return frozenset(entry.name for entry in (pod.spec or PodSpec()).resource_claims if entry.resource_claim_name)
