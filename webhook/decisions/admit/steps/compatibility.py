"""Warnings about problems that no step can solve."""

from collections.abc import Sequence

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.request.demand import required
from webhook.decisions.request.gpu_lists import SHOWS_NOTHING, UUID_PREFIX, show, split_list
from webhook.decisions.request.nvlink_switches import SWITCHES, Matters, Switch
from webhook.decisions.request.settings import NO_TEXTS, literal
from webhook.decisions.request.unkept_options import required_options, would_not_keep
from webhook.decisions.request.untreated_pods import Cause, untreated
from webhook.decisions.request.users import user_difference, users
from webhook.decisions.stray_keys import stray_keys, unknown_annotations
from webhook.words import names
from webhook.words.catalogue.cards import (
    CARDS_OFFERED_TO_OTHERS,
    INIT_GPUS_NOT_SCHEDULED,
    KAI_MAY_REFUSE,
    LIST_REPLACES_GIVEN,
    NUMBERS_HIDE_GIVEN,
    PRIVILEGED_REFUSED,
    PRIVILEGED_SEES_ALL,
    REFIT_AFTER_BINDING,
    REFIT_WITH_LIST,
)
from webhook.words.catalogue.claims import PERHAPS_OF_HAMI
from webhook.words.catalogue.opting import COUNT_SERVED_BY_CLAIMS, OPTION_NOT_KEPT
from webhook.words.catalogue.peers import USER_OF_IMAGE, USERS_DIFFER
from webhook.words.catalogue.variables import COMMAND_SETS_LIST, COMMAND_SWITCHES_OFF
from webhook.words.choices import Alignment, Carrier, OnViolation
from webhook.words.outcome import Reason

PURPOSE = "say what may go wrong"
_KAI = "kai-scheduler"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Warns of the problems of this pod on this cluster."""
    for message in (*unknown_annotations(subject.options.unknown), *stray_keys(subject.pod)):
        patch.warn(message)
    _claims(subject, patch)
    _switched_off(subject, patch)
    if not subject.profile.shares_gpus:
        _own_lists(subject, patch)
    _sees_all_gpus(subject, patch)
    if not subject.resource:
        return  # the rest is about HAMi
    if subject.spec.scheduler_name == _KAI and (subject.profile.shares_gpus or subject.remap.is_added):
        patch.warn(KAI_MAY_REFUSE.say())
    _refit(subject, patch)
    if subject.cluster.denies_privileged:
        _privileged(subject, patch)
    if not subject.cluster.serves_init_containers:
        _gpus_of_init_containers(subject, patch)
    if subject.cluster.has_init_container_fault and subject.remap.carrier is not Carrier.SIDECAR:
        _init_container_fault(subject, patch)


def _claims(subject: Subject, patch: PodPatch) -> None:
    """Warns if claims serve the pod its GPUs, or if something keeps HAMi from serving it."""
    claimed = subject.served_by_claims
    if subject.has_claims:
        is_detected = subject.policy.versions.claimed is None
        if subject.resource and is_detected and subject.cluster.hami is not None:
            # HAMi keeps other pods off cards whose cores are asked for, and no claim serves cores.
            patch.warn(PERHAPS_OF_HAMI.say(resource=subject.resource))
    elif claimed:
        patch.warn(COUNT_SERVED_BY_CLAIMS.say(resource=claimed), Reason.SERVED_BY_CLAIMS)
    elif subject.family == "hami":
        _untreated(subject, patch)
    if subject.profile.shares_gpus:
        _users(subject, patch)


def _untreated(subject: Subject, patch: PodPatch) -> None:
    """Warns of what keeps HAMi from the pod, so that no GPUs of its will be judged by its requirements.

    Raises:
        Refused: the pod denies what violates its requirements.
    """
    for cause, message in untreated(subject.pod, subject.namespace, subject.policy, subject.cluster):
        required = required_options(subject.options)
        # HAMi before 2.7 overwrites the name of the scheduler, and another scheduler may ask our extender.
        is_certain = cause not in (Cause.OTHER_SCHEDULER, Cause.WEBHOOK_IGNORED)
        if required and is_certain and subject.options.on_violation is OnViolation.DENY:
            raise would_not_keep(required, subject.name, message)
        patch.warn(message)
        for name in required:
            patch.warn(OPTION_NOT_KEPT.say(key=names.PREFIX + name, why="HAMi leaves the pod alone", fix=message.fix))


def _users(subject: Subject, patch: PodPatch) -> None:
    """Warns of peers that cannot open each other's shared memory."""
    sharing = [container.spec for container in subject.gpu_containers]
    found = user_difference(users(subject.spec, sharing)) if len(sharing) > 1 else None
    if found and found.other is not None:
        patch.warn(USERS_DIFFER.say(first=found.first, user=found.user, second=found.second, other=found.other))
    elif found:
        patch.warn(USER_OF_IMAGE.say(first=found.first, user=found.user, second=found.second))


