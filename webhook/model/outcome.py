"""What became of a pod, and why, in a closed vocabulary that responses, logs, metrics and people share."""

import enum
from collections.abc import Sequence

import msgspec

from webhook.model.patch import Operation
from webhook.printable import printable

WARNING_LIMIT = 119  # admission warnings should stay under 120 characters: k8s.io/api/admission/v1, AdmissionResponse
MESSAGE_LIMIT = 4096
"""Characters of the message of a refusal, and of an answer that is no review. A user's text may be in it, of any length
that the API server takes."""
MAX_WARNINGS = 30
"""Of these at most 34 reach the user: apiserver pkg/endpoints/filters/warning.go, truncateAtTotalRunes."""


class Kind(enum.StrEnum):
    """The four ways in which an admission can end."""

    SKIP = "skip"
    PATCH = "patch"
    DEGRADED = "degraded"
    REFUSE = "refuse"


class Reason(enum.StrEnum):
    """Why; ``SENTENCES`` says it to people."""

    NOT_A_CREATE = "not-a-create"
    NAMESPACE_UNKNOWN = "namespace-unknown"
    NAMESPACE_NOT_ENABLED = "namespace-not-enabled"
    MIRROR_POD = "mirror-pod"
    OPTED_OUT = "opted-out"
    NO_GPU_REQUEST = "no-gpu-request"
    MIG_REQUEST = "mig-request"
    VGPU_SLICE = "vgpu-slice"
    NOT_REQUESTED = "not-requested"
    NO_CONTAINER_SELECTED = "no-container-selected"

    INJECTED = "injected"
    ALREADY_INJECTED = "already-injected"
    OBSERVED = "observed"

    NAMESPACE_WITHHELD = "namespace-withheld"
    INIT_CONTAINER_FAULT = "init-container-fault"
    NO_TOPOLOGY_FILE = "no-topology-file"

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
    OVER_LIMIT = "over-limit"


SENTENCES: dict[Reason, str] = {
    Reason.NOT_A_CREATE: "Only the creation of a pod is looked at.",
    Reason.NAMESPACE_UNKNOWN: "The namespace is not known here, so nothing can be said about the pod.",
    Reason.NAMESPACE_NOT_ENABLED: "The namespace has not opted in.",
    Reason.MIRROR_POD: "The kubelet shows a static pod of its node, which runs as its file says.",
    Reason.OPTED_OUT: "The pod has opted out.",
    Reason.NO_GPU_REQUEST: "No container asks for a GPU.",
    Reason.MIG_REQUEST: "The pod asks for MIG devices, which have no NVLink.",
    Reason.VGPU_SLICE: "The pod asks for a vGPU slice and did not say that it wants whole cards.",
    Reason.NOT_REQUESTED: "Injection was not asked for, and the pod does not get it unasked.",
    Reason.NO_CONTAINER_SELECTED: "None of the containers that the namespace names asks for a GPU.",
    Reason.INJECTED: "The pod was prepared for NVLink.",
    Reason.ALREADY_INJECTED: "The pod has everything already.",
    Reason.OBSERVED: "The pod was left as it is; warnings say what the profile would do.",
    Reason.NAMESPACE_WITHHELD: "The pod refuses a host namespace that its profile needs.",
    Reason.INIT_CONTAINER_FAULT: "HAMi 2.10.0 will offer this pod's cards to others once its init containers finish.",
    Reason.NO_TOPOLOGY_FILE: "The remap carrier of this cluster cannot write a topology file.",
    Reason.BAD_ANNOTATION: "An annotation has a value that cannot be read.",
    Reason.UNKNOWN_OUTPUT: "A variable takes its value from an annotation that nobody will write.",
    Reason.BAD_RESOURCE: "A GPU resource cannot be read, or containers ask for GPUs of two device plugins.",
    Reason.UNKNOWN_CONTAINER: "The pod names a container that asks for no GPU, or that it does not have.",
    Reason.MISSING_PERMISSION: "The pod needs something that its namespace is not allowed.",
    Reason.CONTRADICTS_PROFILE: "The pod sets something that its profile has to set differently.",
    Reason.MIXED_CARDS: "Whole cards and a vGPU slice cannot be kept apart in this pod.",
    Reason.DEVICE_LIST_STRATEGY: "The profile needs the device list strategy envvar.",
    Reason.MOUNT_PATH_TAKEN: "The pod mounts something where our files have to be.",
    Reason.CARRIER_UNAVAILABLE: "The remap carrier that the pod asks for does not work on this cluster.",
    Reason.OVER_LIMIT: "The pod has, or would get, more of something than the configuration allows.",
}


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
    """The profile that was applied or, with ``observe``, tried; empty for pods that are not ours."""
    operations: list[Operation] = []
    steps: list[str] = []
    """The injection steps that changed something, in order."""
    warnings: list[str] = []
    message: str = ""
    """What to tell the user when the pod is refused."""

    @property
    def allowed(self) -> bool:
        """Whether the pod may be created."""
        return self.kind is not Kind.REFUSE


class Refused(Exception):
    """Raised inside a decision to end it; becomes an :class:`Outcome` of kind *refuse* and never leaves the core."""

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason, self.message = reason, message
        super().__init__(message)


def fit(text: str) -> str:
    """``text``, escaped and cut to the length that the API server asks of a warning."""
    shown = printable(text[: WARNING_LIMIT + 1])
    return shown if len(shown) <= WARNING_LIMIT else shown[: WARNING_LIMIT - 3] + "..."


def refusal(reason: Reason, message: str) -> Outcome:
    """The outcome for a pod that is refused; a long message is cut."""
    text = message if len(message) <= MESSAGE_LIMIT else f"{message[:MESSAGE_LIMIT]}..."
    return Outcome(kind=Kind.REFUSE, reason=reason, message=text)


def fit_all(texts: Sequence[str]) -> list[str]:
    """As many of these warnings as a person reads, each :func:`fit`, and how many there are more."""
    if len(texts) <= MAX_WARNINGS:
        return [fit(text) for text in texts]
    return [*map(fit, texts[: MAX_WARNINGS - 1]), f"{len(texts) - MAX_WARNINGS + 1} more warnings"]
