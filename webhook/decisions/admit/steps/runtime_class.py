"""The runtime class, on clusters where the NVIDIA runtime is not the default one."""

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject

PURPOSE = "run it with the NVIDIA runtime"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Sets ``runtimeClassName``, if it is configured and the pod has none."""
    configured = subject.policy.remap.runtime_class_name
    if not subject.resource:
        return  # any runtime puts devices of claims into containers (CDI)
    if configured and not subject.spec.runtime_class_name:
        patch.set_spec("runtimeClassName", configured, replaces=subject.spec.runtime_class_name is not None)
