"""The groups of pods that work together: their labels and sizes, and the network labels of their nodes."""

from collections.abc import Mapping

from webhook.words import names

_GROUP_LABELS = (
    names.GROUP,
    # A LeaderWorkerSet gives all pods of one replica this key.
    names.LWS_GROUP,
    # sigs.k8s.io/jobset api/jobset/v1alpha2.
    "jobset.sigs.k8s.io/jobset-name",
    # PyTorchJob, MPIJob and others: kubeflow/training-operator pkg/apis/kubeflow.org/v1/common_types.go.
    "training.kubeflow.org/job-name",
    # A group of plain pods of Kueue: kueue.sigs.k8s.io/docs/tasks/run/plain_pods.
    "kueue.x-k8s.io/pod-group-name",
    # A PodGroup of the scheduler plugin coscheduling, which HAMi 2.10 knows too: kubernetes-sigs/scheduler-plugins.
    "scheduling.x-k8s.io/pod-group",
)
_SIZE_ANNOTATIONS = (names.LWS_SIZE, "kueue.x-k8s.io/pod-group-total-count")
_MOST_PODS = 9999
NETWORK_LABELS = (
    "nvidia.com/gpu.clique",
    # Topograph: NVIDIA/topograph docs, "node labels".
    "network.topology.nvidia.com/accelerator",
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/spine",
    "network.topology.nvidia.com/core",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
"""Labels of nodes, from the nearest neighbours to the farthest."""


def group_of(labels: Mapping[str, str]) -> str:
    """Returns the group of a pod with these labels, as ``label=value``; empty: the pod works alone."""
    return next((f"{label}={labels[label]}" for label in _GROUP_LABELS if labels.get(label)), "")


def group_size(asked: int, annotations: Mapping[str, str]) -> int:
    """Returns the number of pods that are placed together.

    Args:
        asked: ``gpu.topology/group-size``; 1: the pod does not say it.
        annotations: The annotations of the pod. A LeaderWorkerSet writes the size of its groups there, and a user of
            Kueue that of a group of plain pods.
    """
    text = next((annotations[key] for key in _SIZE_ANNOTATIONS if key in annotations), "")
    if asked > 1 or not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_PODS))):
        return asked
    return max(1, int(text))
