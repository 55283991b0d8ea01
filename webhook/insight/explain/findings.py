"""What is found of a pod, one condition after the other."""

import enum

import msgspec

from webhook.words.catalogue.entry import Message


class Verdict(enum.StrEnum):
    """Whether a condition for NVLink holds."""

    HOLDS = "holds"
    FAILS = "fails"
    UNKNOWN = "unknown"
    """It depends on something that is not known here, or not known yet."""
    NOT_NEEDED = "not-needed"
    HINT = "hint"
    """Something looks odd and may be in order: it is said, and nothing follows from it."""


class Finding(msgspec.Struct, frozen=True):
    """One condition."""

    condition: str
    """Its name, such as ``whole-cards``."""
    verdict: Verdict
    evidence: str
    """What was seen, in a sentence without a full stop."""
    remedy: str = ""
    """What to do about it."""
    stops: bool = False
    """Whether NCCL uses no NVLink at all while the condition fails, whatever else holds."""
    code: str = ""
    """Of the message in the catalogue."""

    @property
    def fails(self) -> bool:
        """Whether the condition does not hold."""
        return self.verdict is Verdict.FAILS


class Group(msgspec.Struct, frozen=True):
    """Conditions that belong together."""

    title: str
    findings: tuple[Finding, ...]


class Reach(enum.StrEnum):
    """Between how many of the pod's GPUs NCCL can use NVLink, as far as is known here."""

    ALL = "all"
    SOME = "some"
    """Between some of them only, or something may keep NCCL from it."""
    NONE = "none"
    UNKNOWN = "unknown"
    NOTHING_TO_JOIN = "nothing-to-join"
    """There are no two GPUs that would have to reach each other."""


class Report(msgspec.Struct, frozen=True):
    """Everything that is found of one pod."""

    pod: str
    """``namespace/name``."""
    node: str
    """Empty if it has none."""
    reach: Reach
    conclusion: str
    """One sentence."""
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
    """A condition that holds."""
    return Finding(condition, Verdict.HOLDS, evidence)


def fails(condition: str, message: Message, *, stops: bool = False) -> Finding:
    """A condition that does not hold."""
    return Finding(condition, Verdict.FAILS, message.text, message.fix, stops, message.code)


def unknown(condition: str, message: Message) -> Finding:
    """A condition of which nothing can be said."""
    return Finding(condition, Verdict.UNKNOWN, message.text, message.fix, code=message.code)


def hint(condition: str, message: Message) -> Finding:
    """Something that may be in order."""
    return Finding(condition, Verdict.HINT, message.text, message.fix, code=message.code)


def not_needed(condition: str, evidence: str) -> Finding:
    """A condition that does not matter to this pod."""
    return Finding(condition, Verdict.NOT_NEEDED, evidence)
