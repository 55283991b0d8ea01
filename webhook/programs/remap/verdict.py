"""What the program found out: findings, the code that it ends with and the reason for it."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from webhook.decisions.resolve.node import KnownNode
from webhook.decisions.resolve.resolve import Resolution


class ExitCode(IntEnum):
    """How the program ends: docs/injection.md, section 12."""

    TRUE = 0
    """What the pod was given is true, or nothing says otherwise."""
    WRONG_USAGE = 2
    NOT_BOUND = 10
    """A value was never resolved: the binding webhook did not run."""
    GPU_MISSING = 11
    OTHER_GPUS = 12
    """A value names other GPUs than the allocated ones."""
    MIG = 13
    PRELOADED = 14
    REQUIREMENT = 15
    NOTHING_TO_VERIFY_WITH = 16
    BAD_VARIABLE = 17
    NOT_WRITTEN = 18
    GPU_UNSEEN = 19
    """Host indices do not hold."""
    BUG = 20
    LATE = 21
    """It was not done in time, as when the driver gives no answer."""


class State(StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """One check, with its evidence in a sentence."""

    text: str
    state: State = State.OK
    code: ExitCode = ExitCode.TRUE
    """What the program ends with for it."""


def ok(text: str) -> CheckResult:
    """Something is as it should be."""
    return CheckResult(text=text)


def warning(text: str) -> CheckResult:
    """Something that the pod may run with."""
    return CheckResult(text=text, state=State.WARNING)


def failed(code: ExitCode, text: str) -> CheckResult:
    """Something that the pod may not run with."""
    return CheckResult(text=text, state=State.FAILED, code=code)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Everything that was found out."""

    findings: tuple[CheckResult, ...]
    """In the order in which they matter: the first that failed is the reason."""
    node: KnownNode | None = None
    """What the values were verified with."""
    resolution: Resolution | None = None
    """What the values should be; None if that cannot be known."""

    @property
    def code(self) -> ExitCode:
        """What the program ends with, as far as this verdict decides."""
        failure = self._failure
        return failure.code if failure else ExitCode.TRUE

    @property
    def reason(self) -> str:
        """In one line, why the pod may or may not run."""
        failure = self._failure
        if failure:
            return failure.text
        if self.resolution is None:
            return "ok: nothing is known of the GPUs of this pod, and nothing says that they are wrong"
        count = len(self.resolution.gpus)
        given = "GPU of this pod is the one that it was" if count == 1 else f"{count} GPUs of this pod are those it was"
        return f"ok: the {given} given"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences."""
        return tuple(finding.text for finding in self.findings if finding.state is State.WARNING)

    @property
    def _failure(self) -> CheckResult | None:
        return next((finding for finding in self.findings if finding.state is State.FAILED), None)
