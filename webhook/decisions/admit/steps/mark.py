"""The mark: which version of us prepared the pod, and for which profile. It is for people: nothing is decided by it.

Output annotations that no step wrote are the user's, and are removed.
"""

from webhook import __version__
from webhook.decisions.admit.outputs import brought_outputs, disown
from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.resolve.outputs import FOR_PEOPLE
from webhook.objects.references import annotation_of
from webhook.words import names
from webhook.words.choices import Profile
from webhook.words.mark import Mark

PURPOSE = "mark it"

_MARKS = {profile: Mark(__version__, profile).format() for profile in Profile}


def plan(subject: Subject, patch: PodPatch) -> None:
    """The mark, and what people may want to know of GPUs that are known already; runs last."""
    patch.annotate(names.INJECTED, _MARKS[subject.profile])
    for key, value in subject.allocated.items():
        if key in FOR_PEOPLE:
            patch.annotate(key, value)
    stale = [key for key in brought_outputs(subject.pod) if key not in patch.annotated]
    if stale:
        disown(stale, _referred(subject), patch, subject.policy)


def _referred(subject: Subject) -> frozenset[str]:
    """The annotations of the users' own variables; the remap container refers to what its step has annotated."""
    others = subject.remap.without_it(subject.containers)
    return frozenset(filter(None, (annotation_of(variable) for other in others for variable in other.env.values())))
