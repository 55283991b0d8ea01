"""The claims that the containers of a pod use, and the ResourceClaims behind them."""

from collections.abc import Mapping, Set
from typing import NamedTuple

import msgspec

from webhook.objects.pod import Container, InitContainer, Pod, PodClaim, PodSpec, is_present
from webhook.words import names

MOST_CLAIMS = 32
"""The most claims of one pod that are read. The API server allows more only of claims that few pods have."""

MOST_REFERENCES = 2048
"""The most references to claims, in all containers of a pod together, that are looked at: 32 claims in 64 containers.
The API server sets no limit of its own."""


class ClaimUse(NamedTuple):
    """The use of a claim by a container."""

    entry: str
    """The name of an entry of ``spec.resourceClaims``, or :data:`EXTENDED`."""
    request: str
    """One request of the claim; empty: all of them."""


EXTENDED = ""
"""The entry of the claim that serves extended resources. The spec of the pod does not mention this claim."""


class ClaimNames(msgspec.Struct, frozen=True, gc=False):
    """The ResourceClaims of a pod."""

    by_entry: Mapping[str, str]
    """The name of each claim, by its entry of ``spec.resourceClaims`` or by :data:`EXTENDED`. Claims that are not made
    yet, or not needed, are missing."""
    templates: Mapping[str, str]
    """The names of the ResourceClaimTemplates, by entries."""


def claim_uses(pod: Pod) -> dict[str, list[ClaimUse]]:
    """Returns the claims that containers use, by the names of the containers; without those that use none.

    The remap container is left out: it sees the devices of the other containers, and was given none itself. Beyond
    :data:`MOST_REFERENCES` no container is looked at.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    spec, found = pod.spec or PodSpec(), dict[str, list[ClaimUse]]()
    if is_present(spec.resource_claims_json):
        declared = {claim.name for claim in spec.resource_claims}
        containers: list[Container] = [*(spec.init_containers or ()), *(spec.containers or ())]
        room = MOST_REFERENCES
        for container in containers:
            if not room:
                break
            claims = container.resources.claims[:room] if container.resources else ()
            uses = [ClaimUse(claim.name, claim.request or "") for claim in claims if claim.name in declared]
            if uses and not is_remap_container(container):
                found[container.name] = uses
                room -= len(uses)
    extended = pod.status.extended_claim if pod.status else None
    for mapping in (extended.request_mappings if extended else None) or ():
        found.setdefault(mapping.container_name, []).append(ClaimUse(EXTENDED, mapping.request_name))
    return found


def used_entries(pod: Pod) -> Set[str]:
    """Returns the entries of all uses that :func:`claim_uses` finds, in their order.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    return dict.fromkeys(use.entry for uses in claim_uses(pod).values() for use in uses).keys()


def is_remap_container(container: Container) -> bool:
    """Returns whether a container has the name and the command of the remap container.

    Raises:
        MalformedPod: the command is no list of texts.
    """
    is_named = isinstance(container, InitContainer) and container.name.startswith(names.REMAP_CONTAINER)
    return is_named and container.command == list(names.REMAP_COMMAND)


def claim_names(pod: Pod) -> ClaimNames:
    """Returns the names of the ResourceClaims and templates of a pod, found as the kubelet finds them.

    Source: k8s.io/dynamic-resource-allocation, resourceclaim/resourceclaim.go, Name.

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
    """Returns the entries that name a ResourceClaim themselves, which other pods may share.

    A template, in contrast, makes one claim for each pod.
    """
    return frozenset(entry.name for entry in (pod.spec or PodSpec()).resource_claims if entry.resource_claim_name)
