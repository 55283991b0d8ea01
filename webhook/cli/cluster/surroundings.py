"""What a cluster tells of the surroundings of pods that are not in it yet."""

from functools import cached_property

import msgspec

from webhook.claims.objects import ClaimSpec
from webhook.cli.cluster.asking import Cluster
from webhook.cli.cluster.claims import read_claims
from webhook.cli.cluster.facts import read_facts, read_namespace, read_schedulers
from webhook.cli.cluster.node import read_node
from webhook.cli.cluster.registered import read_planner, read_registered
from webhook.config import AdmitPolicy, Config
from webhook.model.choices import PlacementMode
from webhook.model.cluster import ClusterFacts
from webhook.model.pod import Namespace, Pod
from webhook.resolve.node import Sources


class ClusterSurroundings:
    """Namespaces, versions, nodes and claims, each asked for when it is needed first.

    What may not be read is left out, with a note on standard error.

    Args:
        cluster: The API server.
        config: How the webhook is configured.
        policy: What follows from it.
    """

    def __init__(self, cluster: Cluster, config: Config, policy: AdmitPolicy) -> None:
        self._cluster = cluster
        self._registration = config.certificates.webhook_configuration
        self._policy = policy
        self._namespaces: dict[str, Namespace] = {}

    def namespace(self, name: str) -> Namespace:
        """The namespace; one with ``known`` unset if there is none, or if it may not be read."""
        if name not in self._namespaces:
            self._namespaces[name], _ = read_namespace(self._cluster, name)
        return self._namespaces[name]

    def cluster(self) -> ClusterFacts:
        """The versions, which resources claims serve, and whether a planner is alive."""
        return self._facts

    def node(self, name: str) -> Sources:
        """What is known of a node, for pods that come with an allocation."""
        return read_node(self._cluster, name)[0]

    def specs(self, pod: Pod, namespace: str) -> dict[str, ClaimSpec | None]:
        """What the claims of a pod ask for, by entries of ``spec.resourceClaims``; ``None`` where it is not known.

        Raises:
            MalformedPod: a field has another type than in a pod.
        """
        return read_claims(self._cluster, pod, namespace, self._policy.claims, node="").specs(pod)

    @cached_property
    def _facts(self) -> ClusterFacts:
        schedulers, _ = read_schedulers(self._cluster)
        facts = read_facts(self._cluster, schedulers, with_claims=True)
        if self._policy.placement.mode is not PlacementMode.ON:  # then no pod waits, whether or not one is alive
            return facts
        planner = read_planner(self._cluster, read_registered(self._cluster, self._registration))
        return msgspec.structs.replace(facts, has_planner=planner.is_alive is True)
