"""GT36: the start of a pod, as the status of its remap container shows it."""

from collections.abc import Mapping
from types import MappingProxyType

from webhook.words.catalogue.entry import Entry

_PAGE = "troubleshooting.md#the-container-gpu-topology-remap-fails"

NOT_VERIFIED_YET = Entry(
    "GT362",
    "the remap container has not verified the GPUs of the pod",
    "Wait until the pod has started; kubectl describe pod says how far it is",
    _PAGE,
)
NEVER_VERIFIED = Entry(
    "GT363",
    "the webhook did not prepare the pod, so no program in it verified its GPUs",
    "Run the pod with NCCL_DEBUG=INFO and give what NCCL says: kubectl logs {pod} | gpu-topology explain -f pod.yaml "
    "--nccl-log -. Or let the webhook prepare the pod",
    "explain.md#what-nccl-says",
)
IMAGE_NOT_PULLED = Entry(
    "GT365",
    "the pod cannot start: the image of container {container} is not there ({reason}){said}",
    "Set remap.image in the values of the chart to an image that the nodes can pull, and give the namespace of the pod "
    "the pull secret that its registry needs; then delete the pod, because its image cannot be changed",
    _PAGE,
)
NOT_CREATED = Entry(
    "GT366",
    "the pod cannot start: container {container} cannot be created ({reason}){said}",
    "See to what the kubelet says, then delete the pod; its controller makes a new one",
    _PAGE,
)
STOPPED = Entry(
    "GT367",
    "the pod was stopped: container {container} ended with exit code {code}{said}",
    "For exit code {code}: {remedy}",
    _PAGE,
)
STILL_VERIFYING = Entry(
    "GT368",
    "container {container} has run for {seconds} s and has not verified the GPUs of the pod",
    "Read its log (kubectl logs POD -c {container}); if it waits for the driver, see whether nvidia-smi answers on the "
    "node",
    _PAGE,
)
UNKNOWN_DEVICE = Entry(
    "GT370",
    "the pod cannot start: container {container} is given a GPU that its node does not have ({said})",
    "Look on the node whether nvidia-smi -L lists that GPU. If not, restart HAMi's device plugin there, so that HAMi "
    "gives it no more; if it does, look who sets NVIDIA_VISIBLE_DEVICES. Then delete the pod; its controller makes a "
    "new one",
    "troubleshooting.md#unknown-device",
)
NO_REMAP_IN_POD = Entry(
    "GT369",
    "the pod has no container gpu-topology-remap, although the webhook adds one: no program in the pod verifies its "
    "GPUs",
    "Look for another webhook or a controller that removes it, and create the pod again",
    _PAGE,
)

_AGAIN = "delete the pod; its controller makes a new one"
_REMEDIES: Mapping[int, str] = MappingProxyType(
    {
        1: "see whether nvidia-smi answers on the node, and how fast; then " + _AGAIN,
        2: "use the image of the webhook's own release for remap.image, then " + _AGAIN,
        10: "see with gpu-topology analyze whether the webhook is asked about the Bindings of the pod's scheduler, "
        "then " + _AGAIN,
        11: "see whether a GPU of the node was replaced or lost (Events of the node), restart HAMi's device plugin "
        "there, then " + _AGAIN,
        12: "see whether a GPU of the node was replaced, or whether the annotations of the pod were changed; restart "
        "HAMi's device plugin there. With hami.io/numa-alignment HAMi itself may have changed them (Event "
        "NumaRefitSucceed): remove it from the template; then " + _AGAIN,
        13: "switch MIG mode off on the node, or keep pods of peer profiles away from it; then " + _AGAIN,
        14: "see whether the image sets LD_PRELOAD or /etc/ld.so.preload itself, and whether the version of HAMi knows "
        "CUDA_DISABLE_CONTROL; then " + _AGAIN,
        15: "require less, or have other GPUs chosen (gpu-topology topology plan); then " + _AGAIN,
        16: "see whether the runtime class reaches the container, or publish the node with the agent; then " + _AGAIN,
        17: "compare the annotations of the pod with what the webhook wrote (its log line binding), and use the image "
        "of the webhook's own release for remap.image; then " + _AGAIN,
        18: "see whether another container fills the volume, or whether the manifest mounts it read-only; then "
        + _AGAIN,
        19: "see why a GPU of the node is not visible in the container; node-peers needs all of them; then " + _AGAIN,
        20: "report the traceback in its log as a bug, then " + _AGAIN,
        21: "see whether nvidia-smi answers on the node, and how fast (nvidia-smi -pm 1 keeps the driver awake); then "
        + _AGAIN,
    }
)
"""What helps after each exit code of the remap program (docs/injection.md, section 12)."""
_OTHER = "read its log (kubectl logs POD -c {container} --previous), then " + _AGAIN


def remedy(code: int, container: str) -> str:
    """Returns what helps after an exit code of the remap container."""
    return _REMEDIES.get(code) or _OTHER.format(container=container)
