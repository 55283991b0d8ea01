"""The verdict of the program: its findings, its exit code and the reason."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from webhook.decisions.resolve.node import KnownNode
from webhook.decisions.resolve.resolve import Resolution


class ExitCode(IntEnum):
    """The exit codes of the program (docs/injection.md, section 12)."""

    TRUE = 0
    """The values of the pod are true, or nothing contradicts them."""
    WRONG_USAGE = 2
    NOT_BOUND = 10
    """A value was never resolved, because the binding webhook did not run."""
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
    """Host indices are wrong, because some GPU of the node is not seen."""
    BUG = 20
    LATE = 21
    """The run took too long, for example because the driver gives no answer."""


class State(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """The result of one check, with its evidence in a sentence."""

    text: str
    state: State = State.OK
    code: ExitCode = ExitCode.TRUE
    """The exit code of the program for this result."""


def ok(text: str) -> CheckResult:
    """Returns the result of a check without a problem."""
    return CheckResult(text=text)


def warning(text: str) -> CheckResult:
    """Returns the result of a check with a problem that the pod may run with."""
    return CheckResult(text=text, state=State.WARNING)


def failed(code: ExitCode, text: str) -> CheckResult:
    """Returns the result of a check with a problem that the pod may not run with."""
    return CheckResult(text=text, state=State.FAILED, code=code)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The result of the verification."""

    findings: tuple[CheckResult, ...]
    """The results of the checks, the most important first. The first failed one gives the reason."""
    node: KnownNode | None = None
    """The node with which the values were verified."""
    resolution: Resolution | None = None
    """The right values; None if they cannot be known."""

    @property
    def code(self) -> ExitCode:
        """The exit code, unless the program fails after this verdict."""
        failure = self._failure
        return failure.code if failure else ExitCode.TRUE

    @property
    def reason(self) -> str:
        """The reason why the pod may or may not run, in one line."""
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
        """The sentences of the warnings."""
        return tuple(finding.text for finding in self.findings if finding.state is State.WARNING)

    @property
    def _failure(self) -> CheckResult | None:
        return next((finding for finding in self.findings if finding.state is State.FAILED), None)
