"""The evidence about a pod: everything that its explanation may use."""

from datetime import datetime

import msgspec

from webhook.decisions.claims.evidence import KnownClaims
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import resolve_options
from webhook.decisions.request.assigned_node import node_of
from webhook.decisions.resolve.node import Sources
from webhook.insight.explain.nccl_log import NcclLog
from webhook.objects.planner_signs import PlannerSigns
from webhook.objects.pod import Namespace, Pod, PodSpec
from webhook.words import names
from webhook.words.errors import FormatError


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The circumstances in which the evidence was read; texts are empty where there is nothing to say."""

    node_teller: str = ""
    """The source of the topology of the node where it is not the agent's ConfigMap: ``state directory examples/state``.
    """
    show: str = ""
    """The arguments with which ``gpu-topology topology show`` shows the node."""
    namespace_problem: str = ""
    """The reason why the namespace could not be read."""
    node_problem: str = ""
    """The reason why the topology of the node could not be read."""
    age_problem: str = ""
    """The reason why the age of what the agent published is not known."""
    group_problem: str = ""
    """The reason why the other pods of the group could not be read."""
    is_configured: bool = True
    """Whether the configuration is that of the cluster; if not, all of it is defaults."""
    names_hami: bool = False
    """Whether the caller names the version of HAMi, which may be one that is yet to come."""


class BindingReviews(msgspec.Struct, frozen=True, kw_only=True):
    """The schedulers about whose Bindings the API server asks the webhook, and those about whose it does not."""

    configuration: str
    """Name of the MutatingWebhookConfiguration."""
    is_registered: bool = True
    """Whether that MutatingWebhookConfiguration exists."""
    asked: tuple[str, ...] = ()
    """User names of the schedulers about whose Bindings the API server asks the webhook."""
    passed_by: tuple[str, ...] = ()
    """User names of the schedulers about whose Bindings it does not ask."""
    unclear: tuple[str, ...] = ()
    """User names of the schedulers for which this is not known."""
    problem: str = ""
    """The reason why nothing is known; empty if something is."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A pod and its surroundings."""

    pod: Pod
    namespace: Namespace
    policy: AdmitPolicy
    cluster: ClusterFacts = ClusterFacts()
    sources: Sources = Sources()
    """The known topologies of the node of the pod."""
    claims: KnownClaims = KnownClaims()
    """The resource claims of the pod; empty where the configuration does not enable claims."""
    node: str = ""
    """The node of the pod, now or in future; empty if that is open."""
    others: tuple[Pod, ...] | None = None
    """The other pods of its group on any node; ``None`` if they were not looked for."""
    launchers: tuple[Pod, ...] = ()
    """The pods that start the processes of this one, such as the launcher of an MPIJob."""
    ranks: tuple[Pod, ...] = ()
    """The other pods of its job on its node, as far as they are known: :mod:`webhook.decisions.request.ranks`."""
    knows_ranks: bool = False
    """Whether all pods of its job are known."""
    reading: Reading = Reading()
    shows_webhook: bool = True
    """Whether anything in the input shows that there is a webhook."""
    reviews: BindingReviews | None = None
    """The reviews of Bindings; ``None`` without a cluster."""
    planner: PlannerSigns = PlannerSigns()
    nccl_log: NcclLog | None = None
    """What NCCL printed; ``None`` without a log."""
    asked_at: datetime | None = None
    """The time at which the cluster was read; ``None`` for a pod of a file, whose time is not known."""

    @property
    def peers_here(self) -> tuple[Pod, ...]:
        """The other pods of the group on the node of the pod; empty without a node."""
        return tuple(other for other in self.others or () if self.node and node_of(other) == self.node)


def group_of(pod: Pod, namespace: Namespace, policy: AdmitPolicy) -> str:
    """Returns the group of the pod: its label, else the option; empty if the pod has no group."""
    label = pod.labels.get(names.GROUP)
    if label:
        return label
    try:
        return resolve_options(policy.defaults, pod, namespace).group or ""
    except FormatError:
        return ""


def policy_for(pod: Pod, policy: AdmitPolicy, *, is_configured: bool) -> AdmitPolicy:
    """Returns the configuration for a pod.

    Claims are enabled where the configuration of the cluster is not known and the pod shows that a webhook with claims
    enabled treated it.

    Args:
        pod: The pod.
        policy: The configuration.
        is_configured: Whether the configuration is that of the cluster; if not, all of it is defaults.
    """
    if is_configured or policy.claims.enabled or not _was_given_claims(pod):
        return policy
    return msgspec.structs.replace(policy, claims=msgspec.structs.replace(policy.claims, enabled=True))


def _was_given_claims(pod: Pod) -> bool:
    """Returns whether a webhook with claims enabled has bound or prepared the pod."""
    if names.CLAIMED_GPUS in pod.annotations:
        return True
    spec = pod.spec or PodSpec()
    containers = spec.containers or ()
    return any(variable.name == names.REMAP_PROFILE for container in containers for variable in container.env or ())
