"""The mark: which version of us prepared the pod, and for which profile. Bind looks only at pods that carry it.

Output annotations that a user wrote go: whoever reads them must find what we wrote.
"""

from webhook import __version__
from webhook.admit.pod_patch import PodPatch
from webhook.admit.subject import Subject
from webhook.model import names
from webhook.model.choices import Profile
from webhook.model.mark import Mark

PURPOSE = "mark it"

_MARKS = {profile: Mark(__version__, profile).format() for profile in Profile}


def plan(subject: Subject, patch: PodPatch) -> None:
    """One annotation; runs last."""
    patch.annotate(names.INJECTED, _MARKS[subject.profile])
    for key in subject.options.outputs:
        if key not in patch.annotated:
            patch.drop_annotation(key)
