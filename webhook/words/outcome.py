"""The outcome of an admission: a closed vocabulary that responses, logs, metrics and people share."""

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from webhook.words.catalogue import cards, claims, installation, opting, peers
from webhook.words.catalogue.entry import Entry, Message
from webhook.words.patch import Operation
from webhook.words.printable import printable

WARNING_LIMIT = 119  # admission warnings should stay under 120 characters: k8s.io/api/admission/v1, AdmissionResponse
MESSAGE_LIMIT = 4096
"""The most characters of the message of a refusal, and of an answer that is no review. The message may contain a text
of the user, of any length that the API server accepts."""
MAX_WARNINGS = 30
"""The most warnings of a review. At most 34 reach the user: apiserver pkg/endpoints/filters/warning.go,
truncateAtTotalRunes."""


class Kind(enum.StrEnum):
    """The four ways in which an admission can end."""

    SKIP = "skip"
    PATCH = "patch"
    DEGRADED = "degraded"
    REFUSE = "refuse"


class Reason(enum.StrEnum):
    """The reason of an outcome; ``SENTENCES`` has the sentence for people."""

    NOT_A_CREATE = "not-a-create"
    NAMESPACE_UNKNOWN = "namespace-unknown"
    NAMESPACE_NOT_ENABLED = "namespace-not-enabled"
    MIRROR_POD = "mirror-pod"
    OPTED_OUT = "opted-out"
    NO_GPU_REQUEST = "no-gpu-request"
    MIG_REQUEST = "mig-request"
    VGPU_SLICE = "vgpu-slice"
    NOT_REQUESTED = "not-requested"
    RESOURCE_CLAIMS = "resource-claims"
    PARTS_OF_CLAIM = "parts-of-claim"
    NO_CONTAINER_SELECTED = "no-container-selected"
    PLAIN_DEVICE_PLUGIN = "plain-device-plugin"
    OTHER_SCHEDULER = "other-scheduler"

    INJECTED = "injected"
    ALREADY_INJECTED = "already-injected"
    OBSERVED = "observed"

    NAMESPACE_WITHHELD = "namespace-withheld"
    INIT_CONTAINER_FAULT = "init-container-fault"
    NO_TOPOLOGY_FILE = "no-topology-file"
    SERVED_BY_CLAIMS = "served-by-claims"

    BAD_ANNOTATION = "bad-annotation"
    UNKNOWN_OUTPUT = "unknown-output"
    BAD_RESOURCE = "bad-resource"
    UNKNOWN_CONTAINER = "unknown-container"
    MISSING_PERMISSION = "missing-permission"
    CONTRADICTS_PROFILE = "contradicts-profile"
    MIXED_CARDS = "mixed-cards"
    DEVICE_LIST_STRATEGY = "device-list-strategy"
    MOUNT_PATH_TAKEN = "mount-path-taken"
    CARRIER_UNAVAILABLE = "carrier-unavailable"
    HAMI_DRA_DRIVER = "hami-dra-driver"
    OVER_LIMIT = "over-limit"
    REQUIREMENT_NOT_KEPT = "requirement-not-kept"


