"""The model of a report on a pod: its conditions, each with a verdict."""

import enum

import msgspec

from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.remedies import Remedy
from webhook.words.patch import Operation


class Verdict(enum.StrEnum):
    """The verdict on a condition for NVLink."""

    HOLDS = "holds"
    FAILS = "fails"
    UNKNOWN = "unknown"
    """The condition depends on something that is not known here, or not known yet."""
    NOT_NEEDED = "not-needed"
    HINT = "hint"
    """Something looks odd and may be in order. It is shown, and decides nothing."""


class Finding(msgspec.Struct, frozen=True):
    """One condition with its verdict."""

    condition: str
    """Name of the condition, such as ``whole-cards``."""
    verdict: Verdict
    evidence: str
    """The observation that decides, in a sentence without a full stop."""
    remedy: str = ""
    """The action that helps; empty if there is none."""
    stops: bool = False
    """Whether this condition alone keeps NCCL from using any NVLink while it fails."""
    code: str = ""
    """Code of the message in the catalogue; empty for findings without a message."""

    @property
    def fails(self) -> bool:
        """Whether the condition does not hold."""
        return self.verdict is Verdict.FAILS


class Group(msgspec.Struct, frozen=True):
    """Conditions that belong together, with a title."""

    title: str
    findings: tuple[Finding, ...]


class Reach(enum.StrEnum):
    """The extent to which NCCL can use NVLink between the GPUs of a pod, as far as is known here."""

    ALL = "all"
    SOME = "some"
    """NCCL can use NVLink between some of the GPUs only, or something may keep NCCL from using it."""
    NONE = "none"
    UNKNOWN = "unknown"
    NOTHING_TO_JOIN = "nothing-to-join"
    """The pod has no two GPUs that work together."""


class Nvlink(enum.StrEnum):
    """Whether a pod really has NVLink. What its links could carry is another thing."""

    YES = "yes"
    """Every condition that decides holds, and the start of the pod was verified, or bytes were counted or measured."""
    NO = "no"
    """A condition fails without which NCCL uses no NVLink, or some GPUs have none, or the pod was stopped."""
    UNKNOWN = "unknown"
    """A condition that decides is not known or fails without being certain to cost NVLink, or nothing verified the
    start."""
    NOTHING_TO_JOIN = "-"
    """The pod has no two GPUs that work together."""


class Change(msgspec.Struct, frozen=True):
    """A remedy as data."""

    target: Remedy
    """What is changed: ``POD``, with the template that makes it, or ``NAMESPACE``."""
    patch: tuple[Operation, ...]
    """A JSON Patch (RFC 6902) of the pod or of the Namespace."""


class Judgement(msgspec.Struct, frozen=True):
    """Whether a pod really has NVLink, and why."""

    nvlink: Nvlink
    reason: str
    """The observation that decides, in a clause without a full stop."""
    remedy: str = ""
    """What to do first; empty if there is nothing to do."""
    code: str = ""
    """The code of the message that decides; empty where there is none."""
    condition: str = ""
    """The condition that decides; empty where none does alone."""
    sureness: str = ""
    """How sure the cause is that decides: :class:`webhook.insight.explain.causes.Sureness`; empty if none does."""
    change: Change | None = None
    """The remedy as data; ``None`` where no change of the pod or of its namespace is one."""


class Report(msgspec.Struct, frozen=True):
    """All findings about one pod."""

    pod: str
    """The pod as ``namespace/name``."""
    node: str
    """The node of the pod; empty if it has none."""
    reach: Reach
    conclusion: str
    """The conclusion, in one sentence."""
    judgement: Judgement
    """Whether the pod really has NVLink, and what decides."""
    groups: tuple[Group, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All conditions, in order."""
        return tuple(finding for group in self.groups for finding in group.findings)

    @property
    def fails(self) -> bool:
        """Whether some condition does not hold."""
        return any(finding.fails for finding in self.findings)


def holds(condition: str, evidence: str) -> Finding:
    """Returns a condition that holds."""
    return Finding(condition, Verdict.HOLDS, evidence)


def fails(condition: str, message: Message, *, stops: bool = False) -> Finding:
    """Returns a condition that does not hold."""
    return Finding(condition, Verdict.FAILS, message.text, message.fix, stops, message.code)


def unknown(condition: str, message: Message) -> Finding:
    """Returns a condition of which it is not known whether it holds."""
    return Finding(condition, Verdict.UNKNOWN, message.text, message.fix, code=message.code)


def hint(condition: str, message: Message) -> Finding:
    """Returns a hint: something that looks odd and may be in order."""
    return Finding(condition, Verdict.HINT, message.text, message.fix, code=message.code)


def not_needed(condition: str, evidence: str) -> Finding:
    """Returns a condition that does not matter to this pod."""
    return Finding(condition, Verdict.NOT_NEEDED, evidence)
