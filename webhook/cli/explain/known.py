"""What was read of a pod and its surroundings, and the evidence that it makes."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from webhook.config import AdmitPolicy
from webhook.explain.evidence import Evidence, containers_with_env_from, group_of, node_of
from webhook.model.cluster import ClusterFacts
from webhook.model.errors import ManifestError
from webhook.model.pod import Metadata, Namespace, Pod
from webhook.model.version import Version
from webhook.resolve.node import KnownNode, Origin, Sources

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A pod, and whom to ask about the rest."""

    document: bytes
    """The pod as JSON."""
    pod: Pod
    namespace: Namespace
    cluster: ClusterFacts
    group: Callable[[str], tuple[Pod, ...] | None]
    """The other pods of a group in its namespace; ``None`` if they cannot be read."""
    node: Callable[[str], Sources]
    """What is known of a node."""


def read_pod(document: bytes, source: str) -> Pod:
    """A pod from JSON.

    Raises:
        ManifestError: a field has another type than in a pod.
    """
    try:
        pod = msgspec.json.decode(document, type=Pod)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{source}: {error}") from None
    metadata = pod.metadata or Metadata()
    named = msgspec.structs.replace(metadata, namespace=metadata.namespace or DEFAULT_NAMESPACE)
    return msgspec.structs.replace(pod, metadata=named)


def evidence_of(known: Known, policy: AdmitPolicy, *, node: str, topology: str | None, hami_version: str) -> Evidence:
    """Everything that is judged.

    Args:
        known: What was read.
        policy: The configuration.
        node: Where the pod is; empty: where it says.
        topology: File with the topology of that node.
        hami_version: Overrules all others; empty: not given.

    Raises:
        GpuTopologyError: a version or a topology cannot be read.
    """
    where = node or node_of(known.pod)
    group = group_of(known.pod, known.namespace, policy)
    if hami_version:
        told = ClusterFacts(hami=Version.parse(hami_version, source="--hami-version"))
        policy = msgspec.structs.replace(policy, versions=policy.versions.overruled_by(told))
    return Evidence(
        pod=known.pod,
        namespace=known.namespace,
        policy=policy,
        cluster=known.cluster,
        sources=_of_file(topology, where) if topology else known.node(where) if where else Sources(),
        node=where,
        others=known.group(group) if group else None,
        env_from=containers_with_env_from(known.document),
    )


def _of_file(file: str, node: str) -> Sources:
    from webhook.cli.topology.source import read_text

    topology = read_text(file, node or None)
    origin = Origin.HAMI if topology.source == "hami" else Origin.AGENT
    return Sources(published=KnownNode(topology, origin=origin))
