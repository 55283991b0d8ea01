"""GPUs that resource claims give: the peers that share them, and the variable by which bind knows the profile.

A container sees only the devices of its claims, numbered from 0. So peers are containers that use the same claims, in
one pod or, with a ResourceClaim that pods name themselves, in several. No variable has to show or hide GPUs. The
driver's own edits would win over ours anyway: ``NVIDIA_VISIBLE_DEVICES`` is ``void``, and with MPS, whose GPUs are no
whole ones, ``/dev/shm`` is the driver's (kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin).
"""

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.admit.variables import require_value
from webhook.decisions.claims.pod import shared_entries
from webhook.decisions.claims.requests import ClaimedGpus
from webhook.words import names
from webhook.words.catalogue.claims import (
    CLAIM_MAY_BE_SHARED,
    NODE_PEERS_BY_TEMPLATE,
    PEERS_BY_COUNT,
    PEERS_WITH_TWO_CLAIMS,
)
from webhook.words.choices import Profile
from webhook.words.outcome import Reason, Refused

PURPOSE = "let bind know the profile of its claims"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Sets one variable in each GPU container; nothing for pods without claims.

    Raises:
        Refused: the peers do not use the same claims.
    """
    if not subject.has_claims:
        return
    claimed = _claimed(subject)
    if subject.profile is Profile.NODE_PEERS:
        _judge_pods(subject, claimed)
    elif subject.profile is Profile.POD_PEERS:
        _judge_containers(subject, claimed)
    _may_be_shared(subject, claimed, patch)
    for container in subject.gpu_containers:
        require_value(patch, container, names.REMAP_PROFILE, str(subject.profile), subject.profile)


def _claimed(subject: Subject) -> dict[str, ClaimedGpus]:
    """Returns the claimed GPUs of each GPU container, by its name."""
    requests = {container.name: subject.gpu_request(container) for container in subject.gpu_containers}
    return {name: request.claimed for name, request in requests.items() if request.claimed}


def _judge_containers(subject: Subject, claimed: dict[str, ClaimedGpus]) -> None:
    if len(claimed) < 2:
        return
    _refuse_counts(subject, claimed)
    (first, of_first), *others = claimed.items()
    uses = set(of_first.uses)
    for second, found in others:
        if set(found.uses) != uses:
            message = PEERS_WITH_TWO_CLAIMS.say(first=first, second=second, profile=subject.profile)
            raise Refused(Reason.CONTRADICTS_PROFILE, message)


def _judge_pods(subject: Subject, claimed: dict[str, ClaimedGpus]) -> None:
    _refuse_counts(subject, claimed)
    shared = shared_entries(subject.pod)
    for name, found in claimed.items():
        for use in found.uses:
            if use.entry not in shared:
                message = NODE_PEERS_BY_TEMPLATE.say(container=name, entry=use.entry, profile=subject.profile)
                raise Refused(Reason.CONTRADICTS_PROFILE, message)


def _refuse_counts(subject: Subject, claimed: dict[str, ClaimedGpus]) -> None:
    name = next((name for name, found in claimed.items() if found.is_extended), None)
    if name is not None:
        resource = subject.resource or "an extended resource"
        message = PEERS_BY_COUNT.say(container=name, resource=resource, profile=subject.profile)
        raise Refused(Reason.CONTRADICTS_PROFILE, message)


def _may_be_shared(subject: Subject, claimed: dict[str, ClaimedGpus], patch: PodPatch) -> None:
    """Warns of a claim that other pods may name later: what bind finds need not hold for the life of the pod."""
    if subject.profile is Profile.NODE_PEERS:
        return
    used = {use.entry for found in claimed.values() for use in found.uses}
    for entry in subject.spec.resource_claims:
        if entry.resource_claim_name and entry.name in used:
            patch.warn(CLAIM_MAY_BE_SHARED.say(claim=entry.resource_claim_name))
            return
