"""The scheduling gate and the label of a pod that waits for the planner.

Admission never removes our gate from a pod that has it: an earlier admission of the pod may have added it. Planner and
webhook find waiting pods by the label, so every pod with the gate has it, and no other pod.
"""

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.objects.pod import Pod, has_entries
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.placement import GATE_OF_ITS_OWN
from webhook.words.choices import Placement


def hold(pod: Pod, patch: PodPatch) -> None:
    """Adds gate and label, so that no scheduler looks at the pod until the planner removes the gate."""
    if not _is_held(pod):
        patch.add_gate(names.PLACE_GATE)
    patch.label(names.PLACEMENT, Placement.WAITING)


def let_pass(pod: Pod, patch: PodPatch, why: Message) -> None:
    """Adds no gate to a pod whose cards the planner does not choose.

    A gate that is there stays, with a warning. Without a gate the label is removed.

    Args:
        pod: The pod before the patch.
        patch: The patch of the pod.
        why: The reason why the planner does not choose the cards.
    """
    if _is_held(pod):
        patch.warn(GATE_OF_ITS_OWN.say(why=why.text))
        patch.label(names.PLACEMENT, Placement.WAITING)
    elif names.PLACEMENT in pod.labels:
        patch.drop_label(names.PLACEMENT)


def is_touched(pod: Pod) -> bool:
    """Returns whether the pod has the gate or the label already."""
    return names.PLACEMENT in pod.labels or _is_held(pod)


def _is_held(pod: Pod) -> bool:
    spec = pod.spec
    return spec is not None and has_entries(spec.scheduling_gates_json) and names.PLACE_GATE in spec.scheduling_gates
