"""What is kept of a run: its files without what tells whose machine it is, and ``RESULT.json``."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tests.gpu.model import NOT_TRIED_CODE, Machine, Ran, Result, Step, StepResult, Verdict, Word
from tests.gpu.redact import Redactor
from webhook.words.printable import fitted

RESULT = "RESULT.json"
NO_GPU = "no GPU of this machine can be seen"


def redacted(files: Mapping[str, bytes], redactor: Redactor) -> dict[str, bytes]:
    """The same files without what tells whose machine it is; empty ones are left out."""
    return {
        redactor.text(name): redactor.text(content.decode(errors="replace")).encode()
        for name, content in files.items()
        if content
    }


def result(
    *,
    version: str,
    at: datetime,
    machine: Machine,
    verdicts: Sequence[Verdict],
    ran: Sequence[Ran],
    results: Sequence[StepResult],
    is_whole: bool,
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
        is_whole=is_whole,
        results=tuple(results),
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


def step_result(step: Step, ran: Ran | None, *, has_gpu: bool) -> StepResult:
    """What became of a step. What was not tried never counts as passed, and a step that never ended fails."""
    word, why = _judged(step, ran, has_gpu=has_gpu)
    return StepResult(step=step.name, says=step.says, verdict=word, why=fitted(why))


def _judged(step: Step, ran: Ran | None, *, has_gpu: bool) -> tuple[Word, str]:
    if step.needs_gpu and not has_gpu:
        return Word.NOT_TRIED, NO_GPU
    if step.hindrance:
        return Word.NOT_TRIED, step.hindrance
    if ran is None:
        return Word.NOT_TRIED, "the run was ended before"
    if ran.exit_code is None:
        return (Word.FAILS if ran.timed_out else Word.NOT_TRIED), ran.problem
    if ran.exit_code in step.expected:
        return Word.HOLDS, ran.said
    if ran.exit_code == NOT_TRIED_CODE:
        return Word.NOT_TRIED, ran.said or "it could not be tried"
    end = f"exit code {ran.exit_code}" if ran.exit_code >= 0 else f"it was ended by signal {-ran.exit_code}"
    return Word.FAILS, f"{end}: {ran.said or f'see {ran.files[0]} in the archive'}"
