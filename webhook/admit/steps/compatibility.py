"""What will go wrong although nothing here can change it. Only warnings."""

from webhook.admit.pod_patch import PodPatch
from webhook.admit.subject import Subject
from webhook.model import names
from webhook.model.options import Carrier, unknown_annotations
from webhook.model.outcome import Reason

PURPOSE = "say what may go wrong"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Warnings about this pod on this cluster."""
    _unknown_annotations(subject, patch)
    _privileged(subject, patch)
    _init_containers(subject, patch)


def _unknown_annotations(subject: Subject, patch: PodPatch) -> None:
    for key, meant in unknown_annotations(subject.pod.annotations):
        patch.warn(f"unknown annotation {key}" + (f"; did you mean {meant}?" if meant else ""))


def _privileged(subject: Subject, patch: PodPatch) -> None:
    if not subject.cluster.denies_privileged:
        return
    for one in subject.containers:
        if one.container.is_privileged:
            patch.warn(f"HAMi {subject.cluster.hami} refuses GPU pods with a privileged container: {one.name}")


def _init_containers(subject: Subject, patch: PodPatch) -> None:
    cluster = subject.cluster
    plain = [one for one in subject.containers if one.is_init and not one.is_native_sidecar and not one.is_ours]
    if cluster.hami is not None and not cluster.serves_init_containers:
        for one in plain:
            if one.request:
                patch.warn(f"HAMi {cluster.hami} does not schedule GPUs for init containers: {one.name}")
    if not cluster.has_init_container_fault or subject.carrier is Carrier.SIDECAR:
        return
    if any(one.is_native_sidecar for one in subject.containers):
        return
    idle = [one.name for one in plain if one.request is None]
    if subject.carrier is Carrier.INIT:
        idle.append(names.REMAP_CONTAINER)
    if idle:
        text = f"HAMi {cluster.hami} offers this pod's cards to others once init container {idle[0]} finishes"
        patch.warn(text, Reason.INIT_CONTAINER_FAULT)
