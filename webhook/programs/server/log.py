"""The log of the server: one JSON line for each review, with names and reasons but never the value of a variable."""

from datetime import datetime

import msgspec

from webhook.objects.binding import BindOutcome
from webhook.objects.binding_review import BindingRequest
from webhook.objects.review import Request
from webhook.programs.log import Level, Log
from webhook.words.outcome import Outcome


class _Line(msgspec.Struct, omit_defaults=True, rename="camel"):
    time: datetime
    level: Level
    message: str
    uid: str
    namespace: str
    name: str
    outcome: str
    reason: str
    microseconds: int
    profile: str = ""
    warnings: list[str] = []
    dry_run: bool = False
    error: str = ""


class _BindingLine(msgspec.Struct, omit_defaults=True, rename="camel", kw_only=True):
    time: datetime
    level: Level
    message: str
    uid: str
    namespace: str
    name: str
    node: str
    outcome: str
    reason: str
    microseconds: int
    waiting_microseconds: int
    profile: str = ""
    link: str = ""
    satisfied: bool | None = None
    warnings: list[str] = []
    dry_run: bool = False
    error: str = ""


class ReviewLog(Log):
    """The log of the server. A review is ``info`` even if it is refused, because a refusal answers a user's mistake."""

    def admitted(self, request: Request, outcome: Outcome, microseconds: int) -> None:
        """Log an answered review of a pod."""
        pod = request.object
        line = _Line(
            self.now(),
            "info",
            "admission",
            request.uid,
            request.namespace,
            pod.display_name if pod else request.name,
            outcome.kind,
            outcome.reason,
            microseconds,
            outcome.profile,
            outcome.warnings,
            bool(request.dry_run),
            outcome.message,
        )
        self.write(line)

    def bound(self, request: BindingRequest, outcome: BindOutcome, *, microseconds: int, waiting: int) -> None:
        """Log an answered review of a Binding. It waited ``waiting`` of its ``microseconds`` for pods and claims."""
        binding = request.object
        line = _BindingLine(
            time=self.now(),
            level="info",
            message="binding",
            uid=request.uid,
            namespace=request.namespace,
            name=request.pod_name,
            node=binding.node if binding else "",
            outcome=outcome.kind,
            reason=outcome.reason,
            microseconds=microseconds,
            waiting_microseconds=waiting,
            profile=outcome.profile or "",
            link=outcome.link,
            satisfied=outcome.satisfied,
            warnings=[text for text in outcome.warnings if text != outcome.message],
            dry_run=bool(request.dry_run),
            error=outcome.message,
        )
        self.write(line)

    def rejected(self, status: int, error: str) -> None:
        """Log a request that is no review that we can answer."""
        self.say("warning", "rejected", status=status, error=error)

    def slow(self, path: str, status: int, *, size: int, microseconds: int) -> None:
        """Log a request of ``size`` bytes whose answer took long after it had arrived."""
        self.say("warning", "slow", path=path, status=status, bytes=size, microseconds=microseconds)

    def failed(self, traceback: str) -> None:
        """Log an unexpected exception in a review."""
        self.say("error", "bug", traceback=traceback, status=500)