def _switched_off(subject: Subject, patch: PodPatch) -> None:
    """Warns of variables with which containers switch NVLink off for themselves."""
    if not subject.profile.shares_gpus and all(
        subject.gpu_request(container).count == 1 for container in subject.gpu_containers
    ):
        return
    for container in subject.gpu_containers:
        for switch in SWITCHES.values():
            text = literal(container.env.get(switch.name))
            if text is not None and switch.takes(text) and _matters(subject, switch):
                patch.warn(switch.warning.say(container=container.name))
        for setting in subject.texts[container].of_program:
            taken = SWITCHES.get(setting.name)
            if taken and setting.value is not None and taken.takes(setting.value) and _matters(subject, taken):
                patch.warn(COMMAND_SWITCHES_OFF.say(container=container.name, variable=setting.name))


def _own_lists(subject: Subject, patch: PodPatch) -> None:
    """Warns of lists of GPUs in ``env`` with which a container does not use the GPUs that it is given."""
    by_list = subject.family in ("hami", "volcano") and subject.policy.device_list_strategy == "envvar"
    for container in subject.gpu_containers:
        visible = container.own_env.get(names.ENV_NVIDIA_VISIBLE_DEVICES)
        if by_list and visible is not None and (visible.value_from or visible.value not in SHOWS_NOTHING):
            patch.warn(LIST_REPLACES_GIVEN.say(container=container.name))
            continue
        used = literal(container.own_env.get(names.ENV_CUDA_VISIBLE_DEVICES))
        count = subject.gpu_request(container).count
        entries = split_list(used or "")
        if used is None or not count or any(entry.startswith(UUID_PREFIX) for entry in entries):
            continue
        shown = show(entries, count, ())
        if shown.used < count or shown.twice:
            patch.warn(NUMBERS_HIDE_GIVEN.say(container=container.name, used=shown.used, count=count))


def _matters(subject: Subject, switch: Switch) -> bool:
    if switch.matters is Matters.PEERS:
        return subject.profile.shares_gpus
    all_linked = required(subject.options).every_pair_linked and subject.options.on_violation is OnViolation.DENY
    return switch.matters is Matters.ALL or not all_linked


def _sees_all_gpus(subject: Subject, patch: PodPatch) -> None:
    """Warns of privileged containers, which get all devices of the host (containerd, container_create.go)."""
    for container in subject.containers:
        if not (container.request and container.spec.is_privileged):
            continue
        patch.warn(PRIVILEGED_SEES_ALL.say(container=container.name))
        # ``visibility`` judges the commands of peers.
        found = () if subject.profile.shares_gpus else subject.texts.get(container, NO_TEXTS).lists
        if found:
            patch.warn(COMMAND_SETS_LIST.say(container=container.name, variables=", ".join(found)))


def _refit(subject: Subject, patch: PodPatch) -> None:
    """Warns that HAMi may change the allocation after the Binding; the peer profiles refuse such a pod before."""
    if not subject.alignment:
        return
    patch.warn(REFIT_AFTER_BINDING.say(alignment=subject.alignment))
    # HAMi's fit keeps to the list in a refit too, and ``strict`` fails the pod where it cannot.
    if subject.alignment is Alignment.STRICT and names.USE_GPU_UUID in subject.pod.annotations:
        patch.warn(REFIT_WITH_LIST.say())


def _privileged(subject: Subject, patch: PodPatch) -> None:
    for container in subject.containers:
        if container.spec.is_privileged:
            patch.warn(PRIVILEGED_REFUSED.say(hami=subject.cluster.hami, container=container.name))


def _gpus_of_init_containers(subject: Subject, patch: PodPatch) -> None:
    for container in subject.containers:
        if container.is_init and container.request:
            patch.warn(INIT_GPUS_NOT_SCHEDULED.say(hami=subject.cluster.hami, container=container.name))


def idle_init_containers(containers: Sequence[PodContainer], *, added: Sequence[str] = ()) -> list[str]:
    """Returns the init containers with whose end HAMi 2.10.0 gives the pod's cards away.

    None if an init container is restartable: it never finishes, so the init containers as a whole never finish.

    Args:
        containers: All containers of the pod.
        added: The names of init containers that the pod will get.
    """
    if any(container.is_native_sidecar for container in containers):
        return []
    return [*(container.name for container in containers if container.is_init and container.request is None), *added]


def _init_container_fault(subject: Subject, patch: PodPatch) -> None:
    ours = (names.REMAP_CONTAINER,) if subject.remap.carrier is Carrier.INIT else ()
    idle = idle_init_containers(subject.containers, added=ours)
    if idle:
        message = CARDS_OFFERED_TO_OTHERS.say(hami=subject.cluster.hami, container=idle[0])
        patch.warn(message, Reason.INIT_CONTAINER_FAULT)
