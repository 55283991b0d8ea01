"""The surroundings of pods that are not in a cluster yet, each part read when a pod needs it first."""

from webhook.cluster.snapshot.pod_surroundings import Around
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.resolve.node import Sources
from webhook.objects.claims import ClaimSpec
from webhook.objects.pod import Namespace, Pod


class ClusterSurroundings:
    """The namespaces, versions, nodes and claims of a cluster.

    Args:
        cluster: The objects that are read of it.
        policy: The policy of the webhook.
    """

    def __init__(self, cluster: Around, policy: AdmitPolicy) -> None:
        self._cluster, self._policy = cluster, policy

    def namespace(self, name: str) -> Namespace:
        """Return the namespace; one with ``known`` unset if there is none, or if it may not be read."""
        self._cluster.look_at_namespace(name)
        return self._cluster.snapshot().namespace(name)

    def cluster(self) -> ClusterFacts:
        """Return the versions, the resources that claims serve, and whether a planner is alive."""
        self._cluster.look_at_versions(with_claims=True)
        if self._policy.placement.mode.holds_pods:  # otherwise no pod waits for a planner
            self._cluster.look_at_planner()
        return self._cluster.snapshot().facts

    def node(self, name: str) -> Sources:
        """Return the known facts about a node, for pods that come with an allocation."""
        self._cluster.look_at_node(name)
        return self._cluster.snapshot().sources(name)

    def specs(self, pod: Pod, namespace: str) -> dict[str, ClaimSpec | None]:
        """Return the requests of a pod's claims, by entries of ``spec.resourceClaims``; ``None`` if one is not known.

        Raises:
            MalformedPod: a field has another type than in a pod.
        """
        self._cluster.look_at_claims(pod, namespace, node="")
        return self._cluster.snapshot().claims.of(pod, namespace).specs(pod)
