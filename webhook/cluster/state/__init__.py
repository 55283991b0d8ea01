"""The source of a decision's knowledge of the cluster: one small interface; a directory is the built-in default."""

from collections.abc import Awaitable
from typing import Protocol

from webhook.decisions.claims.slices import Pools
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.fastest_pair import FastestPair
from webhook.decisions.resolve.node import Sources
from webhook.objects.pod import Namespace


class State(Protocol):
    """The present knowledge of the cluster. Answers come from memory, so reviews do not wait for them."""

    @property
    def waiting_for(self) -> str:
        """The parts that were never known yet, so that no answer is possible; empty if all were."""

    def namespace(self, name: str) -> Namespace | Awaitable[Namespace]:
        """Return the namespace; one with ``known`` unset if there is none. An awaitable if memory may be behind.

        Raises:
            StateUnknown: some parts are not known yet. The awaitable may raise it too.
        """

    def cluster(self) -> ClusterFacts:
        """Return the versions of HAMi and Kubernetes, as far as they are known.

        Raises:
            StateUnknown: some parts are not known yet.
        """

    def node(self, name: str) -> Sources:
        """Return the known facts about the GPUs of a node; empty if there are none.

        Raises:
            StateUnknown: some parts are not known yet.
        """

    def fastest_pair(self) -> FastestPair | None:
        """Return the fastest pair of GPUs of all known nodes; ``None`` while that is not known."""


class Pods(Protocol):
    """Pods in their present state, because HAMi annotates one milliseconds before it is bound."""

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the pod as JSON, or ``None`` if there is none of that name.

        Args:
            namespace: The namespace of the pod.
            name: The name of the pod.
            deadline: The end of the wait for an answer, on the clock of the running event loop; ``None`` for the
                default of the implementation.

        Raises:
            PodsUnreadable: there was no answer in time.
        """

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:
        """Return the pods with the label ``gpu.topology/group`` of this value on a node, as JSON.

        Raises:
            PodsUnreadable: as for :meth:`pod`.
        """


class Claims(Protocol):
    """ResourceClaims and templates in their present state, and the devices of DRA drivers, from memory.

    A claim is allocated milliseconds before its pod is bound, and a template may be as young as its first pod.
    """

    async def claim(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the ResourceClaim as JSON, or ``None`` if there is none of that name.

        Args:
            namespace: The namespace of the claim.
            name: The name of the claim.
            deadline: The end of the wait for an answer, on the clock of the running event loop; ``None`` for the
                default of the implementation.

        Raises:
            ClaimsUnreadable: there was no answer in time.
        """

    async def template(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the ResourceClaimTemplate as JSON, or ``None`` if there is none of that name.

        Raises:
            ClaimsUnreadable: as for :meth:`claim`.
        """

    def pools(self) -> Pools:
        """Return the devices that DRA drivers publish.

        Raises:
            StateUnknown: some parts are not known yet.
        """
