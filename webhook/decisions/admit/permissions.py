"""The permissions of a namespace: labels, which only an administrator can set, for all that reaches beyond a pod."""

import re
from collections.abc import Iterator

from webhook.decisions.admit.subject import Subject
from webhook.decisions.request.gpu_lists import SHOWS_NOTHING
from webhook.words import names
from webhook.words.catalogue.opting import NOT_ALLOWED
from webhook.words.choices import Profile
from webhook.words.errors import shorten
from webhook.words.outcome import Reason, Refused

HOST_NAMESPACE_LABELS = {
    "hostIPC": names.ALLOW_HOST_IPC,
    "hostPID": names.ALLOW_HOST_PID,
    "hostNetwork": names.ALLOW_HOST_NETWORK,
}

_NRI_DEVICES = re.compile(rf"{re.escape(names.NRI_DEVICES)}(/container\..*|/pod)?", re.DOTALL)
_GPUS = "/gpu="
"""A part of the names of CDI devices that are GPUs: nvidia.com/gpu=0, management.nvidia.com/gpu=all."""

_INSTEAD = f" (to reach the GPUs of other pods, set {names.PROFILE}: {Profile.NODE_PEERS} instead)"


def check_permissions(subject: Subject) -> None:
    """Refuses a pod that needs something that its namespace is not allowed.

    Raises:
        Refused: a permission is missing. The message names all that are missing, and the labels that give them.
    """
    missing: dict[str, str] = {}
    for label, need in _needs(subject):
        if not subject.namespace.allows(label):
            missing.setdefault(label, need)
    if missing:
        needs = "; ".join(missing.values())
        labels = ", ".join(f'{label}: "true"' for label in missing)
        message = NOT_ALLOWED.say(pod=subject.name, needs=needs, namespace=subject.namespace.name, labels=labels)
        raise Refused(Reason.MISSING_PERMISSION, message)


def _needs(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yields each label that must be set, with the reason."""
    for field in subject.host.ours:
        yield HOST_NAMESPACE_LABELS[field], f"it needs {field}"
    if subject.profile is Profile.NODE_PEERS and not subject.has_claims:  # peers see what their claim was given
        yield names.ALLOW_NODE_GPUS, f"profile {subject.profile} shows it every GPU of the node"
    peers = subject.profile is Profile.POD_PEERS
    union = subject.sources(names.VISIBLE_UUIDS, names.ENV_NVIDIA_VISIBLE_DEVICES)
    for container in subject.containers:
        own = container.env.get(names.ENV_NVIDIA_VISIBLE_DEVICES)
        if own is None or container is subject.remap.container or (peers and any(map(own.reads, union))):
            continue
        # With a list of its own any container of the pod could see the cards of another tenant.
        if own.value_from is not None or (own.value or "") not in SHOWS_NOTHING:
            need = f"container {container.name} sets {names.ENV_NVIDIA_VISIBLE_DEVICES} itself"
            yield names.ALLOW_NODE_GPUS, need if subject.profile is Profile.NODE_PEERS else need + _INSTEAD
    # NVIDIA's NRI plugin gives any container the GPUs that an annotation of the pod names.
    for key, devices in subject.pod.annotations.items():
        if _NRI_DEVICES.fullmatch(key) and _GPUS in devices:
            yield names.ALLOW_NODE_GPUS, f"annotation {shorten(key)} asks NVIDIA's NRI plugin for GPUs"
