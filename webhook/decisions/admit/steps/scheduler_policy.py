"""The scheduler policy by which HAMi chooses GPUs that are well connected.

``topology-aware`` picks the set with the highest sum of pair scores; ``numa-bind`` keeps a container's GPUs on one NUMA
node. Source: HAMi pkg/device/nvidia/device.go. Before HAMi 2.10 nodes have scores only where ``topology-aware`` is the
default of the whole cluster. There pods need no annotation; in any other cluster it would leave them without GPUs.
"""

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.words import names
from webhook.words.catalogue.cards import EIGHT_IN_ONE_NUMA_NODE, NO_PAIR_SCORES
from webhook.words.choices import Policy

PURPOSE = "ask HAMi for well-connected GPUs"
GPUS_OF_A_NODE = 8
TOPOLOGY_AWARE = "topology-aware"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Adds annotations that HAMi reads, where the pod has none of its own."""
    total = largest = 0
    for container in subject.gpu_containers:
        asked = subject.gpu_request(container).count
        total += asked
        largest = max(largest, asked)
    if total < 2 or subject.family != "hami" or subject.served_by_claims:
        return
    policy, annotations = subject.options.policy, subject.pod.annotations
    if names.HAMI_SCHEDULER_POLICY not in annotations:
        if policy is Policy.SPREAD:
            patch.annotate(names.HAMI_SCHEDULER_POLICY, "spread")
        elif subject.cluster.is_safely_topology_aware:
            patch.annotate(names.HAMI_SCHEDULER_POLICY, TOPOLOGY_AWARE)
    elif annotations[names.HAMI_SCHEDULER_POLICY] == TOPOLOGY_AWARE and subject.cluster.has_topology_aware_fault:
        patch.warn(NO_PAIR_SCORES.say())
    if policy is Policy.SINGLE_NUMA:
        if names.NUMA_BIND not in annotations:
            patch.annotate(names.NUMA_BIND, "true")
        if largest >= GPUS_OF_A_NODE:
            patch.warn(EIGHT_IN_ONE_NUMA_NODE.say())