ENTRIES: Mapping[Reason, Entry] = MappingProxyType(
    {
        Reason.NOT_A_CREATE: opting.NOT_A_CREATE,
        Reason.NAMESPACE_UNKNOWN: opting.NAMESPACE_UNKNOWN,
        Reason.NAMESPACE_NOT_ENABLED: opting.NAMESPACE_NOT_ENABLED,
        Reason.MIRROR_POD: opting.MIRROR_POD,
        Reason.OPTED_OUT: opting.OPTED_OUT,
        Reason.NO_GPU_REQUEST: opting.NO_GPU_REQUEST,
        Reason.MIG_REQUEST: cards.MIG_REQUEST,
        Reason.VGPU_SLICE: opting.VGPU_SLICE,
        Reason.NOT_REQUESTED: opting.NOT_REQUESTED,
        Reason.RESOURCE_CLAIMS: opting.RESOURCE_CLAIMS,
        Reason.PARTS_OF_CLAIM: claims.PARTS_OF_CLAIM,
        Reason.NO_CONTAINER_SELECTED: opting.NO_CONTAINER_SELECTED,
        Reason.PLAIN_DEVICE_PLUGIN: opting.PLAIN_DEVICE_PLUGIN,
        Reason.OTHER_SCHEDULER: opting.SCHEDULED_BY_VOLCANO,
        Reason.INJECTED: opting.INJECTED,
        Reason.ALREADY_INJECTED: opting.ALREADY_INJECTED,
        Reason.OBSERVED: opting.OBSERVED,
        Reason.NAMESPACE_WITHHELD: peers.NAMESPACE_WITHHELD,
        Reason.INIT_CONTAINER_FAULT: cards.INIT_CONTAINER_FAULT,
        Reason.NO_TOPOLOGY_FILE: installation.NO_TOPOLOGY_FILE,
        Reason.SERVED_BY_CLAIMS: opting.SERVED_BY_CLAIMS,
        Reason.BAD_ANNOTATION: opting.BAD_ANNOTATION,
        Reason.UNKNOWN_OUTPUT: opting.UNKNOWN_OUTPUT,
        Reason.BAD_RESOURCE: cards.BAD_RESOURCE,
        Reason.UNKNOWN_CONTAINER: opting.UNKNOWN_CONTAINER,
        Reason.MISSING_PERMISSION: opting.MISSING_PERMISSION,
        Reason.CONTRADICTS_PROFILE: peers.CONTRADICTS_PROFILE,
        Reason.MIXED_CARDS: cards.MIXED_CARDS,
        Reason.DEVICE_LIST_STRATEGY: peers.DEVICE_LIST_STRATEGY,
        Reason.MOUNT_PATH_TAKEN: installation.MOUNT_PATH_TAKEN,
        Reason.CARRIER_UNAVAILABLE: installation.CARRIER_UNAVAILABLE,
        Reason.HAMI_DRA_DRIVER: cards.HAMI_DRA_DRIVER,
        Reason.OVER_LIMIT: opting.OVER_LIMIT,
        Reason.REQUIREMENT_NOT_KEPT: opting.REQUIREMENT_WOULD_NOT_BE_KEPT,
    }
)
"""The entry of the catalogue for each reason: its sentence and its advice."""

SENTENCES: Mapping[Reason, str] = MappingProxyType({reason: entry.sentence for reason, entry in ENTRIES.items()})


class AdmissionWarning(msgspec.Struct, frozen=True):
    """A sentence for the person who created the pod.

    ``reason`` is set when the pod will not get all that its profile promises: the outcome is then *degraded*.
    """

    text: str
    reason: Reason | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one pod."""

    kind: Kind
    reason: Reason
    profile: str = ""
    """The profile that was applied or, with ``observe``, tried; empty for pods that the webhook leaves alone."""
    operations: list[Operation] = []
    steps: list[str] = []
    """The injection steps that changed something, in order."""
    warnings: list[str] = []
    message: str = ""
    """The message for the user when the pod is refused."""

    @property
    def allowed(self) -> bool:
        """Whether the pod may be created."""
        return self.kind is not Kind.REFUSE


class Refused(Exception):
    """The end of a decision. It becomes an :class:`Outcome` of kind *refuse* and never leaves the core."""

    def __init__(self, reason: Reason, message: Message) -> None:
        self.reason = reason
        self.found = message
        self.message = message.advice
        super().__init__(self.message)


def fit(text: str) -> str:
    """Returns ``text``, escaped and cut to the length that the API server asks of a warning."""
    shown = printable(text[: WARNING_LIMIT + 1])
    return shown if len(shown) <= WARNING_LIMIT else shown[: WARNING_LIMIT - 3] + "..."


def refusal(reason: Reason, message: str) -> Outcome:
    """Returns the outcome for a pod that is refused; a long message is cut."""
    text = message if len(message) <= MESSAGE_LIMIT else f"{message[:MESSAGE_LIMIT]}..."
    return Outcome(kind=Kind.REFUSE, reason=reason, message=text)


def fit_all(texts: Sequence[str]) -> list[str]:
    """Returns as many warnings as a person reads, each :func:`fit`, and the number of the others."""
    if len(texts) <= MAX_WARNINGS:
        return [fit(text) for text in texts]
    return [*map(fit, texts[: MAX_WARNINGS - 1]), str(opting.MORE_WARNINGS.say(count=len(texts) - MAX_WARNINGS + 1))]
