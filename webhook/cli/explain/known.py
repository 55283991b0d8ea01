"""What was read of a pod and its surroundings, and the evidence that it makes."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from webhook.claims.known import KnownClaims
from webhook.cli.manifests import STANDARD_INPUT
from webhook.config import AdmitPolicy, ClaimSettings
from webhook.explain.evidence import (
    BindingReviews,
    Evidence,
    Reading,
    containers_with_env_from,
    group_of,
    node_of,
    policy_for,
)
from webhook.explain.standing import NO_SIGNS, PlannerSigns, standing_of
from webhook.manifest.pods import decode_pod, in_namespace
from webhook.model import names
from webhook.model.cluster import ClusterFacts
from webhook.model.pod import Namespace, Pod
from webhook.printable import printable
from webhook.resolve.node import Sources


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A pod, and whom to ask about the rest."""

    document: bytes
    """The pod as JSON."""
    pod: Pod
    namespace: Namespace
    cluster: ClusterFacts
    group: Callable[[str], tuple[tuple[Pod, ...] | None, str]]
    """The other pods of a group in its namespace; ``None`` if they cannot be read, and why."""
    node: Callable[[str], tuple[Sources, Reading]]
    """What is known of a node, and how that was come by."""
    claims: Callable[[ClaimSettings, str], KnownClaims] = lambda _settings, _node: KnownClaims()
    """What is known of its resource claims, and of the devices of a node; an empty name: of none."""
    namespace_problem: str = ""
    """Why the namespace could not be read; empty if it was not tried."""
    reviews: BindingReviews | None = None
    """Whose Bindings the webhook is asked about; ``None`` where there is no cluster to ask."""
    planner: PlannerSigns = NO_SIGNS
    """Whether a planner is alive."""
    asked_at: datetime | None = None
    """When the cluster was asked; ``None`` where there is none."""


def read_pod(document: bytes, source: str) -> Pod:
    """A pod from JSON.

    Raises:
        ManifestError: a field has another type than in a pod, or a text is none.
    """
    return in_namespace(decode_pod(document, source), names.DEFAULT_NAMESPACE)


def evidence_of(known: Known, policy: AdmitPolicy, *, node: str, topology: str | None, is_configured: bool) -> Evidence:
    """Everything that is judged.

    Args:
        known: What was read.
        policy: The configuration.
        node: Where the pod is; empty: where it says.
        topology: File with the topology of that node.
        is_configured: Whether ``policy`` is that of the cluster, and not all defaults for want of it.

    Raises:
        GpuTopologyError: a topology cannot be read.
    """
    policy = policy_for(known.pod, policy, is_configured=is_configured)
    where = node or node_of(known.pod)
    group = group_of(known.pod, known.namespace, policy)
    others, group_problem = known.group(group) if group else (None, "")
    sources, reading = _look(known, where, topology)
    return Evidence(
        pod=known.pod,
        namespace=known.namespace,
        policy=policy,
        cluster=known.cluster,
        sources=sources,
        claims=known.claims(policy.claims, where) if policy.claims.enabled else KnownClaims(),
        node=where,
        others=others,
        env_from=containers_with_env_from(known.document),
        reviews=known.reviews,
        reading=msgspec.structs.replace(
            reading,
            namespace_problem=known.namespace_problem,
            group_problem=group_problem,
            is_configured=is_configured,
        ),
        standing=standing_of(known.document),
        planner=known.planner,
        asked_at=known.asked_at,
    )


def _look(known: Known, node: str, topology: str | None) -> tuple[Sources, Reading]:
    if topology:
        return _of_file(topology, node)
    return known.node(node) if node else (Sources(), Reading())


def _of_file(file: str, node: str) -> tuple[Sources, Reading]:
    from webhook.cli.topology.source import sources_in

    teller = "standard input" if file == STANDARD_INPUT else f"file {printable(file)}"
    return sources_in(file, node or None), Reading(node_teller=teller, show=f"-f {shlex.quote(printable(file))}")
