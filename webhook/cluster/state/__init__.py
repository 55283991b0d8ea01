"""Where decisions get what they know of the cluster. One small interface; a directory is the embedded default."""

from collections.abc import Awaitable
from typing import Protocol

from webhook.decisions.claims.slices import Pools
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.resolve.node import Sources
from webhook.objects.pod import Namespace


class State(Protocol):
    """What is known of the cluster right now. Answers come from memory, and reviews do not wait for them."""

    @property
    def waiting_for(self) -> str:
        """What was never known yet, so that nothing can be answered; empty when all was."""

    def namespace(self, name: str) -> Namespace | Awaitable[Namespace]:
        """The namespace; one with ``known`` unset if there is none. Where memory may be behind, something to wait for.

        Raises:
            StateUnknown: not all is known yet. What is waited for may raise it too.
        """

    def cluster(self) -> ClusterFacts:
        """Versions of HAMi and Kubernetes, as far as they are known.

        Raises:
            StateUnknown: not all is known yet.
        """

    def node(self, name: str) -> Sources:
        """What is known of the GPUs of a node; empty if nothing is.

        Raises:
            StateUnknown: not all is known yet.
        """


class Pods(Protocol):
    """Pods as they are this very moment: HAMi annotates one milliseconds before it is bound."""

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The pod as JSON, or ``None`` if there is none of that name.

        Args:
            namespace: Of the pod.
            name: Of the pod.
            deadline: Until when to wait for the answer, on the clock of the running event loop; ``None``: as long as
                whoever knows it deems right.

        Raises:
            PodsUnreadable: whoever knows it gives no answer in time.
        """

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:
        """The pods with the label ``gpu.topology/group`` of this value on a node, as JSON.

        Raises:
            PodsUnreadable: as above.
        """


class Claims(Protocol):
    """ResourceClaims and templates as they are this very moment, and what DRA drivers publish, from memory.

    A claim is allocated milliseconds before its pod is bound, and a template may be as young as its first pod.
    """

    async def claim(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaim as JSON, or ``None`` if there is none of that name.

        Args:
            namespace: Of the claim.
            name: Of the claim.
            deadline: Until when to wait for the answer, on the clock of the running event loop; ``None``: as long as
                whoever knows it deems right.

        Raises:
            ClaimsUnreadable: whoever knows it gives no answer in time.
        """

    async def template(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaimTemplate as JSON, or ``None`` if there is none of that name.

        Raises:
            ClaimsUnreadable: as above.
        """

    def pools(self) -> Pools:
        """The devices that DRA drivers publish.

        Raises:
            StateUnknown: not all is known yet.
        """
