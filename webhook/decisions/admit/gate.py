"""The scheduling gate and the label of a pod that waits for the planner: what admission adds, keeps and takes away.

A gate of ours that is there stays, whoever wrote it: the pod may have come through admission a moment ago. The label is
what planner and webhook find waiting pods by, so it stands on every pod with the gate and on no other.
"""

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.objects.pod import Pod, has_entries
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.placement import GATE_OF_ITS_OWN
from webhook.words.choices import Placement


def hold(pod: Pod, patch: PodPatch) -> None:
    """Let no scheduler look at the pod until the planner says so."""
    if not _is_held(pod):
        patch.add_gate(names.PLACE_GATE)
    patch.label(names.PLACEMENT, Placement.WAITING)


def let_pass(pod: Pod, patch: PodPatch, why: Message) -> None:
    """Do not hold a pod whose cards the planner does not choose.

    Args:
        pod: As it is.
        patch: Of the pod.
        why: The planner does not.
    """
    if _is_held(pod):
        patch.warn(GATE_OF_ITS_OWN.say(why=why.text))
        patch.label(names.PLACEMENT, Placement.WAITING)
    elif names.PLACEMENT in pod.labels:
        patch.drop_label(names.PLACEMENT)


def is_touched(pod: Pod) -> bool:
    """Whether the pod has the gate or the label already."""
    return names.PLACEMENT in pod.labels or _is_held(pod)


def _is_held(pod: Pod) -> bool:
    spec = pod.spec
    return spec is not None and has_entries(spec.scheduling_gates_json) and names.PLACE_GATE in spec.scheduling_gates
