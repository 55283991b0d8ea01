"""What is kept of a run: its files without what tells whose machine it is, and ``RESULT.json``."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from webhook.acceptance.model import Machine, Ran, Result, Verdict
from webhook.acceptance.redact import Redactor

RESULT = "RESULT.json"


def redacted(files: Mapping[str, bytes], redactor: Redactor) -> dict[str, bytes]:
    """The same files without what tells whose machine it is; empty ones are left out."""
    texts = {name: redactor.text(content.decode(errors="replace")) for name, content in files.items() if content}
    return {redactor.text(name): text.encode() for name, text in texts.items()}


def result(  # noqa: PLR0913 - one argument for each member
    *,
    version: str,
    at: datetime,
    machine: Machine,
    verdicts: Sequence[Verdict],
    ran: Sequence[Ran],
    files: Mapping[str, bytes],
    redactor: Redactor,
) -> bytes:
    """The text of ``RESULT.json``, redacted like the others."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    found = Result(
        version=version,
        at=at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine=machine,
        verdicts=tuple(verdicts),
        steps=tuple(ran),
        sha256={},
    )
    whole = msgspec.json.decode(redactor.text(msgspec.json.encode(found).decode()))
    return msgspec.json.format(msgspec.json.encode({**whole, "sha256": digests}), indent=2) + b"\n"
