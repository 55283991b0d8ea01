"""The groups of pods that work together: their labels, PodGroups and sizes, and the network labels of their nodes."""

from collections.abc import Mapping, Sequence

from webhook.decisions.request.ranks import JOBSET_NAME, TRAINING_JOB
from webhook.objects.pod import Pod, PodSpec
from webhook.objects.workload import WorkloadKind, WorkloadRef
from webhook.words import names

_LABELS_WITH_SIZE = (
    names.GROUP,
    # A LeaderWorkerSet gives all pods of one replica this key.
    names.LWS_GROUP,
    # A group of plain pods of Kueue: kueue.sigs.k8s.io/docs/tasks/run/plain_pods.
    "kueue.x-k8s.io/pod-group-name",
)
"""The labels of groups whose size the user or the pods say."""
_LABELS_OF_JOBS = (JOBSET_NAME, TRAINING_JOB)
_SIZE_ANNOTATIONS = (names.LWS_SIZE, "kueue.x-k8s.io/pod-group-total-count")
MOST_PODS = 9999
"""The most pods that get their cards together."""
NETWORK_LABELS = (
    "nvidia.com/gpu.clique",
    # Topograph since 1.0, and before: NVIDIA/topograph docs, "node labels". Tier 0 is the closest of any number.
    "accelerator.topograph.run/sub-domain",
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
    *(f"fabric.topograph.run/tier-{tier}" for tier in range(8)),
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/spine",
    "network.topology.nvidia.com/core",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
"""Labels of nodes, from the nearest neighbours to the farthest."""


def group_of(pod: Pod) -> str:
    """Returns the group of a pod, as ``label=value`` or the like; empty: the pod works alone.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    labels = pod.labels
    if found := _labelled(labels, _LABELS_WITH_SIZE):
        return found
    group = pod_group_of(pod, "")
    return f"{group.kind}={'/'.join(filter(None, group[2:]))}" if group else _labelled(labels, _LABELS_OF_JOBS)


def pod_group_of(pod: Pod, namespace: str) -> WorkloadRef | None:
    """Returns the PodGroup that a pod names, whoever made it; None: it names none.

    Args:
        pod: The pod.
        namespace: Its namespace, in which the PodGroup is.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    found = _named_group(pod, namespace)
    return found if found and found.is_possible else None


def _named_group(pod: Pod, namespace: str) -> WorkloadRef | None:
    spec = pod.spec or PodSpec()
    if name := pod.labels.get(names.POD_GROUP, ""):
        return WorkloadRef(WorkloadKind.COSCHEDULING, namespace, name)
    if name := spec.scheduling_group:
        return WorkloadRef(WorkloadKind.POD_GROUP, namespace, name)
    if (found := spec.workload_ref) and found.name:
        return WorkloadRef(
            WorkloadKind.WORKLOAD, namespace, found.name, part=found.pod_group, replica=found.pod_group_replica_key
        )
    name = pod.annotations.get(names.VOLCANO_GROUP, "")
    return WorkloadRef(WorkloadKind.VOLCANO, namespace, name) if name else None


def _labelled(labels: Mapping[str, str], keys: Sequence[str]) -> str:
    return next((f"{key}={labels[key]}" for key in keys if labels.get(key)), "")


def group_size(asked: int, annotations: Mapping[str, str]) -> int:
    """Returns the number of pods that are placed together.

    Args:
        asked: ``gpu.topology/group-size``; 1: the pod does not say it.
        annotations: The annotations of the pod. A LeaderWorkerSet writes the size of its groups there, and a user of
            Kueue that of a group of plain pods.
    """
    text = next((annotations[key] for key in _SIZE_ANNOTATIONS if key in annotations), "")
    if asked > 1 or not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST_PODS))):
        return asked
    return max(1, int(text))
