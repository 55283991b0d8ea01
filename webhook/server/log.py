"""One JSON line for each review, with names and reasons but never the value of a variable."""

import os
from typing import Any

import msgspec

from webhook.model.binding import BindOutcome
from webhook.model.binding_review import BindingRequest
from webhook.model.outcome import Outcome
from webhook.model.review import Request


class _Line(msgspec.Struct, omit_defaults=True, rename="camel"):
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


class _Lines:
    """Writes lines to the file descriptor ``descriptor``, each with one write so that lines never mix."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._encoder = msgspec.json.Encoder()

    def _write(self, line: Any) -> None:
        try:  # noqa: SIM105 - suppress() costs as much as the write
            os.write(self._descriptor, self._encoder.encode(line) + b"\n")
        except OSError:
            pass  # pods must not wait for whoever no longer reads the log


class StateLog(_Lines):
    """What the server hears of the cluster, one line for each thing that changed."""

    def said(self, text: str) -> None:
        """Something was found, is wrong, or is right again."""
        self._write({"message": "state", "text": text})

    def failed(self, traceback: str) -> None:
        """What keeps the state met a bug of ours."""
        self._write({"message": "bug", "error": traceback})


class ReviewLog(_Lines):
    """One line for each review."""

    def admitted(self, request: Request, outcome: Outcome, microseconds: int) -> None:
        """A review of a pod was answered."""
        pod = request.object
        line = _Line(
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
        self._write(line)

    def bound(self, request: BindingRequest, outcome: BindOutcome, *, microseconds: int, waiting: int) -> None:
        """A review of a Binding was answered, after ``waiting`` of the ``microseconds`` for the pod."""
        binding = request.object
        line = _BindingLine(
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
        self._write(line)

    def rejected(self, status: int, error: str) -> None:
        """A request was no review that we can answer."""
        self._write({"message": "rejected", "status": status, "error": error})

    def failed(self, traceback: str) -> None:
        """A review met a bug of ours."""
        self._write({"message": "bug", "status": 500, "error": traceback})
