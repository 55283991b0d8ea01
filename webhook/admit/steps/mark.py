"""The mark: which version of us prepared the pod, and for which profile. Bind looks only at pods that carry it."""

from webhook import __version__
from webhook.admit.pod_patch import PodPatch
from webhook.admit.subject import Subject
from webhook.model import names
from webhook.model.mark import Mark

PURPOSE = "mark it"


def plan(subject: Subject, patch: PodPatch) -> None:
    """One annotation."""
    patch.annotate(names.INJECTED, Mark(__version__, subject.profile).format())
