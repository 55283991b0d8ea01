"""The mark of an injected pod: our version and the profile. It is for people; no decision depends on it.

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
    """Writes the mark and, for GPUs that are known already, the annotations for people. Runs last."""
    patch.annotate(names.INJECTED, _MARKS[subject.profile])
    for key, value in subject.allocated.items():
        if key in FOR_PEOPLE:
            patch.annotate(key, value)
    stale = [key for key in brought_outputs(subject.pod) if key not in patch.annotated]
    if stale:
        # The remap container refers only to annotations that its step has written.
        others = subject.remap.without_it(subject.containers)
        referred = filter(None, (annotation_of(variable) for other in others for variable in other.env.values()))
        disown(stale, frozenset(referred), patch, subject.policy)
