"""All that is known of a pod that is to be explained."""

from datetime import datetime

import msgspec

from webhook.decisions.claims.evidence import KnownClaims
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import resolve_options
from webhook.decisions.request.assigned_node import node_of
from webhook.decisions.resolve.node import Sources
from webhook.objects.planner_signs import PlannerSigns
from webhook.objects.pod import Namespace, Pod, PodSpec
from webhook.words import names
from webhook.words.errors import FormatError


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How the evidence was come by; texts are empty where there is nothing to say."""

    node_teller: str = ""
    """Who says what is known of the node, where that is not the agent's ConfigMap: ``state directory examples/state``.
    """
    show: str = ""
    """The arguments with which ``gpu-topology topology show`` shows the node."""
    namespace_problem: str = ""
    """Why the namespace could not be read."""
    node_problem: str = ""
    """Why what is known of the node could not be read."""
    age_problem: str = ""
    """Why it is not known how old what the agent published is."""
    group_problem: str = ""
    """Why the other pods of the group could not be read."""
    is_configured: bool = True
    """Whether the configuration is that of the cluster, and not all defaults for want of it."""


class BindingReviews(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the API server asks the webhook about the Bindings of HAMi's schedulers."""

    configuration: str
    """Name of the MutatingWebhookConfiguration."""
    is_registered: bool = True
    """Whether there is one."""
    asked: tuple[str, ...] = ()
    """User names of schedulers about whose Bindings it asks."""
    passed_by: tuple[str, ...] = ()
    """Those about whose Bindings it does not."""
    unclear: tuple[str, ...] = ()
    """Those for which that cannot be told from here."""
    problem: str = ""
    """Why nothing is known; empty if something is."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A pod and what is around it."""

    pod: Pod
    namespace: Namespace
    policy: AdmitPolicy
    cluster: ClusterFacts = ClusterFacts()
    sources: Sources = Sources()
    """What is known of the GPUs of its node."""
    claims: KnownClaims = KnownClaims()
    """What is known of its resource claims; nothing where the configuration does not have them looked at."""
    node: str = ""
    """Where it is, or is going to be; empty if that is open."""
    others: tuple[Pod, ...] | None = None
    """The other pods of its group, wherever they are; ``None`` if they were not looked for."""
    reading: Reading = Reading()
    reviews: BindingReviews | None = None
    """``None`` where there is no cluster to ask."""
    planner: PlannerSigns = PlannerSigns()
    asked_at: datetime | None = None
    """``None`` where the pod is as some file has it, and nobody knows since when."""

    @property
    def peers_here(self) -> tuple[Pod, ...]:
        """The other pods of its group on its node; none without a node."""
        return tuple(other for other in self.others or () if self.node and node_of(other) == self.node)


def group_of(pod: Pod, namespace: Namespace, policy: AdmitPolicy) -> str:
    """The group of the pod: its label, else the option; empty if it has none."""
    label = pod.labels.get(names.GROUP)
    if label:
        return label
    try:
        return resolve_options(policy.defaults, pod, namespace).group or ""
    except FormatError:
        return ""


def policy_for(pod: Pod, policy: AdmitPolicy, *, is_configured: bool) -> AdmitPolicy:
    """The configuration for a pod: where it is not known, claims are looked at that a webhook has looked at.

    Args:
        pod: The pod.
        policy: The configuration.
        is_configured: Whether it is that of the cluster, and not all defaults for want of it.
    """
    if is_configured or policy.claims.enabled or not _was_given_claims(pod):
        return policy
    return msgspec.structs.replace(policy, claims=msgspec.structs.replace(policy.claims, enabled=True))


def _was_given_claims(pod: Pod) -> bool:
    """Whether a webhook with claims enabled has bound or prepared the pod, whatever is configured here."""
    if names.CLAIMED_GPUS in pod.annotations:
        return True
    spec = pod.spec or PodSpec()
    containers = spec.containers or ()
    return any(variable.name == names.REMAP_PROFILE for container in containers for variable in container.env or ())
