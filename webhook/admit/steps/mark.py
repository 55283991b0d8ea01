"""The mark: which version of us prepared the pod, and for which profile. Bind looks only at pods that carry it.

Output annotations that a user wrote go: whoever reads them must find what we wrote.
"""

from webhook import __version__
from webhook.admit.pod_patch import PodPatch
from webhook.admit.subject import Subject
from webhook.model import names
from webhook.model.mark import Mark
from webhook.model.options import is_output

PURPOSE = "mark it"


def plan(subject: Subject, patch: PodPatch) -> None:
    """One annotation; runs last."""
    patch.annotate(names.INJECTED, Mark(__version__, subject.profile).format())
    for key in subject.pod.annotations:
        if key.startswith(names.PREFIX) and key not in patch.annotated and is_output(key):
            patch.drop_annotation(key)
