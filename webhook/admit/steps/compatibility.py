"""What will go wrong although nothing here can change it. Only warnings."""

from collections.abc import Iterator

from webhook.admit.edits import Finding
from webhook.admit.subject import Subject
from webhook.model import names
from webhook.model.options import Carrier, unknown_annotations
from webhook.model.outcome import Reason, Warning

PURPOSE = "say what may go wrong"


def plan(subject: Subject) -> Iterator[Finding]:
    """Warnings about this pod on this cluster."""
    yield from _unknown_annotations(subject)
    yield from _privileged(subject)
    yield from _init_containers(subject)


def _unknown_annotations(subject: Subject) -> Iterator[Finding]:
    for key, meant in unknown_annotations(subject.pod.annotations):
        yield Warning(f"unknown annotation {key}" + (f"; did you mean {meant}?" if meant else ""))


def _privileged(subject: Subject) -> Iterator[Finding]:
    if not subject.cluster.denies_privileged:
        return
    for one in subject.containers:
        context = one.container.security_context
        if context and context.privileged:
            yield Warning(f"HAMi {subject.cluster.hami} refuses GPU pods with a privileged container: {one.name}")


def _init_containers(subject: Subject) -> Iterator[Finding]:
    cluster = subject.cluster
    plain = [one for one in subject.containers if one.is_init and not one.is_native_sidecar and not one.is_ours]
    if cluster.hami is not None and not cluster.serves_init_containers:
        for one in plain:
            if one.request:
                yield Warning(f"HAMi {cluster.hami} does not schedule GPUs for init containers: {one.name}")
    if not cluster.has_init_container_fault or subject.carrier is Carrier.SIDECAR:
        return
    if any(one.is_native_sidecar for one in subject.containers):
        return
    idle = [one.name for one in plain if one.request is None]
    if subject.carrier is Carrier.INIT:
        idle.append(names.REMAP_CONTAINER)
    if idle:
        text = f"HAMi {cluster.hami} offers this pod's cards to others once init container {idle[0]} finishes"
        yield Warning(text, Reason.INIT_CONTAINER_FAULT)
