"""The host namespaces of a pod, and one PID namespace for its containers.

CUDA IPC between containers needs one PID namespace; NCCL between pods needs one ``/dev/shm`` device, which is the IPC
namespace's. Sources: UCX src/uct/cuda/cuda_ipc/cuda_ipc_iface.c, NCCL src/init.cc.
"""

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.words import names
from webhook.words.catalogue.peers import NO_SHARED_PID, POD_SECURITY, SHARED_PID_WITH_HOST_PID, WITHOUT_HOST_NAMESPACE
from webhook.words.choices import Profile
from webhook.words.outcome import Reason, Refused

PURPOSE = "put it into the namespaces that CUDA IPC and NCCL need"

_LEVELS_WITHOUT_HOST_NAMESPACES = ("baseline", "restricted")


def plan(subject: Subject, patch: PodPatch) -> None:
    """Sets fields of the pod's spec."""
    spec, host = subject.spec, subject.host
    present = {"hostIPC": spec.host_ipc, "hostPID": spec.host_pid, "hostNetwork": spec.host_network}
    for field in host.ours:
        if not present[field]:
            patch.set_spec(field, True, replaces=present[field] is not None)
    for field in host.withheld:
        option = f"host-{field.removeprefix('host').lower()}"
        patch.warn(WITHOUT_HOST_NAMESPACE.say(option=option, profile=subject.profile), Reason.NAMESPACE_WITHHELD)
    if "hostNetwork" in host.ours and spec.dns_policy in (None, "ClusterFirst"):
        # A pod in the host network otherwise loses cluster DNS: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service
        patch.set_spec("dnsPolicy", "ClusterFirstWithHostNet", replaces=spec.dns_policy is not None)
    _one_pid_namespace(subject, patch)
    _pod_security(subject, patch)


def _one_pid_namespace(subject: Subject, patch: PodPatch) -> None:
    own = subject.spec.share_process_namespace
    if subject.host.pid:
        if own:
            raise Refused(Reason.CONTRADICTS_PROFILE, SHARED_PID_WITH_HOST_PID.say(pod=subject.name))
    elif subject.profile is Profile.POD_PEERS and not own:
        if own is False:
            raise Refused(Reason.CONTRADICTS_PROFILE, NO_SHARED_PID.say(pod=subject.name))
        patch.set_spec("shareProcessNamespace", True)


def _pod_security(subject: Subject, patch: PodPatch) -> None:
    """Warns if Pod Security will refuse the pod: it judges the pod after us, and a Deployment's template before us."""
    level = subject.namespace.labels.get(names.POD_SECURITY_ENFORCE)
    if subject.host.ours and level in _LEVELS_WITHOUT_HOST_NAMESPACES:
        fields = ", ".join(subject.host.ours)
        patch.warn(POD_SECURITY.say(level=level, namespace=subject.namespace.name, fields=fields))
