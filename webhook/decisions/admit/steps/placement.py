"""The scheduling gate and the label with which a pod waits until the planner has chosen its cards.

A scheduler does not look at a pod with a gate (KEP-3521). Gates can only be added while the pod is created.
"""

from webhook.decisions.admit.gate import hold, let_pass
from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.options import Options, name_of_node_policy
from webhook.decisions.request.demand import required
from webhook.decisions.request.placement import PodToPlace, Unplaced, not_waiting, unplaced
from webhook.words import names
from webhook.words.catalogue.cards import REFIT_WITH_LIST
from webhook.words.catalogue.placement import DENIES_WITHOUT_PLANNER, NO_EFFECT
from webhook.words.choices import Alignment, OnViolation

PURPOSE = "hold it back until its cards are chosen"

WISHES = ("group-size", "place-wait", "max-nodes", "min-gpus-per-node", "min-network-bandwidth", "node-policy")
"""Options that the planner alone looks at."""

_DEFAULTS = Options()


def plan(subject: Subject, patch: PodPatch) -> None:
    """Adds gate and label if the planner chooses the cards; else warns of options that only the planner heeds."""
    absent = not_waiting(subject.policy, subject.cluster)
    found = absent or _unplaced(subject)
    if found is None:
        hold(subject.pod, patch)
        if subject.alignment is Alignment.STRICT:  # the planner pins the cards with ``use-gpuuuid``
            patch.warn(REFIT_WITH_LIST.say())
        return
    let_pass(subject.pod, patch, found.message)
    for name in WISHES:
        written = _written_as(subject, name)
        if written:
            patch.warn(NO_EFFECT.say(key=names.PREFIX + written, why=found.message.text))
    if absent and _denies_what_hami_chooses(subject):
        patch.warn(DENIES_WITHOUT_PLANNER.say(why=absent.message.text))


def _denies_what_hami_chooses(subject: Subject) -> bool:
    """Returns whether bind may refuse the cards that HAMi has chosen, and that it then keeps for the pod."""
    options = subject.options
    may_choose = subject.family == "hami" and not subject.served_by_claims and not subject.allocated
    return may_choose and options.on_violation is OnViolation.DENY and bool(required(options))


def _unplaced(subject: Subject) -> Unplaced | None:
    return unplaced(
        PodToPlace(
            pod=subject.pod,
            options=subject.options,
            profile=subject.profile,
            requests=subject.requests,
            namespace=subject.namespace,
            policy=subject.policy,
            cluster=subject.cluster,
        )
    )


def _written_as(subject: Subject, name: str) -> str:
    """Returns the name by which the pod's own annotations set an option; empty if they leave it at its default."""
    field, annotations = name.replace("-", "_"), subject.pod.annotations
    if getattr(subject.options, field) == getattr(_DEFAULTS, field):
        return ""
    if name == "node-policy":
        return name_of_node_policy(annotations, names.PREFIX)
    return name if names.PREFIX + name in annotations else ""
