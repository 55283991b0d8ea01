"""The runtime class, on clusters where the NVIDIA runtime is not the default one.

A class that does not exist is left out: the API server refuses a pod that names it (kubernetes
plugin/pkg/admission/runtimeclass/admission.go), so every injected pod would be refused. NVIDIA's GPU Operator removes
its class ``nvidia`` where its NRI plugin gives containers their devices.
"""

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.words.catalogue.installation import RUNTIME_CLASS_LEFT_OUT
from webhook.words.errors import shorten

PURPOSE = "run it with the NVIDIA runtime"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Sets ``runtimeClassName``, if it is configured and the pod has none."""
    configured = subject.policy.remap.runtime_class_name
    if not subject.resource:
        return  # any runtime puts devices of claims into containers (CDI)
    if not configured or subject.spec.runtime_class_name:
        return
    if configured in subject.cluster.missing_runtime_classes:
        patch.warn(RUNTIME_CLASS_LEFT_OUT.say(name=shorten(configured)))
    else:
        patch.set_spec("runtimeClassName", configured, replaces=subject.spec.runtime_class_name is not None)
