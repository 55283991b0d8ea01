"""The runtime class, on clusters where the NVIDIA runtime is not the default one."""

from collections.abc import Iterator

from webhook.admit.edits import Finding, SetSpec
from webhook.admit.subject import Subject

PURPOSE = "run it with the NVIDIA runtime"


def plan(subject: Subject) -> Iterator[Finding]:
    """``runtimeClassName``, if configured and not set."""
    configured = subject.policy.remap.runtime_class_name
    if configured and not subject.spec.runtime_class_name:
        yield SetSpec("runtimeClassName", configured, subject.spec.runtime_class_name is not None)
