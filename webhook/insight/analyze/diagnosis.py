"""The model of a finding of ``analyze``: its severity, its object, and its text."""

import enum

import msgspec

from webhook.words.catalogue.entry import Message


class Severity(enum.StrEnum):
    """The severity of a finding, the worst first."""

    ERROR = "error"
    """Something does not work: pods are refused or stopped, use no NVLink at all, or have cards that others get too."""
    WARNING = "warning"
    """Something is lost, or slower than it could be."""
    INFO = "info"
    """Something is not known."""
    HINT = "hint"
    """Something looks odd and may be in order. No exit code depends on it."""

    @property
    def rank(self) -> int:
        """The place of the severity in the order; 0 is the worst."""
        return list(Severity).index(self)


class Holder(msgspec.Struct, frozen=True):
    """The object of a finding."""

    kind: str
    namespace: str
    """The namespace of the object; empty for an object outside namespaces."""
    name: str
    owner: str = ""
    """The workload that made the object, such as ``Deployment train``. Findings of one owner are shown together."""

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


class Diagnosis(msgspec.Struct, frozen=True):
    """One finding of ``analyze``."""

    severity: Severity
    code: str
    """The code of the message in the catalogue."""
    holder: Holder
    text: str
    """The problem, in a clause without a full stop."""
    fix: str
    """The remedy, in the imperative; empty if there is none."""
    decides: bool = False
    """Whether this finding decides the word for a pod (webhook.insight.explain.nvlink)."""

    @property
    def page(self) -> str:
        """The place in the documentation that explains the code."""
        return f"messages.md#{self.code.lower()}"


def error(holder: Holder, message: Message) -> Diagnosis:
    """Returns a finding of severity ``error``."""
    return Diagnosis(Severity.ERROR, message.code, holder, message.text, message.fix)


def warning(holder: Holder, message: Message) -> Diagnosis:
    """Returns a finding of severity ``warning``."""
    return Diagnosis(Severity.WARNING, message.code, holder, message.text, message.fix)


def info(holder: Holder, message: Message) -> Diagnosis:
    """Returns a finding of severity ``info``."""
    return Diagnosis(Severity.INFO, message.code, holder, message.text, message.fix)


def hint(holder: Holder, message: Message) -> Diagnosis:
    """Returns a finding of severity ``hint``."""
    return Diagnosis(Severity.HINT, message.code, holder, message.text, message.fix)
