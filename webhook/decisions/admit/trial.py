"""Each injection step by itself, on a pod as it is: what it would still change, and what it would refuse.

Whoever explains a pod asks the steps, so that there is no second set of rules.
"""

import msgspec

from webhook.decisions.admit.admission import new_patch
from webhook.decisions.admit.steps import STEPS
from webhook.decisions.admit.subject import Subject
from webhook.words.errors import FormatError
from webhook.words.outcome import AdmissionWarning, Refused
from webhook.words.patch import Operation


class StepTrial(msgspec.Struct, frozen=True):
    """One step, tried."""

    name: str
    purpose: str
    """Finishes the sentence "the webhook would ..."."""
    operations: tuple[Operation, ...]
    """What is missing; empty where the pod has everything."""
    warnings: tuple[AdmissionWarning, ...]
    refusal: str
    """Why the pod would be refused; empty if it would not."""


def try_steps(subject: Subject) -> dict[str, StepTrial]:
    """The steps by their names, in their order. One that refuses the pod does not end the others.

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
