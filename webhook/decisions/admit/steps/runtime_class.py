"""The runtime class, on clusters where the NVIDIA runtime is not the default one."""

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject

PURPOSE = "run it with the NVIDIA runtime"


def plan(subject: Subject, patch: PodPatch) -> None:
    """``runtimeClassName``, if configured and not set."""
    configured = subject.policy.remap.runtime_class_name
    if not subject.resource:
        return  # devices of claims are put into containers by any runtime (CDI)
    if configured and not subject.spec.runtime_class_name:
        patch.set_spec("runtimeClassName", configured, replaces=subject.spec.runtime_class_name is not None)
