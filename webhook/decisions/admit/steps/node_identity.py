"""The variables by which NCCL sees that ranks in different pods are on one node.

NCCL treats ranks with different host names as ranks on different nodes; ``NCCL_HOSTID`` replaces the host name. By
default NCCL passes memory handles over a Unix socket in the abstract namespace, which separate network namespaces do
not share, hence ``NCCL_CUMEM_ENABLE=0`` (legacy CUDA IPC). Source: NCCL src/misc/utils.cc, src/os/linux_ipcsocket.cc.

Isolated pods stay nodes of their own to NCCL: without one ``/dev/shm`` it would not reach their GPU memory, and inside
the pod its defaults are the better ones.
"""

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.admit.variables import require_reference, require_value
from webhook.objects.pod import Reference
from webhook.words import names
from webhook.words.choices import Profile

PURPOSE = "let NCCL know which pods share a node"

NODE_NAME = Reference(field_path="spec.nodeName")
LEGACY_IPC = "0"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Sets two variables in each GPU container in ``node-peers``."""
    if subject.profile is not Profile.NODE_PEERS or subject.is_isolated or subject.host.network:
        return
    for container in subject.gpu_containers:
        require_reference(patch, container, names.ENV_NCCL_HOSTID, (NODE_NAME,), Profile.NODE_PEERS)
        require_value(
            patch, container, names.ENV_NCCL_CUMEM_ENABLE, LEGACY_IPC, "profile node-peers without hostNetwork"
        )
