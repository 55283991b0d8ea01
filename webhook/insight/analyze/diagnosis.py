"""What is wrong, and with which object."""

import enum

import msgspec

from webhook.words.catalogue.entry import Message


class Severity(enum.StrEnum):
    """How bad it is, the worst first."""

    ERROR = "error"
    """Something does not work: pods are refused or stopped, or use no NVLink at all."""
    WARNING = "warning"
    """Something is lost, or slower than it could be."""
    INFO = "info"
    """Something is not known."""
    HINT = "hint"
    """Something looks odd and may be in order. No exit code depends on it."""

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Severity).index(self)


class Holder(msgspec.Struct, frozen=True):
    """The object of a finding."""

    kind: str
    namespace: str
    """Empty where it has none."""
    name: str
    owner: str = ""
    """The workload that made it, such as ``Deployment train``; objects of one owner are told of together."""

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


class Diagnosis(msgspec.Struct, frozen=True):
    """One finding."""

    severity: Severity
    code: str
    """Of the catalogue."""
    holder: Holder
    text: str
    """A clause without a full stop."""
    fix: str
    """What to do, in the imperative; empty if there is nothing to do."""

    @property
    def page(self) -> str:
        """Where the documents explain the code."""
        return f"messages.md#{self.code.lower()}"


def error(holder: Holder, message: Message) -> Diagnosis:
    """Something does not work."""
    return Diagnosis(Severity.ERROR, message.code, holder, message.text, message.fix)


def warning(holder: Holder, message: Message) -> Diagnosis:
    """Something is lost."""
    return Diagnosis(Severity.WARNING, message.code, holder, message.text, message.fix)


def info(holder: Holder, message: Message) -> Diagnosis:
    """Something is not known."""
    return Diagnosis(Severity.INFO, message.code, holder, message.text, message.fix)
