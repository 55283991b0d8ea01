"""Bindings and the decisions about them: the fields that are read, and the outcome in a closed vocabulary."""

import enum
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from webhook.objects.pod import Fields, Metadata
from webhook.words.catalogue import claims, links, opting
from webhook.words.catalogue.entry import Entry
from webhook.words.choices import Profile
from webhook.words.outcome import Kind


class Target(Fields):
    """The ``target`` of a Binding."""

    name: str = ""
    """The name of the node."""


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
        """The uid of the pod that the scheduler means; empty if it did not say it."""
        return (self.metadata.uid if self.metadata else None) or ""

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.target.name if self.target else ""


class BindReason(enum.StrEnum):
    """The reason of an outcome; ``BIND_SENTENCES`` has the sentence for people."""

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
    SHARED_DEVICE = "shared-device"
    NODE_UNKNOWN = "node-unknown"
    GPU_UNKNOWN = "gpu-unknown"
    OVER_LIMIT = "over-limit"

    POD_NOT_NAMED = "pod-not-named"
    NAMESPACE_UNKNOWN = "namespace-unknown"
    POD_UNREADABLE = "pod-unreadable"
    BAD_POD = "bad-pod"


BIND_ENTRIES: Mapping[BindReason, Entry] = MappingProxyType(
    {
        BindReason.NOT_A_BINDING: opting.NOT_A_BINDING,
        BindReason.NOT_INJECTED: opting.NOT_INJECTED,
        BindReason.POD_GONE: opting.POD_GONE,
        BindReason.POD_RECREATED: opting.POD_RECREATED,
        BindReason.ALREADY_BOUND: opting.ALREADY_BOUND,
        BindReason.NAMESPACE_NOT_ENABLED: opting.BINDING_NOT_ENABLED,
        BindReason.OBSERVED: opting.BINDING_OBSERVED,
        BindReason.RESOLVED: links.RESOLVED,
        BindReason.REQUIREMENT_NOT_MET: links.REQUIREMENT_NOT_MET,
        BindReason.NO_ALLOCATION: links.NO_ALLOCATION,
        BindReason.STALE_ALLOCATION: links.STALE_ALLOCATION,
        BindReason.BAD_ALLOCATION: links.BAD_ALLOCATION,
        BindReason.MIG_ALLOCATION: links.MIG_ALLOCATION,
        BindReason.SHARED_DEVICE: claims.SHARED_DEVICE,
        BindReason.NODE_UNKNOWN: links.NODE_UNKNOWN,
        BindReason.GPU_UNKNOWN: links.GPU_UNKNOWN,
        BindReason.OVER_LIMIT: links.ALLOCATION_OVER_LIMIT,
        BindReason.POD_NOT_NAMED: opting.POD_NOT_NAMED,
        BindReason.NAMESPACE_UNKNOWN: opting.BINDING_NAMESPACE_UNKNOWN,
        BindReason.POD_UNREADABLE: opting.POD_UNREADABLE,
        BindReason.BAD_POD: opting.BAD_POD,
    }
)
"""The entry of the catalogue for each reason: its sentence and its advice."""

BIND_SENTENCES: Mapping[BindReason, str] = MappingProxyType(
    {reason: entry.sentence for reason, entry in BIND_ENTRIES.items()}
)


class PodEvent(msgspec.Struct, frozen=True):
    """An Event to be created on the pod once the change that it reports is made."""

    reason: str
    """The reason, such as ``RequirementNotMet``."""
    note: str
    is_warning: bool = True
    """Whether the Event is a warning."""


class BindOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one Binding."""

    kind: Kind
    """*degraded*: allowed, but something is not as the pod wishes."""
    reason: BindReason
    profile: Profile | None = None
    annotations: dict[str, str] = {}
    """The annotations to be put onto the Binding."""
    warnings: list[str] = []
    message: str = ""
    """The message for the binding scheduler when the Binding is refused, or why it is degraded."""
    code: int = 0
    """The HTTP code of a refusal."""
    event: PodEvent | None = None
    link: str = ""
    """The link class; empty where it is not known."""
    same_numa: bool | None = None
    """Whether all GPUs are on one NUMA node; ``None`` where unknown."""
    satisfied: bool | None = None
    """Whether the requirements are met; ``None`` if there are none, or nothing is known."""

    @property
    def allowed(self) -> bool:
        """Whether the pod may be bound."""
        return self.kind is not Kind.REFUSE
