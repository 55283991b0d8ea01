"""One JSON line for each admission, with names and reasons but never the value of a variable."""

import os
from typing import Any

import msgspec

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


class AdmissionLog:
    """Writes lines to the file descriptor ``descriptor``, each with one write so that lines never mix."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._encoder = msgspec.json.Encoder()

    def admitted(self, request: Request, outcome: Outcome, microseconds: int) -> None:
        """A review was answered."""
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

    def rejected(self, status: int, error: str) -> None:
        """A request was no review that we can answer."""
        self._write({"message": "rejected", "status": status, "error": error})

    def failed(self, traceback: str) -> None:
        """A review met a bug of ours."""
        self._write({"message": "bug", "status": 500, "error": traceback})

    def _write(self, line: Any) -> None:
        try:  # noqa: SIM105 - suppress() costs as much as the write
            os.write(self._descriptor, self._encoder.encode(line) + b"\n")
        except OSError:
            pass  # pods must not wait for whoever no longer reads the log
