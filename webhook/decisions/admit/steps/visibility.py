"""The GPUs that a container sees, and those of them that it uses.

CUDA IPC needs the peer's GPU to be visible in the importing container, but each container must use only its own GPUs.
``NVIDIA_VISIBLE_DEVICES`` lists the visible GPUs, ``CUDA_VISIBLE_DEVICES`` those that are used. The container's value
wins over the device plugin's only with the device list strategy ``envvar``. Until bind writes the real values
``CUDA_VISIBLE_DEVICES`` names no GPU, and ``NVIDIA_VISIBLE_DEVICES`` none either, except in ``node-peers``, where it is
``all`` from the start. So a pod that bypassed bind stops instead of running on the card of another pod.
"""

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.admit.variables import require_reference, require_value
from webhook.objects.references import visible_devices_line
from webhook.words import names
from webhook.words.catalogue.peers import OTHER_DEVICE_LIST_STRATEGY, PASSING_GPU_CONTAINER, REFIT_WITH_PEERS
from webhook.words.catalogue.variables import COMMAND_MAY_NOT_SET_LIST, COMMAND_SETS_LIST
from webhook.words.choices import OnViolation, Profile
from webhook.words.outcome import Reason, Refused

PURPOSE = "show each container its peers' GPUs"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Sets three variables and the annotations that they read; nothing in ``exclusive`` or with claims."""
    if not subject.profile.shares_gpus or subject.has_claims:
        return  # claims show a container its GPUs: the runtime replaces the variables
    strategy = subject.policy.device_list_strategy
    if strategy != "envvar":
        message = OTHER_DEVICE_LIST_STRATEGY.say(profile=subject.profile, strategy=strategy)
        raise Refused(Reason.DEVICE_LIST_STRATEGY, message)
    _refuse_passing_containers(subject)
    _refuse_refit(subject)
    _judge_commands(subject, patch)
    _variables(subject, patch)
    for key in subject.visible_device_keys.values():
        patch.annotate(key, subject.allocated.get(key, names.NO_CUDA_DEVICE))
    if subject.profile is Profile.POD_PEERS:
        patch.annotate(names.VISIBLE_UUIDS, subject.allocated.get(names.VISIBLE_UUIDS, names.NO_VISIBLE_DEVICE))


def _refuse_passing_containers(subject: Subject) -> None:
    for container in subject.gpu_containers:
        if container.is_init and not container.is_native_sidecar:
            message = PASSING_GPU_CONTAINER.say(container=container.name, profile=subject.profile)
            raise Refused(Reason.CONTRADICTS_PROFILE, message)


def _refuse_refit(subject: Subject) -> None:
    """Refuses a pod whose allocation HAMi may change after the Binding.

    The containers would go on seeing the cards of the Binding, which HAMi then gives to other pods. The remap program
    cannot be relied on to notice: the kubelet starts it with the pod as it was when its admission began
    (``HandlePodAdditions`` of Kubernetes, pkg/kubelet/kubelet.go).
    """
    if subject.alignment:
        message = REFIT_WITH_PEERS.say(pod=subject.name, alignment=subject.alignment, profile=subject.profile)
        raise Refused(Reason.CONTRADICTS_PROFILE, message)


def _judge_commands(subject: Subject, patch: PodPatch) -> None:
    """Warns of commands that set a list of GPUs, or refuses them.

    Such a list overrides the one that follows from the allocation, and the container sees GPUs of other containers.
    """
    for container, texts in subject.texts.items():
        found = ", ".join(texts.lists)
        if found and subject.options.on_violation is OnViolation.DENY:
            said = COMMAND_MAY_NOT_SET_LIST.say(container=container.name, variables=found, profile=subject.profile)
            raise Refused(Reason.CONTRADICTS_PROFILE, said)
        if found:
            patch.warn(COMMAND_SETS_LIST.say(container=container.name, variables=found))


def _variables(subject: Subject, patch: PodPatch) -> None:
    profile = subject.profile
    keys = subject.visible_device_keys
    for container in subject.gpu_containers:
        require_value(patch, container, names.ENV_CUDA_DEVICE_ORDER, "PCI_BUS_ID", profile)
        key = keys[container.name]
        indices = subject.sources(key, visible_devices_line(key))
        require_reference(patch, container, names.ENV_CUDA_VISIBLE_DEVICES, indices, profile)
        if subject.profile is Profile.NODE_PEERS:
            require_value(patch, container, names.ENV_NVIDIA_VISIBLE_DEVICES, "all", profile)
        else:
            uuids = subject.sources(names.VISIBLE_UUIDS, names.ENV_NVIDIA_VISIBLE_DEVICES)
            require_reference(patch, container, names.ENV_NVIDIA_VISIBLE_DEVICES, uuids, profile)
