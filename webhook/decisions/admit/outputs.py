"""Output annotations that a pod already has. The pod keeps no value that we did not write, injected or not.

An annotation that no variable refers to is removed. One from which a variable takes its value gets the value that
admission writes while nothing is known of the pod's GPUs: without the annotation the variable would be empty, which
NCCL misreads, and the value that the user wrote would be untrue.

``gpu.topology/nccl-p2p-level`` is an option, and the output from which ``NCCL_P2P_LEVEL`` takes its value. It is the
output where a variable refers to it, and the user's option elsewhere.
"""

from collections.abc import Collection, Iterable

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import is_output
from webhook.decisions.resolve.nccl import nccl_defaults
from webhook.decisions.resolve.outputs import FOR_PEOPLE, UNKNOWN, nccl_annotations
from webhook.objects.pod import Pod
from webhook.words import names
from webhook.words.catalogue.opting import READS_UNKNOWN_OUTPUT
from webhook.words.errors import shorten
from webhook.words.outcome import Reason, Refused

_NOT_PLACED = "{}"
_NOTHING_CLAIMED = ""
_FIXED = {
    names.VISIBLE_UUIDS: names.NO_VISIBLE_DEVICE,
    names.NODE_TOPOLOGY: names.UNKNOWN_TOPOLOGY,
    names.PLACED: _NOT_PLACED,
    names.CLAIMED_GPUS: _NOTHING_CLAIMED,
    **dict.fromkeys(FOR_PEOPLE, UNKNOWN),
}


def brought_outputs(pod: Pod) -> list[str]:
    """Returns the annotations of the pod that only we write, and the one that is an option as well."""
    return [key for key in pod.annotations if is_output(key) or key == names.NCCL_P2P_LEVEL]


def disown(keys: Iterable[str], referred: Collection[str], patch: PodPatch, policy: AdmitPolicy) -> None:
    """Removes output annotations, or gives them the value that they have until bind.

    Args:
        keys: Output annotations that the pod has.
        referred: The annotations from which variables of the pod take their values.
        patch: The patch of the pod.
        policy: The configuration.

    Raises:
        Refused: a variable takes its value from an annotation that we would never write.
    """
    for key in keys:
        if key not in referred or key == names.INJECTED:  # a pod that was not injected has no mark, even if it is read
            if key != names.NCCL_P2P_LEVEL:
                patch.drop_annotation(key)
            continue
        value = _value_until_bind(key, policy)
        if value is None:
            raise Refused(Reason.UNKNOWN_OUTPUT, READS_UNKNOWN_OUTPUT.say(key=shorten(key)))
        patch.annotate(key, value)


def _value_until_bind(key: str, policy: AdmitPolicy) -> str | None:
    """Returns the value of the annotation while nothing is known of the pod's GPUs; None if we never write it."""
    if key.startswith(names.CUDA_VISIBLE_DEVICES_PREFIX):
        return names.NO_CUDA_DEVICE
    if key in _FIXED:
        return _FIXED[key]
    return nccl_annotations((*policy.fixed_nccl, *nccl_defaults(policy.nccl_tables))).get(key)
