"""What will go wrong although nothing here can change it. Only warnings."""

from collections.abc import Sequence

from webhook.admit.container import PodContainer
from webhook.admit.pod_patch import PodPatch
from webhook.admit.subject import Subject
from webhook.catalogue import opting, peers
from webhook.model import names
from webhook.model.choices import Carrier
from webhook.model.options import probably_meant
from webhook.model.outcome import Reason
from webhook.request.untreated import untreated
from webhook.request.users import user_difference, users

_NAMED = 10
"""Unknown annotations: to find what was meant takes longer than the rest of a review."""

PURPOSE = "say what may go wrong"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Warnings about this pod on this cluster."""
    _unknown_annotations(subject.options.unknown, patch)
    _claims(subject, patch)
    if subject.cluster.denies_privileged:
        _privileged(subject, patch)
    if not subject.cluster.serves_init_containers:
        _gpus_of_init_containers(subject, patch)
    if subject.cluster.has_init_container_fault and subject.remap.carrier is not Carrier.SIDECAR:
        _init_container_fault(subject, patch)


def _claims(subject: Subject, patch: PodPatch) -> None:
    """What serves the pod its GPUs instead of HAMi, or keeps HAMi from serving it."""
    claimed = subject.served_by_claims
    if claimed:
        patch.warn(opting.COUNT_SERVED_BY_CLAIMS.say(resource=claimed), Reason.SERVED_BY_CLAIMS)
    elif subject.family == "hami":
        for message in untreated(subject.pod, subject.namespace, subject.policy, subject.cluster):
            patch.warn(message)
    if subject.profile.shares_gpus:
        _users(subject, patch)


def _users(subject: Subject, patch: PodPatch) -> None:
    """Peers that cannot open each other's shared memory."""
    peers_here = [container.spec for container in subject.gpu_containers]
    found = user_difference(users(subject.spec, peers_here)) if len(peers_here) > 1 else None
    if found and found.other is not None:
        patch.warn(peers.USERS_DIFFER.say(first=found.first, user=found.user, second=found.second, other=found.other))
    elif found:
        patch.warn(peers.USER_OF_IMAGE.say(first=found.first, user=found.user, second=found.second))


def _unknown_annotations(unknown: Sequence[str], patch: PodPatch) -> None:
    for key in unknown[:_NAMED]:
        meant = probably_meant(key)
        patch.warn(f"unknown annotation {key}" + (f"; did you mean {meant}?" if meant else ""))
    if unknown[_NAMED:]:
        patch.warn(f"{len(unknown) - _NAMED} more unknown annotations")


def _privileged(subject: Subject, patch: PodPatch) -> None:
    for container in subject.containers:
        if container.spec.is_privileged:
            patch.warn(f"HAMi {subject.cluster.hami} refuses GPU pods with a privileged container: {container.name}")


def _gpus_of_init_containers(subject: Subject, patch: PodPatch) -> None:
    for container in subject.containers:
        if container.is_init and container.request:
            patch.warn(f"HAMi {subject.cluster.hami} does not schedule GPUs for init containers: {container.name}")


def idle_init_containers(containers: Sequence[PodContainer], *, added: Sequence[str] = ()) -> list[str]:
    """The init containers with whose end HAMi 2.10.0 gives the pod's cards away.

    None if one of them is restartable: it never finishes, so neither do the init containers as a whole.

    Args:
        containers: All of the pod.
        added: Names of those that it will get.
    """
    if any(container.is_native_sidecar for container in containers):
        return []
    return [*(container.name for container in containers if container.is_init and container.request is None), *added]


def _init_container_fault(subject: Subject, patch: PodPatch) -> None:
    ours = (names.REMAP_CONTAINER,) if subject.remap.carrier is Carrier.INIT else ()
    idle = idle_init_containers(subject.containers, added=ours)
    if idle:
        text = f"HAMi {subject.cluster.hami} offers this pod's cards to others once init container {idle[0]} finishes"
        patch.warn(text, Reason.INIT_CONTAINER_FAULT)
