"""What an answer that is no success means: come back later, do not come back, or look again."""

import json

import msgspec
import pytest

from webhook.cluster.api.errors import ApiError, ApiRefused, ApiServerAway, Conflict, Denied, Expired, NotFound
from webhook.cluster.api.status import WORDS_LIMIT, Answer, failure, failure_of_event


def answer(code: int, *, message: str = "no", kind: str | None = None, retry_after: str = "") -> Answer:
    body = json.dumps({"message": message, "code": code, "details": {"kind": kind} if kind else None})
    return Answer(code, body.encode(), {"Retry-After": retry_after} if retry_after else {})


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (401, ApiServerAway),
        (408, ApiServerAway),
        (429, ApiServerAway),
        (500, ApiServerAway),
        (503, ApiServerAway),
        (504, ApiServerAway),
        (409, Conflict),
        (410, Expired),
        (403, Denied),
        (302, ApiRefused),
        (400, ApiRefused),
        (404, ApiRefused),
        (413, ApiRefused),
        (422, ApiRefused),
    ],
)
def test_a_code_says_whether_to_come_back(code: int, expected: type[ApiError]) -> None:
    found = failure("get node a", answer(code))
    assert type(found) is expected
    assert found.status == code


def test_an_object_is_missing_only_where_the_api_server_itself_says_so() -> None:
    assert type(failure("get node a", answer(404, kind="nodes"))) is NotFound
    assert type(failure("get node a", Answer(404, b"404 page not found"))) is ApiRefused


def test_the_text_has_the_words_of_the_api_server() -> None:
    found = failure("patch node a", answer(403, message='nodes "a" is forbidden: User "x" cannot patch resource'))
    assert str(found) == 'patch node a: nodes "a" is forbidden: User "x" cannot patch resource (403)'


@pytest.mark.parametrize("letter", ["a", "\x1b", "\u202e"])
def test_words_without_end_are_cut_and_obey_no_terminal(letter: str) -> None:
    text = str(failure("get node a", answer(403, message=letter * 1_000_000)))
    assert text.startswith("get node a: ")
    assert text.endswith("... (1000000 characters) (403)")
    assert len(text) <= len("get node a:  (403)") + WORDS_LIMIT
    assert text.isprintable()


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'{"message": null}', b"\xff", b"["])
def test_an_answer_that_is_no_status_is_shown(body: bytes) -> None:
    text = str(failure("get node a", Answer(502, body)))
    assert text.startswith("get node a: expected the words of an API server, found ")
    assert text.endswith(" (502)")
    assert text.isprintable()


@pytest.mark.parametrize(
    ("header", "seconds"), [("", 0.0), ("7", 7.0), ("soon", 0.0), ("-3", 0.0), ("9" * 400, 0.0), ("\u0663", 0.0)]
)
def test_the_wait_that_the_api_server_asks_for_is_kept(header: str, seconds: float) -> None:
    found = failure("get node a", answer(429, retry_after=header))
    assert isinstance(found, ApiServerAway)
    assert found.retry_after == seconds


def test_an_event_that_ends_a_watch_is_read_like_an_answer() -> None:
    found = failure_of_event("watch nodes", msgspec.Raw(b'{"kind":"Status","code":410,"message":"too old"}'))
    assert type(found) is Expired
    assert str(found) == "watch nodes: too old (410)"
    assert type(failure_of_event("watch nodes", msgspec.Raw(b"[]"))) is ApiRefused
