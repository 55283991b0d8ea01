"""The decisions about a pod before the first step runs."""

from collections.abc import Mapping, Sequence
from itertools import count

import msgspec

from webhook.decisions.admit.allocated_pods import (
    Nodes,
    allocated_annotations,
    gpu_containers,
    has_allocation,
    unknown_nodes,
)
from webhook.decisions.admit.budget import check_counts
from webhook.decisions.admit.claims import refuse_preloaded, refuse_unfit
from webhook.decisions.admit.container import PodContainer, inspect
from webhook.decisions.admit.remap.choice import choose_remap
from webhook.decisions.admit.subject import HostNamespaces, Subject
from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import Options, resolve_options
from webhook.decisions.request.demand import gpu_demand
from webhook.decisions.request.resources import PodRequests, family_of
from webhook.decisions.request.selection import select_containers
from webhook.objects.pod import Namespace, Pod, PodSpec
from webhook.objects.references import visible_devices_key
from webhook.words import names
from webhook.words.choices import Carrier, Isolation, Profile


class PodToInject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod with its options and its selected containers, before a profile is applied to it."""

    pod: Pod
    namespace: Namespace
    policy: AdmitPolicy
    cluster: ClusterFacts
    """The facts about the cluster, overruled by the configuration."""
    requests: PodRequests
    """The requests of all containers of the pod."""
    options: Options
    selected: frozenset[str]
    """The names of the containers to which the profile applies; never empty."""
    nodes: Nodes

    @property
    def holder(self) -> str:
        """The name of the pod in messages."""
        return f"pod {self.namespace.name}/{self.pod.display_name}"


def pod_to_inject(
    pod: Pod,
    namespace: Namespace,
    requests: PodRequests,
    policy: AdmitPolicy,
    cluster: ClusterFacts,
    nodes: Nodes = unknown_nodes,
) -> PodToInject | None:
    """Returns the pod with its options, also if admission would skip it; ``None`` if no container is selected.

    Args:
        pod: The pod.
        namespace: Its namespace.
        requests: The requests of its containers.
        policy: The configuration.
        cluster: The detected facts about the cluster; those of ``policy`` overrule them.
        nodes: The sources about nodes, for pods that have their GPUs already.

    Raises:
        Refused: the option ``containers`` names something that is no GPU container.
        FormatError: an option does not parse.
    """
    options = resolve_options(policy.defaults, pod, namespace)
    selected = select_containers(requests.containers, options, pod, namespace)
    if not selected:
        return None
    return PodToInject(
        pod=pod,
        namespace=namespace,
        policy=policy,
        cluster=cluster.overruled_by(policy.versions),
        requests=requests,
        options=options,
        selected=selected,
        nodes=nodes,
    )


def prepare(pod: PodToInject, profile: Profile) -> Subject:
    """Returns the subject of the steps.

    Args:
        pod: The pod.
        profile: Any but ``observe``.

    Raises:
        Refused: an option cannot be met.
        FormatError: a quantity of a volume does not parse.
        LimitError: the pod has more of something than the configuration allows.
        MalformedPod: a field has another type than in a pod.
    """
    options, family = pod.options, family_of(pod.requests.containers)
    check_counts(pod.requests.containers, options, pod.policy.limits, pod.holder)
    refuse_preloaded(pod.pod, pod.namespace, pod.requests.containers, profile, pod.cluster)
    refuse_unfit(pod.requests.containers, pod.selected)
    spec = pod.pod.spec or PodSpec()
    containers = [
        inspect(request, options.env) if request.name in pod.selected else inspect(request, left_out=True)
        for request in pod.requests.containers
    ]
    asking = [container for container in containers if container.request and container.name in pod.selected]
    # Beside claims no sidecar is needed, which is for a fault of HAMi.
    carrier = Carrier.INIT if family == CLAIM and options.remap is not Carrier.NONE else options.remap
    remap = choose_remap(spec, pod.namespace, containers, carrier, pod.policy, pod.cluster)
    host = _choose_host_namespaces(spec, options, profile)
    keys = _assign_visible_devices(asking) if profile.shares_gpus and family != CLAIM else {}
    return Subject(
        pod=pod.pod,
        spec=spec,
        namespace=pod.namespace,
        policy=pod.policy,
        cluster=pod.cluster,
        options=options,
        profile=profile,
        requests=pod.requests,
        containers=tuple(containers),
        gpu_containers=tuple(asking),
        left_out=tuple([container for container in containers if container.is_left_out]),
        remap=remap,
        host=host,
        volumes={volume.name: volume for volume in spec.volumes or ()},
        visible_device_keys=keys,
        allocated=_allocated(pod, family, containers, keys, profile, host),
        family=family,
    )


def _allocated(
    pod: PodToInject,
    family: str,
    containers: Sequence[PodContainer],
    keys: Mapping[str, str],
    profile: Profile,
    host: HostNamespaces,
) -> Mapping[str, str]:
    if not has_allocation(pod.pod) or family == CLAIM:  # what claims gave is in the claims, and is read at bind
        return {}
    asking = gpu_containers(containers, pod.selected, keys)
    demand = gpu_demand(asking, family, pod.options, pod.policy, profile, host_network=host.network)
    return allocated_annotations(pod.pod, pod.namespace, demand, pod.nodes, pod.policy)


def _assign_visible_devices(gpu_containers: Sequence[PodContainer]) -> dict[str, str]:
    """Returns the ``cuda-visible-devices`` annotation of each container, by container name.

    A container that already refers to one keeps it, so that a second admission changes nothing; the others get the
    lowest free numbers in order.
    """
    kept: dict[str, str] = {}
    taken: set[str] = set()
    for container in gpu_containers:
        key = visible_devices_key(container.env.get(names.ENV_CUDA_VISIBLE_DEVICES))
        if key and key not in taken:
            kept[container.name] = key
            taken.add(key)
    numbered = (f"{names.CUDA_VISIBLE_DEVICES_PREFIX}{k}" for k in count())
    free = (key for key in numbered if key not in taken)
    return {container.name: kept.get(container.name) or next(free) for container in gpu_containers}


def _choose_host_namespaces(spec: PodSpec, options: Options, profile: Profile) -> HostNamespaces:
    """Returns the host namespaces that the pod has, that the profile needs and that the options ask for."""
    needed = profile is Profile.NODE_PEERS and options.isolation is Isolation.HOST
    ours: list[str] = []
    withheld: list[str] = []
    for field, asked, by_profile in (
        ("hostIPC", options.host_ipc, needed),
        ("hostPID", options.host_pid, needed),
        ("hostNetwork", options.host_network, False),
    ):
        if asked or (by_profile and asked is None):
            ours.append(field)
        elif by_profile:
            withheld.append(field)
    return HostNamespaces(
        ipc="hostIPC" in ours or bool(spec.host_ipc),
        pid="hostPID" in ours or bool(spec.host_pid),
        network="hostNetwork" in ours or bool(spec.host_network),
        ours=tuple(ours),
        withheld=tuple(withheld),
    )
