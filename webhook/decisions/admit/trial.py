"""The trial of each injection step by itself on a pod: its remaining changes, its warnings and its refusal.

Explanations of a pod use these trials, so that there is no second set of rules.
"""

import msgspec

from webhook.decisions.admit.admission import new_patch
from webhook.decisions.admit.steps import STEPS
from webhook.decisions.admit.subject import Subject
from webhook.words.errors import FormatError
from webhook.words.outcome import AdmissionWarning, Refused
from webhook.words.patch import Operation


class StepTrial(msgspec.Struct, frozen=True):
    """The result of one step."""

    name: str
    purpose: str
    """Finishes the sentence "the webhook would ..."."""
    operations: tuple[Operation, ...]
    """The changes that the pod lacks; empty where it has all of them."""
    warnings: tuple[AdmissionWarning, ...]
    refusal: str
    """The reason why the step would refuse the pod; empty if it would not."""


def try_steps(subject: Subject) -> dict[str, StepTrial]:
    """Returns the trials of all steps by name, in order. A step that refuses the pod does not end the others.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    patch = new_patch(subject)
    trials = {}
    for step in STEPS:
        operations, insertions, warnings = len(patch.operations), len(patch.insertions), len(patch.warnings)
        refusal = ""
        try:
            step.plan(subject, patch)
        except Refused as refused:
            refusal = refused.message
        except FormatError as error:
            refusal = str(error)
        trials[step.name] = StepTrial(
            step.name,
            step.purpose,
            (*patch.operations[operations:], *patch.insertions[insertions:]),
            tuple(patch.warnings[warnings:]),
            refusal,
        )
    return trials
