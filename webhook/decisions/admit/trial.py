"""The trial of each injection step by itself on a pod: its remaining changes, its warnings and its refusal.

Explanations of a pod use these trials, so that there is no second set of rules.
"""

import msgspec

from webhook.decisions.admit.admission import new_patch, run_step
from webhook.decisions.admit.steps import STEPS
from webhook.decisions.admit.subject import Subject
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.opting import BAD_OPTION
from webhook.words.errors import FormatError
from webhook.words.outcome import AdmissionWarning
from webhook.words.patch import Operation


class StepTrial(msgspec.Struct, frozen=True):
    """The result of one step."""

    name: str
    purpose: str
    """Finishes the sentence "the webhook would ..."."""
    operations: tuple[Operation, ...]
    """The changes that the pod lacks; empty where it has all of them."""
    warnings: tuple[AdmissionWarning, ...]
    refusals: tuple[Message, ...]
    """The reasons why the step would refuse the pod; none if it would not."""

    @property
    def refusal(self) -> str:
        """The reasons with their advice, as one text; empty if there is none."""
        return "; ".join(message.advice for message in self.refusals)


def try_steps(subject: Subject) -> dict[str, StepTrial]:
    """Returns the trials of all steps by name, in order. A step that refuses the pod does not end the others.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    patch = new_patch(subject)
    trials = {}
    for step in STEPS:
        operations, insertions, warnings = len(patch.operations), len(patch.insertions), len(patch.warnings)
        patch.refusals = []
        problem = []
        try:
            run_step(step, subject, patch)
        except FormatError as error:
            problem = [BAD_OPTION.say(problem=error)]
        trials[step.name] = StepTrial(
            step.name,
            step.purpose,
            (*patch.operations[operations:], *patch.insertions[insertions:]),
            tuple(patch.warnings[warnings:]),
            (*dict.fromkeys(refused.found for refused in patch.refusals), *problem),
        )
    return trials
