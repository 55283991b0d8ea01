"""What will go wrong although nothing here can change it. Only warnings."""

from collections.abc import Sequence

from webhook.admit.container import PodContainer
from webhook.admit.pod_patch import PodPatch
from webhook.admit.subject import Subject
from webhook.catalogue.cards import PRIVILEGED_SEES_ALL
from webhook.catalogue.variables import COMMAND_SETS_LIST
from webhook.model import names
from webhook.model.choices import Carrier, OnViolation
from webhook.model.options import probably_meant
from webhook.model.outcome import Reason
from webhook.request.command_text import assigned_lists
from webhook.request.demand import required
from webhook.request.nvlink_switches import SWITCHES, Matters, Switch, literal

_NAMED = 10
"""Unknown annotations: to find what was meant takes longer than the rest of a review."""

PURPOSE = "say what may go wrong"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Warnings about this pod on this cluster."""
    _unknown_annotations(subject.options.unknown, patch)
    _switched_off(subject, patch)
    _sees_all_gpus(subject, patch)
    if subject.cluster.denies_privileged:
        _privileged(subject, patch)
    if not subject.cluster.serves_init_containers:
        _gpus_of_init_containers(subject, patch)
    if subject.cluster.has_init_container_fault and subject.remap.carrier is not Carrier.SIDECAR:
        _init_container_fault(subject, patch)


def _unknown_annotations(unknown: Sequence[str], patch: PodPatch) -> None:
    for key in unknown[:_NAMED]:
        meant = probably_meant(key)
        patch.warn(f"unknown annotation {key}" + (f"; did you mean {meant}?" if meant else ""))
    if unknown[_NAMED:]:
        patch.warn(f"{len(unknown) - _NAMED} more unknown annotations")


def _switched_off(subject: Subject, patch: PodPatch) -> None:
    """Variables with which containers take NVLink away from themselves."""
    if not subject.profile.shares_gpus and all(subject.gpu_request(one).count < 2 for one in subject.gpu_containers):
        return
    switches = [switch for switch in SWITCHES.values() if _matters(subject, switch)]
    for container in subject.gpu_containers:
        for switch in switches:
            text = literal(container.env.get(switch.name))
            if text is not None and switch.takes(text):
                patch.warn(switch.warning.say(container=container.name))


def _matters(subject: Subject, switch: Switch) -> bool:
    if switch.matters is Matters.PEERS:
        return subject.profile.shares_gpus
    all_linked = required(subject.options).every_pair_linked and subject.options.on_violation is OnViolation.DENY
    return switch.matters is Matters.ALL or not all_linked


def _sees_all_gpus(subject: Subject, patch: PodPatch) -> None:
    """The runtime gives a privileged container all devices of the host (containerd, container_create.go)."""
    for container in subject.containers:
        if not (container.request and container.spec.is_privileged):
            continue
        patch.warn(PRIVILEGED_SEES_ALL.say(container=container.name))
        found = () if subject.profile.shares_gpus else assigned_lists(container.spec)  # the peers' are judged before
        if found:
            patch.warn(COMMAND_SETS_LIST.say(container=container.name, variables=", ".join(found)))


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
