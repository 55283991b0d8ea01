"""A text is cut into documents, and nothing of it is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.manifest.stream import split

LINES = st.sampled_from(
    ["---", "--- # c", "--- {a: b}", "...", "%YAML 1.1", "# c", "", "a: b", "a: |+", "  x", "\ufeff", "---a", "-", "\t"]
)
TEXTS = st.lists(LINES, max_size=12).flatmap(lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda e: e.join(lines)))


@given(st.one_of(TEXTS, st.text(max_size=60)))
def test_the_parts_put_together_are_the_text(text: str) -> None:
    assert "".join(part.lead + part.body + part.tail for part in split(text)) == text


@given(TEXTS)
def test_a_part_says_on_which_line_its_document_begins(text: str) -> None:
    before = ""
    for part in split(text):
        before += part.lead
        if part.body:
            assert part.line == before.count("\n") + 1
        before += part.body + part.tail


@pytest.mark.parametrize(
    ("text", "bodies"),
    [
        ("", []),
        ("# only a comment\n", []),
        ("---\n---\n", []),
        ("---\n# Source: x\n---\na: b\n", ["a: b\n"]),
        ("a: b\n---\nc: d", ["a: b\n", "c: d"]),
        ("a: b\r\n--- # c\r\nc: d\r\n", ["a: b\r\n", "c: d\r\n"]),
        ("a: b\n# end\n\n---\n", ["a: b\n"]),
        ("--- {a: b}\n", ["--- {a: b}\n"]),
        ("%YAML 1.1\n---\na: b\n", ["%YAML 1.1\n---\na: b\n"]),
        ("a: b\n...\n%YAML 1.1\n---\nc: d\n", ["a: b\n", "%YAML 1.1\n---\nc: d\n"]),
        ("a: |+\n  b\n\n---\nc: d\n", ["a: |+\n  b\n\n", "c: d\n"]),
        ("a: ---b\n---c: d\n", ["a: ---b\n---c: d\n"]),
        ("\ufeffa: b\n---\n\ufeffc: d\n", ["a: b\n", "c: d\n"]),
    ],
)
def test_documents_are_found_between_their_separators(text: str, bodies: list[str]) -> None:
    assert [part.body for part in split(text) if part.body] == bodies
