"""What is decided about a Binding: the fields that we read, and the outcome in a closed vocabulary."""

import enum

import msgspec

from webhook.model.choices import Profile
from webhook.model.outcome import Kind
from webhook.model.pod import Fields, Metadata


class Target(Fields):
    """``target`` of a Binding."""

    name: str = ""
    """Of the node."""


class Binding(Fields):
    """A Binding of ``v1``."""

    metadata: Metadata | None = None
    target: Target | None = None

    @property
    def annotations(self) -> dict[str, str] | None:
        """The annotations, ``None`` if the Binding has no member for them."""
        return self.metadata.annotations if self.metadata else None

    @property
    def pod_uid(self) -> str:
        """Of the pod that the scheduler means; empty if it did not say."""
        return (self.metadata.uid if self.metadata else None) or ""

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.target.name if self.target else ""


class BindReason(enum.StrEnum):
    """Why; ``BIND_SENTENCES`` says it to people."""

    NOT_A_BINDING = "not-a-binding"
    NOT_INJECTED = "not-injected"
    POD_GONE = "pod-gone"
    POD_RECREATED = "pod-recreated"
    ALREADY_BOUND = "already-bound"
    NAMESPACE_NOT_ENABLED = "namespace-not-enabled"
    OBSERVED = "observed"
    RESOLVED = "resolved"
    REQUIREMENT_NOT_MET = "requirement-not-met"

    NO_ALLOCATION = "no-allocation"
    STALE_ALLOCATION = "stale-allocation"
    BAD_ALLOCATION = "bad-allocation"
    MIG_ALLOCATION = "mig-allocation"
    NODE_UNKNOWN = "node-unknown"
    GPU_UNKNOWN = "gpu-unknown"
    OVER_LIMIT = "over-limit"

    POD_NOT_NAMED = "pod-not-named"
    NAMESPACE_UNKNOWN = "namespace-unknown"
    POD_UNREADABLE = "pod-unreadable"
    BAD_POD = "bad-pod"


BIND_SENTENCES: dict[BindReason, str] = {
    BindReason.NOT_A_BINDING: "Only the creation of a Binding of a pod to a node is looked at.",
    BindReason.NOT_INJECTED: "The pod was not prepared by us.",
    BindReason.POD_GONE: "The pod does not exist any more.",
    BindReason.POD_RECREATED: "The pod is another one than the scheduler means.",
    BindReason.ALREADY_BOUND: "The pod has a node already.",
    BindReason.NAMESPACE_NOT_ENABLED: "The namespace has not opted in.",
    BindReason.OBSERVED: "The pod is only observed.",
    BindReason.RESOLVED: "The pod was told which GPUs it has and how they are linked.",
    BindReason.REQUIREMENT_NOT_MET: "The GPUs are not what the pod requires.",
    BindReason.NO_ALLOCATION: "The scheduler has given the pod no GPU.",
    BindReason.STALE_ALLOCATION: "The allocation was made for another node.",
    BindReason.BAD_ALLOCATION: "The allocation does not fit the containers of the pod.",
    BindReason.MIG_ALLOCATION: "The pod was given MIG instances, which have no NVLink.",
    BindReason.NODE_UNKNOWN: "Nothing is known of the GPUs of the node.",
    BindReason.GPU_UNKNOWN: "A GPU was allocated that the node does not list.",
    BindReason.POD_NOT_NAMED: "The Binding does not name its pod by its uid.",
    BindReason.OVER_LIMIT: "The allocation or the node has more of something than the configuration allows.",
    BindReason.NAMESPACE_UNKNOWN: "The namespace is not known here, so its requirements are not either.",
    BindReason.POD_UNREADABLE: "The API server could not be asked for the pod.",
    BindReason.BAD_POD: "The pod has an option that cannot be read.",
}


class PodEvent(msgspec.Struct, frozen=True):
    """A Warning Event to be created on the pod, once the Binding is answered."""

    reason: str
    """``RequirementNotMet``, ``NotResolved`` or ``FabricNotUsed``."""
    note: str


class BindOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one Binding."""

    kind: Kind
    """*degraded*: allowed, but something is not as the pod wishes."""
    reason: BindReason
    profile: Profile | None = None
    annotations: dict[str, str] = {}
    """To be put onto the Binding."""
    warnings: list[str] = []
    message: str = ""
    """What to tell whoever binds when the Binding is refused, or why it is degraded."""
    code: int = 0
    """HTTP code of a refusal."""
    event: PodEvent | None = None
    link: str = ""
    """The link class, where it is known."""
    same_numa: bool | None = None
    """Whether all GPUs are on one NUMA node; ``None`` where unknown."""
    satisfied: bool | None = None
    """Whether the requirements are met; ``None`` if there are none, or nothing is known."""

    @property
    def allowed(self) -> bool:
        """Whether the pod may be bound."""
        return self.kind is not Kind.REFUSE
