"""The label and the affinity that bring the pods of one group to one node.

A pod whose GPUs come from a ResourceClaim of several pods needs no affinity: it goes to the node of that claim.
The first pod of a group may go anywhere: kube-scheduler lets a pod satisfy its own required affinity term.
"""

from typing import Any

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.claims.pod import shared_entries
from webhook.objects.pod import PREFERRED_TERMS, REQUIRED_TERMS, PodAffinity
from webhook.words import names
from webhook.words.catalogue.peers import GROUP_LABEL_DIFFERS
from webhook.words.choices import Colocate
from webhook.words.outcome import Reason, Refused

PURPOSE = "bring the pods of its group to one node"

PREFERRED_WEIGHT = 100


def plan(subject: Subject, patch: PodPatch) -> None:
    """Adds the label and one affinity term."""
    group = subject.options.group
    if group is None:
        return
    own = subject.pod.labels.get(names.GROUP)
    if own not in (None, group):
        raise Refused(Reason.CONTRADICTS_PROFILE, GROUP_LABEL_DIFFERS.say(pod=subject.name, label=own, group=group))
    if own is None:
        patch.label(names.GROUP, group)
    if subject.has_claims and shared_entries(subject.pod) & _entries(subject):
        return  # all pods that use a claim go to the node of its devices
    affinity = (subject.spec.affinity.pod_affinity if subject.spec.affinity else None) or PodAffinity()
    term = {"labelSelector": {"matchLabels": {names.GROUP: group}}, "topologyKey": names.HOSTNAME_TOPOLOGY}
    if subject.options.colocate is Colocate.REQUIRED:
        terms = affinity.terms(REQUIRED_TERMS) or []
        if not any(_same(term, other) for other in terms):
            patch.add_affinity_term(REQUIRED_TERMS, term)
    else:
        weighted = affinity.terms(PREFERRED_TERMS) or []
        if not any(_same(term, other.get("podAffinityTerm")) for other in weighted):
            weight = {"weight": PREFERRED_WEIGHT, "podAffinityTerm": term}
            patch.add_affinity_term(PREFERRED_TERMS, weight)


def _entries(subject: Subject) -> set[str]:
    """Returns the names of the claims of its GPU containers."""
    requests = map(subject.gpu_request, subject.gpu_containers)
    return {use.entry for request in requests if request.claimed for use in request.claimed.uses}


def _same(term: dict[str, Any], other: Any) -> bool:
    """Returns whether ``other`` equals ``term``, apart from defaults that the API server may have added."""
    return isinstance(other, dict) and all(other.get(key) == value for key, value in term.items())
