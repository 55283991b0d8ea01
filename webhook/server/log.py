"""One JSON line for each admission, with names and reasons but never the value of a variable."""

from typing import BinaryIO

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
    steps: list[str] = []
    warnings: list[str] = []
    dry_run: bool = False
    error: str = ""


class AdmissionLog:
    """Writes lines to ``stream``, each with one write so that lines never mix."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
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
            outcome.steps,
            outcome.warnings,
            bool(request.dry_run),
            outcome.message,
        )
        self._stream.write(self._encoder.encode(line) + b"\n")
        self._stream.flush()

    def rejected(self, status: int, error: str) -> None:
        """A request was no review that we can answer."""
        self._stream.write(self._encoder.encode({"message": "rejected", "status": status, "error": error}) + b"\n")
        self._stream.flush()

    def failed(self, traceback: str) -> None:
        """A review met a bug of ours."""
        self._stream.write(self._encoder.encode({"message": "bug", "status": 500, "error": traceback}) + b"\n")
        self._stream.flush()
