"""What is kept of a run: its files without what tells whose machine it is, and ``RESULT.json``."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from webhook.programs.acceptance.model import Machine, Ran, Result, Verdict
from webhook.programs.acceptance.redact import Redactor

RESULT = "RESULT.json"


def redacted(files: Mapping[str, bytes], redactor: Redactor) -> dict[str, bytes]:
    """The same files without what tells whose machine it is; empty ones are left out."""
    return {
        redactor.text(name): redactor.text(content.decode(errors="replace")).encode()
        for name, content in files.items()
        if content
    }


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
    whole = {**_redacted(msgspec.to_builtins(found), redactor), "sha256": digests}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def _redacted(value: Any, redactor: Redactor) -> Any:
    """Each text of it by itself: in the text of a document a value could take the quote behind it along."""
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, dict):
        return {key: _redacted(each, redactor) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(each, redactor) for each in value]
    return value
