"""JSON pointers with awkward keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonpointer import resolve_pointer

from webhook.words.patch import pointer


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((), ""),
        (("a", 0, "b"), "/a/0/b"),
        (("a/b", "c~d"), "/a~1b/c~0d"),
        (("~1", "~0", "/~"), "/~01/~00/~1~0"),
        (("", "-", "."), "//-/."),
        (("metadata", "annotations", "gpu.topology/injected"), "/metadata/annotations/gpu.topology~1injected"),
    ],
)
def test_tilde_and_slash_are_escaped(parts: tuple[str | int, ...], text: str) -> None:
    assert pointer(*parts) == text


@given(st.lists(st.text(alphabet="~/.01ab- ", max_size=5), min_size=1, max_size=4))
def test_another_library_finds_the_value_that_is_pointed_at(parts: list[str]) -> None:
    document: object = "here"
    for part in reversed(parts):
        document = {part: document}
    assert resolve_pointer(document, pointer(*parts)) == "here"
